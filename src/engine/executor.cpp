#include "engine/executor.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace millrace {

Executor::Executor(std::unique_ptr<Model> model,
                   KvMemory kv,
                   WorkerPool& workers,
                   int32_t n_vocab,
                   Buffer logits,
                   std::unique_ptr<DraftModel> draft_model)
    : model_(std::move(model)),
      kv_(std::move(kv)),
      workers_(workers),
      n_vocab_(n_vocab),
      row_stride_(model_->spec().n_vocab),
      n_panels_(model_->n_head_panels()),
      logits_(std::move(logits)),
      max_logits_(static_cast<int64_t>(logits_.size()) / bytes_per_row(model_->spec())),
      draft_model_(std::move(draft_model)) {
  MR_CHECK(n_vocab > 0 && n_vocab <= row_stride_, "vocabulary {} row {}", n_vocab, row_stride_);
  for (int worker = 0; worker < workers.size(); ++worker) {
    samplers_.emplace_back(model_->isa(), n_vocab);
  }
  drafted_.reserve(static_cast<size_t>(max_logits_));  // drafts take a row of logits each
}

int64_t Executor::bytes_per_row(const ModelSpec& spec) {
  return (spec.n_vocab + Model::n_head_panels(spec)) * int64_t{sizeof(float)};
}

BlockBytes Executor::block_bytes(BlockId block) {
  return {
      .target = kv_.block(block),
      .draft = draft_model_ == nullptr ? std::span<std::byte>() : draft_model_->kv().block(block)};
}

// Drafts are no part of the sequence yet, so a span with drafts is put together beside it.
std::span<const TokenId> Executor::tokens_of(const SpanPlan& span, const SequenceState& sequence) {
  const auto n_known = static_cast<size_t>(span.count - span.n_drafts);
  const auto known = std::span(sequence.tokens).subspan(static_cast<size_t>(span.begin), n_known);
  if (span.n_drafts == 0) {
    return known;
  }
  const size_t first = drafted_.size();
  drafted_.insert(drafted_.end(), known.begin(), known.end());
  drafted_.insert(drafted_.end(), sequence.drafts.begin(), sequence.drafts.begin() + span.n_drafts);
  return std::span(drafted_).subspan(first);
}

void Executor::forward(const StepPlan& plan, std::span<SequenceState* const> sequences) {
  spans_.clear();
  drafted_.clear();
  drafted_.reserve(static_cast<size_t>(plan.n_tokens));  // spans point into it
  for (size_t i = 0; i < plan.spans.size(); ++i) {
    const SpanPlan& span = plan.spans[i];
    spans_.push_back({.tokens = tokens_of(span, *sequences[i]),
                      .position = span.begin,
                      .blocks = std::span(plan.blocks)
                                    .subspan(static_cast<size_t>(span.first_block),
                                             static_cast<size_t>(span.n_blocks)),
                      .n_logits = static_cast<int>(span.n_logits)});
  }
  MR_CHECK(plan.n_logits <= max_logits_, "{} rows of {}", plan.n_logits, max_logits_);
  model_->forward({.spans = spans_},
                  kv_,
                  {logits_.as<float>(), static_cast<size_t>(plan.n_logits * row_stride_)},
                  maxima(0, plan.n_logits));
  if (draft_model_ != nullptr) {
    follow_prompts(plan, sequences);
  }
}

// The draft model computes the same pieces of prompts, where it has not fallen behind.
void Executor::follow_prompts(const StepPlan& plan, std::span<SequenceState* const> sequences) {
  size_t n = 0;
  for (size_t i = 0; i < plan.spans.size(); ++i) {
    const SpanPlan& span = plan.spans[i];
    if (!sequences[i]->is_decoding && sequences[i]->is_draft_following &&
        sequences[i]->n_draft_computed == span.begin) {
      spans_[n++] = spans_[i];
      sequences[i]->n_draft_computed = span.begin + span.count;
    }
  }
  draft_model_->compute(std::span(spans_).first(n));
}

// Which row answers what. A row predicts the token after its own.
void Executor::collect_questions(const StepPlan& plan, std::span<SequenceState* const> sequences) {
  questions_.clear();
  outputs_.resize(std::max(outputs_.size(), plan.spans.size()));  // keeps the memory of the rest
  int64_t row = 0;
  for (size_t i = 0; i < plan.spans.size(); ++i) {
    const SpanPlan& span = plan.spans[i];
    Question question{.sequence = sequences[i], .output = &outputs_[i]};
    const int64_t n_sampled = span.is_sampling ? span.n_drafts + 1 : 0;
    const int64_t n_scores = span.n_logits - n_sampled;
    question.output->sampled.clear();
    question.output->sampled.reserve(static_cast<size_t>(n_sampled));
    question.output->scores.resize(static_cast<size_t>(n_scores));
    question.position = span.begin + span.count - span.n_logits + 1;
    question.row = row;
    for (question.score = 0; question.score < n_scores; ++question.score) {
      questions_.push_back(question);
      ++question.row;
      ++question.position;
    }
    if (n_sampled > 0) {
      question.score = -1;
      question.n_drafts = span.n_drafts;
      questions_.push_back(question);
    }
    row += span.n_logits;
  }
}

std::span<float> Executor::logits_row(int64_t row) {
  return {logits_.as<float>() + row * row_stride_, static_cast<size_t>(n_vocab_)};
}

std::span<float> Executor::maxima(int64_t first_row, int64_t n_rows) {
  return {logits_.as<float>() + max_logits_ * row_stride_ + first_row * n_panels_,
          static_cast<size_t>(n_rows * n_panels_)};
}

// Goes on behind a draft only if it is what is drawn in its place.
void Executor::sample(const Question& question, Sampler& sampler) {
  SequenceState& sequence = *question.sequence;
  const Request& request = sequence.request();
  int64_t n_right = 0;
  for (; n_right <= question.n_drafts; ++n_right) {
    const int64_t position = question.position + n_right;
    question.output->sampled.push_back(
        sampler.sample({.logits = logits_row(question.row + n_right),
                        .panel_maxima = maxima(question.row + n_right, 1),
                        .params = &request.sampling,
                        .history = sequence.has_history ? &sequence.history : nullptr,
                        .seed = sequence.seed,
                        .position = position,
                        .banned = sequence.banned(position),
                        .n_logprobs = request.n_logprobs.value_or(-1)}));
    const Result<SampledToken>& sampled = question.output->sampled.back();
    if (n_right == question.n_drafts || !sampled ||
        sampled->token != sequence.drafts[static_cast<size_t>(n_right)]) {
      break;
    }
    if (sequence.has_history) {
      sequence.history.push(sampled->token);
    }
  }
  while (sequence.has_history && n_right > 0) {  // as if nothing had been drafted
    sequence.history.pop(sequence.drafts[static_cast<size_t>(--n_right)]);
  }
}

void Executor::answer(const Question& question, Sampler& sampler) {
  const SequenceState& sequence = *question.sequence;
  if (question.score < 0) {
    sample(question, sampler);
  } else if (question.position < sequence.n_prompt()) {
    question.output->scores[static_cast<size_t>(question.score)] =
        sampler.score(logits_row(question.row),
                      maxima(question.row, 1),
                      sequence.tokens[static_cast<size_t>(question.position)],
                      sequence.request().prompt_logprobs.value_or(0));
  }
}

std::span<const SpanOutput> Executor::run(const StepPlan& plan,
                                          std::span<SequenceState* const> sequences) {
  for (const BlockCopy& copy : plan.copies) {
    kv_.copy_block(copy.from, copy.to);
    if (draft_model_ != nullptr) {
      draft_model_->kv().copy_block(copy.from, copy.to);
    }
  }
  if (!plan.spans.empty()) {
    forward(plan, sequences);
  }
  collect_questions(plan, sequences);
  const auto n_questions = static_cast<int64_t>(questions_.size());
  const auto answer_share = [&](int worker) {
    const Range range = share(n_questions, worker, workers_.size());
    for (int64_t i = range.begin; i < range.end; ++i) {
      answer(questions_[static_cast<size_t>(i)], samplers_[static_cast<size_t>(worker)]);
    }
  };
  if (n_questions == 1) {
    answer(questions_[0], samplers_[0]);
  } else if (n_questions > 1) {
    workers_.run(answer_share);
  }
  return outputs_;
}

}  // namespace millrace
