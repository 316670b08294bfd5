// Attention of one KV head: query rows that share it against a context, for every type of page.
// items/s are multiply-adds; bytes/s are KV bytes read once.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "base/buffer.h"
#include "kernels/attention.h"
#include "kernels/isa.h"

namespace millrace::kernels {
namespace {

void attend_context(benchmark::State& state) {
  const int n_tokens = static_cast<int>(state.range(0));
  const int n_heads = static_cast<int>(state.range(1));
  const auto n_context = state.range(2);
  constexpr int kDim = 128;
  const auto type = static_cast<KvType>(state.range(3));
  state.SetLabel(kv_type_name(type));
  const PageFormat format{type, kDim};
  const int64_t n_pages = (n_context + PageFormat::kTokens - 1) / PageFormat::kTokens;
  Buffer pages = Buffer::allocate(static_cast<size_t>(n_pages) * format.bytes());
  const std::vector<float> values(kDim, 0.01f);
  for (int64_t token = 0; token < n_context; ++token) {
    const int64_t page = token / PageFormat::kTokens;
    store_kv(detect_isa(),
             type,
             {.k = values.data(),
              .v = values.data(),
              .page = reinterpret_cast<uint8_t*>(pages.data()) +
                      page * static_cast<int64_t>(format.bytes()),
              .k_bytes = static_cast<int64_t>(format.k_bytes()),
              .head_dim = kDim,
              .v_dim = format.v_dim(),
              .slot = static_cast<int32_t>(token % PageFormat::kTokens)});
  }
  std::vector<uint32_t> blocks(static_cast<size_t>(n_pages));
  std::iota(blocks.begin(), blocks.end(), 0u);
  std::vector<float> q(static_cast<size_t>(n_tokens * n_heads * kDim), 0.01f);
  std::vector<float> out(q.size());
  Buffer scratch = Buffer::allocate(static_cast<size_t>(attention_scratch_floats(format.v_dim())) *
                                    sizeof(float));
  const AttentionJob job{.q = q.data(),
                         .out = out.data(),
                         .q_stride = n_heads * kDim,
                         .out_stride = n_heads * kDim,
                         .n_tokens = n_tokens,
                         .n_heads = n_heads,
                         .head_dim = kDim,
                         .v_dim = format.v_dim(),
                         .position = n_context - n_tokens,
                         .pages = reinterpret_cast<const uint8_t*>(pages.data()),
                         .block_bytes = static_cast<int64_t>(format.bytes()),
                         .k_bytes = static_cast<int64_t>(format.k_bytes()),
                         .blocks = blocks.data(),
                         .scratch = scratch.as<float>()};
  const Isa isa = detect_isa();
  for (auto _ : state) {
    attend(isa, type, job);
    benchmark::DoNotOptimize(out.data());
  }
  state.SetItemsProcessed(state.iterations() * n_tokens * n_heads * n_context * kDim * 2);
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(pages.size()));
}
// tokens, heads, context, KvType: decode with groups of 1, 2, 4, 8, then a prefill tile.
void all_cases(benchmark::internal::Benchmark* cases) {
  for (int type = 0; type < kKvTypes; ++type) {
    for (const int heads : {1, 2, 4, 8}) cases->Args({1, heads, 1024, type});
    cases->Args({1, 2, 16384, type});
    cases->Args({16, 2, 1024, type});
    cases->Args({16, 2, 256, type});
  }
}
BENCHMARK(attend_context)->Apply(all_cases);

}  // namespace
}  // namespace millrace::kernels
