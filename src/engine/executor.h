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
#include "kv/kv_tier.h"
#include "model/model.h"
#include "sample/sampler.h"
#include "spec/draft_model.h"

namespace millrace {

// What a span gave.
struct SpanOutput {
  // Of a sampling span: the next token; with drafts, one more for each that was right.
  std::vector<Result<SampledToken>> sampled;
  std::vector<Result<SampledToken>> scores;  // [count] of prompt tokens begin + 1 .. begin + count
};

class Executor {
 public:
  // n_vocab: tokens that may be drawn, at most the model's logits row. logits: bytes_per_row() for
  // each row of a step.
  Executor(std::unique_ptr<Model> model,
           KvMemory kv,
           WorkerPool& workers,
           int32_t n_vocab,
           Buffer logits,
           std::unique_ptr<DraftModel> draft_model = nullptr);

  // Of logits and their maxima.
  static int64_t bytes_per_row(const ModelSpec& spec);

  // The model that guesses, null: none. run() keeps its KV in step with prompts and copies.
  DraftModel* draft_model() { return draft_model_.get(); }
  // Where the block's content lies, of both models.
  BlockBytes block_bytes(BlockId block);

  // sequences: those of the plan's spans, in their order. The answer is valid until the next run.
  std::span<const SpanOutput> run(const StepPlan& plan, std::span<SequenceState* const> sequences);

 private:
  // Rows of logits to be turned into tokens, one after the other, or one row into a score.
  struct Question {
    SequenceState* sequence = nullptr;
    int64_t row = 0;
    int64_t position = 0;  // of the token that the row predicts
    int64_t n_drafts = 0;  // rows that follow, each behind one more draft
    SpanOutput* output = nullptr;
    int64_t score = -1;  // index among the output's scores; -1: sample
  };

  void forward(const StepPlan& plan, std::span<SequenceState* const> sequences);
  void follow_prompts(const StepPlan& plan, std::span<SequenceState* const> sequences);
  std::span<const TokenId> tokens_of(const SpanPlan& span, const SequenceState& sequence);
  void collect_questions(const StepPlan& plan, std::span<SequenceState* const> sequences);
  void answer(const Question& question, Sampler& sampler);
  void sample(const Question& question, Sampler& sampler);
  std::span<float> logits_row(int64_t row);
  std::span<float> maxima(int64_t first_row, int64_t n_rows);

  std::unique_ptr<Model> model_;
  KvMemory kv_;
  WorkerPool& workers_;
  int32_t n_vocab_;
  int64_t row_stride_;
  int64_t n_panels_;
  Buffer logits_;  // [max_logits, row_stride], then their maxima [max_logits, n_panels] as floats,
                   // committed when first used
  int64_t max_logits_;
  std::unique_ptr<DraftModel> draft_model_;
  std::vector<Sampler> samplers_;  // one a worker
  std::vector<Span> spans_;
  std::vector<TokenId> drafted_;  // tokens of the spans that have drafts, one after the other
  std::vector<Question> questions_;
  std::vector<SpanOutput> outputs_;
};

}  // namespace millrace
