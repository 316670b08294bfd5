// Attention of one KV head: query rows that share it against a context, BF16 pages.
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
  const PageFormat format{KvType::kBF16, kDim};
  const int64_t n_pages = (n_context + PageFormat::kTokens - 1) / PageFormat::kTokens;
  Buffer pages = Buffer::allocate(static_cast<size_t>(n_pages) * format.bytes());
  for (size_t i = 0; i < pages.size() / 2; ++i) {
    pages.as<uint16_t>()[i] = static_cast<uint16_t>(0x3c00 + i * 7919 % 512);  // about 0.01
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
    attend(isa, KvType::kBF16, job);
    benchmark::DoNotOptimize(out.data());
  }
  state.SetItemsProcessed(state.iterations() * n_tokens * n_heads * n_context * kDim * 2);
  state.SetBytesProcessed(state.iterations() * n_context * kDim * 2 * 2);
}
// tokens, heads, context: decode with groups of 1, 2, 4, 8, then a prefill tile.
BENCHMARK(attend_context)
    ->Args({1, 1, 1024})
    ->Args({1, 2, 1024})
    ->Args({1, 4, 1024})
    ->Args({1, 8, 1024})
    ->Args({16, 2, 1024})
    ->Args({16, 2, 256});

}  // namespace
}  // namespace millrace::kernels
