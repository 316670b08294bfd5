#pragma once
// Runs a step plan on the model: batch, forward, then one token for every sampling row, the rows
// shared out over the workers. Owns model and KV memory. Engine thread.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/worker_pool.h"
#include "engine/sequence.h"
#include "engine/step_plan.h"
#include "kv/kv_memory.h"
#include "model/model.h"
#include "sample/sampler.h"

namespace millrace {

// What a span gave.
struct SpanOutput {
  Result<SampledToken> sampled;              // of a sampling span
  std::vector<Result<SampledToken>> scores;  // [count] of prompt tokens begin + 1 .. begin + count
};

class Executor {
 public:
  // n_vocab: tokens that may be drawn, at most the model's logits row. logits: for the rows of a
  // step, whole rows of floats.
  Executor(std::unique_ptr<Model> model,
           KvMemory kv,
           WorkerPool& workers,
           int32_t n_vocab,
           Buffer logits);

  // sequences: those of the plan's spans, in their order. The answer is valid until the next run.
  std::span<const SpanOutput> run(const StepPlan& plan, std::span<SequenceState* const> sequences);

 private:
  // One row of logits to be turned into a token or a score.
  struct Row {
    const SequenceState* sequence = nullptr;
    int64_t position = 0;  // of the token that the row predicts
    Result<SampledToken>* answer = nullptr;
    bool is_sampling = false;
  };

  void forward(const StepPlan& plan, std::span<SequenceState* const> sequences);
  void collect_rows(const StepPlan& plan, std::span<SequenceState* const> sequences);
  void answer_row(size_t index, Sampler& sampler);

  std::unique_ptr<Model> model_;
  KvMemory kv_;
  WorkerPool& workers_;
  int32_t n_vocab_;
  int64_t row_stride_;
  Buffer logits_;  // [max_logits, row_stride] floats, committed when first used
  int64_t max_logits_;
  std::vector<Sampler> samplers_;  // one a worker
  std::vector<Span> spans_;
  std::vector<Row> rows_;
  std::vector<SpanOutput> outputs_;
};

}  // namespace millrace
