// Runs the decoder on token ids, for comparisons with other implementations:
//
//   logits_dump MODEL.gguf OUT.f32 THREADS CHUNK KV_TYPE ID...
//
// writes the logits of every position, f32 [n_ids, n_vocab]. KV_TYPE: as --kv-type, or "default".
// MILLRACE_ISA picks the instruction set, as in the program.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "base/worker_pool.h"
#include "formats/gguf.h"
#include "kernels/kv_type_name.h"
#include "model/model.h"

namespace millrace {
namespace {

int fail_with(const Error& error) {
  std::fprintf(stderr, "logits_dump: %s\n", error.message.c_str());
  return 1;
}

int dump(const char* path,
         const char* out_path,
         int n_threads,
         size_t chunk,
         const std::string& kv_name,
         std::vector<TokenId> ids) {
  const auto file = open_gguf(path);
  if (!file) return fail_with(file.error());
  WorkerPool pool(n_threads);
  LoadOptions options{.pool = &pool, .max_batch_tokens = int(chunk)};
  if (kv_name != "default") {
    const auto type = kv_type_from_name(kv_name);
    if (!type) return fail_with(type.error());
    options.kv_type = *type;
  }
  if (const char* name = std::getenv("MILLRACE_ISA"); name != nullptr && *name != '\0') {
    const auto isa = kernels::isa_from_name(name);
    if (!isa) return fail_with(isa.error());
    options.isa = *isa;
  }
  const auto model = Model::load(*file, options);
  if (!model) return fail_with(model.error());
  const ModelSpec& spec = (*model)->spec();
  for (const TokenId id : ids) {
    if (id < 0 || id >= spec.n_vocab) {
      return fail_with({ErrorCode::kInvalidArgument, "a token id is outside the vocabulary"});
    }
  }
  std::vector<BlockId> blocks(ids.size() / PageFormat::kTokens + 1);
  std::iota(blocks.begin(), blocks.end(), 0);
  auto kv = KvMemory::create(
      (*model)->page_format(), spec.n_layers, spec.n_kv_heads, int64_t(blocks.size()));
  if (!kv) return fail_with(kv.error());
  std::vector<float> logits(ids.size() * size_t(spec.n_vocab));
  for (size_t at = 0; at < ids.size(); at += chunk) {
    const auto part = std::span(ids).subspan(at, std::min(chunk, ids.size() - at));
    const Span span{part, int64_t(at), blocks, int(part.size())};
    const size_t n = part.size() * size_t(spec.n_vocab);
    (*model)->forward({{&span, 1}}, *kv, std::span(logits).subspan(at * size_t(spec.n_vocab), n));
  }
  std::FILE* out = std::fopen(out_path, "wb");
  const bool is_written =
      out != nullptr && std::fwrite(logits.data(), 4, logits.size(), out) == logits.size();
  if (out == nullptr || std::fclose(out) != 0 || !is_written) {
    return fail_with({ErrorCode::kIo, "the output cannot be written"});
  }
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  if (argc < 7) {
    std::fprintf(stderr, "usage: logits_dump MODEL.gguf OUT.f32 THREADS CHUNK KV_TYPE ID...\n");
    return 1;
  }
  std::vector<millrace::TokenId> ids;
  for (int i = 6; i < argc; ++i) ids.push_back(std::atoi(argv[i]));
  return millrace::dump(argv[1],
                        argv[2],
                        std::max(1, std::atoi(argv[3])),
                        size_t(std::max(1, std::atoi(argv[4]))),
                        argv[5],
                        std::move(ids));
}
