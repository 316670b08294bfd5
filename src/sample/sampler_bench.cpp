// Time of one draw over a vocabulary of 151,936 (Qwen 3), one thread. The rows look like a model's:
// a flat body and a head of some hundred tokens far above it.

#include <benchmark/benchmark.h>

#include <random>

#include "sample/sampler.h"

namespace millrace {
namespace {

std::vector<float> model_like_row() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 2);
  std::exponential_distribution<float> head(0.7F);
  std::vector<float> row(151'936);
  for (float& x : row) {
    x = normal(random);
  }
  for (int i = 0; i < 300; ++i) {
    row[random() % row.size()] = 10 + head(random);
  }
  return row;
}

void sample_row(benchmark::State& state, const SamplingParams& params, int n_logprobs) {
  Sampler sampler;
  std::vector<float> row = model_like_row();
  int64_t position = 0;
  for (auto _ : state) {
    auto sampled = sampler.sample({.logits = row,
                                   .params = &params,
                                   .seed = 1,
                                   .position = position++,
                                   .n_logprobs = n_logprobs});
    benchmark::DoNotOptimize(sampled);
  }
  state.SetLabel(row_scan(kernels::detect_isa()).name);
}

BENCHMARK_CAPTURE(sample_row, greedy, SamplingParams{.temperature = 0}, -1);
BENCHMARK_CAPTURE(sample_row, greedy_logprobs, SamplingParams{.temperature = 0}, 20);
BENCHMARK_CAPTURE(sample_row, unfiltered, SamplingParams{}, -1);
BENCHMARK_CAPTURE(sample_row, top_k_40, SamplingParams{.top_k = 40}, -1);
BENCHMARK_CAPTURE(sample_row, top_p_90, SamplingParams{.top_p = 0.9F}, -1);
BENCHMARK_CAPTURE(sample_row, min_p_05, SamplingParams{.min_p = 0.05F}, -1);
BENCHMARK_CAPTURE(sample_row,
                  top_k_40_top_p_95,
                  SamplingParams{.temperature = 0.8F, .top_k = 40, .top_p = 0.95F},
                  -1);

}  // namespace
}  // namespace millrace
