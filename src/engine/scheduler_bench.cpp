// What planning and bookkeeping of a step take: plan() and apply() around an executor that only
// appends a token to each sequence.

#include <benchmark/benchmark.h>

#include <vector>

#include "base/clock.h"
#include "engine/scheduler.h"

namespace millrace {
namespace {

constexpr int64_t kPromptTokens = 500;
constexpr int64_t kAnswerTokens = 4'000;

class Decoding {
 public:
  Decoding(int64_t n_running, int64_t n_waiting)
      : tokens_(static_cast<size_t>(n_running + n_waiting)),
        scheduler_({.n_blocks = blocks_for(kPromptTokens + kAnswerTokens) * n_running,
                    .max_sequences = n_running,
                    .max_batch_tokens = 4'096,
                    .max_logits = n_running + kBlockTokens}) {
    for (SequenceId id = 0; id < tokens_.size(); ++id) {
      tokens_[id].assign(kPromptTokens, static_cast<TokenId>(id));
      tokens_[id].reserve(kPromptTokens + kAnswerTokens);
      scheduler_.submit(
          {.id = id, .n_prompt = kPromptTokens, .max_new = kAnswerTokens, .tokens = &tokens_[id]});
    }
    while (!is_decoding_) {
      step();
    }
  }

  // Seconds of plan() and apply().
  double step() {
    const TimePoint begin = Clock::now();
    StepPlan plan = scheduler_.plan();
    const TimePoint planned = Clock::now();
    results_.clear();
    is_decoding_ = true;
    for (const SpanPlan& span : plan.spans) {
      is_decoding_ = is_decoding_ && span.count == 1;
      if (span.is_sampling) {
        tokens_[span.sequence].push_back(7);
      }
      results_.push_back({.n_appended = span.is_sampling ? 1 : 0});
    }
    const TimePoint computed = Clock::now();
    scheduler_.apply(std::move(plan), results_);
    return seconds_between(begin, planned) + seconds_since(computed);
  }

 private:
  std::vector<std::vector<TokenId>> tokens_;  // of each sequence
  std::vector<SpanResult> results_;
  Scheduler scheduler_;
  bool is_decoding_ = false;
};

void BM_DecodeStep(benchmark::State& state) {
  Decoding decoding(state.range(0), state.range(1));
  for (auto _ : state) {
    state.SetIterationTime(decoding.step());
  }
}
BENCHMARK(BM_DecodeStep)
    ->ArgNames({"running", "waiting"})
    ->ArgsProduct({{64, 256, 1'024}, {0, 64}})
    ->UseManualTime()
    ->Iterations(2'000)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace millrace
