#include "engine/executor.h"

#include <utility>

#include "base/check.h"

namespace millrace {

Executor::Executor(std::unique_ptr<Model> model,
                   KvMemory kv,
                   WorkerPool& workers,
                   int32_t n_vocab,
                   Buffer logits)
    : model_(std::move(model)),
      kv_(std::move(kv)),
      workers_(workers),
      n_vocab_(n_vocab),
      row_stride_(model_->spec().n_vocab),
      logits_(std::move(logits)),
      max_logits_(static_cast<int64_t>(logits_.size() / sizeof(float)) / row_stride_),
      samplers_(static_cast<size_t>(workers.size()), Sampler(model_->isa())) {
  MR_CHECK(n_vocab > 0 && n_vocab <= row_stride_, "vocabulary {} row {}", n_vocab, row_stride_);
}

void Executor::forward(const StepPlan& plan, std::span<SequenceState* const> sequences) {
  spans_.clear();
  for (size_t i = 0; i < plan.spans.size(); ++i) {
    const SpanPlan& span = plan.spans[i];
    const std::span<const TokenId> tokens(sequences[i]->tokens);
    const std::span<const BlockId> blocks(plan.blocks);
    spans_.push_back(
        {.tokens = tokens.subspan(static_cast<size_t>(span.begin), static_cast<size_t>(span.count)),
         .position = span.begin,
         .blocks = blocks.subspan(static_cast<size_t>(span.first_block),
                                  static_cast<size_t>(span.n_blocks)),
         .n_logits = static_cast<int>(span.n_logits)});
  }
  MR_CHECK(plan.n_logits <= max_logits_, "{} rows of {}", plan.n_logits, max_logits_);
  model_->forward({.spans = spans_},
                  kv_,
                  {logits_.as<float>(), static_cast<size_t>(plan.n_logits * row_stride_)});
}

// Which row answers what. A row predicts the token after its own.
void Executor::collect_rows(const StepPlan& plan, std::span<SequenceState* const> sequences) {
  rows_.clear();
  outputs_.resize(plan.spans.size());
  for (size_t i = 0; i < plan.spans.size(); ++i) {
    const SpanPlan& span = plan.spans[i];
    const SequenceState& sequence = *sequences[i];
    SpanOutput& output = outputs_[i];
    output.sampled = SampledToken{};
    output.scores.resize(static_cast<size_t>(span.n_logits));
    const int64_t end = span.begin + span.count;
    for (int64_t row = 0; row < span.n_logits; ++row) {
      const int64_t position = end - span.n_logits + row + 1;
      const bool is_sampling = span.is_sampling && position == end;
      rows_.push_back(
          {.sequence = &sequence,
           .position = position,
           .answer = is_sampling ? &output.sampled : &output.scores[static_cast<size_t>(row)],
           .is_sampling = is_sampling});
    }
  }
}

void Executor::answer_row(size_t index, Sampler& sampler) {
  const Row& row = rows_[index];
  const SequenceState& sequence = *row.sequence;
  const Request& request = sequence.request();
  const std::span<float> logits(logits_.as<float>() + static_cast<int64_t>(index) * row_stride_,
                                static_cast<size_t>(n_vocab_));
  if (row.is_sampling) {
    *row.answer = sampler.sample({.logits = logits,
                                  .params = &request.sampling,
                                  .history = sequence.has_history ? &sequence.history : nullptr,
                                  .seed = sequence.seed,
                                  .position = row.position,
                                  .banned = sequence.banned(),
                                  .n_logprobs = request.n_logprobs.value_or(-1)});
  } else if (row.position < sequence.n_prompt()) {
    *row.answer = sampler.score(logits,
                                sequence.tokens[static_cast<size_t>(row.position)],
                                request.prompt_logprobs.value_or(0));
  }
}

std::span<const SpanOutput> Executor::run(const StepPlan& plan,
                                          std::span<SequenceState* const> sequences) {
  for (const BlockCopy& copy : plan.copies) {
    kv_.copy_block(copy.from, copy.to);
  }
  if (!plan.spans.empty()) {
    forward(plan, sequences);
  }
  collect_rows(plan, sequences);
  const auto n_rows = static_cast<int64_t>(rows_.size());
  const auto answer_share = [&](int worker) {
    const Range range = share(n_rows, worker, workers_.size());
    for (int64_t i = range.begin; i < range.end; ++i) {
      answer_row(static_cast<size_t>(i), samplers_[static_cast<size_t>(worker)]);
    }
  };
  if (n_rows == 1) {
    answer_row(0, samplers_[0]);
  } else if (n_rows > 1) {
    workers_.run(answer_share);
  }
  return outputs_;
}

}  // namespace millrace
