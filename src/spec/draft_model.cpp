#include "spec/draft_model.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "kv/block_pool.h"

namespace millrace {

DraftModel::DraftModel(std::unique_ptr<Model> model,
                       KvMemory kv,
                       WorkerPool& workers,
                       int32_t n_vocab)
    : model_(std::move(model)),
      kv_(std::move(kv)),
      workers_(workers),
      n_vocab_(n_vocab),
      row_stride_(model_->spec().n_vocab),
      n_panels_(model_->n_head_panels()) {
  passes_.reserve(64);
  uses_.resize(static_cast<size_t>(kv_.n_blocks()), BlockUse::kNone);
  MR_CHECK(n_vocab > 0 && n_vocab <= row_stride_, "vocabulary {} row {}", n_vocab, row_stride_);
  for (int worker = 0; worker < workers.size(); ++worker) {
    samplers_.emplace_back(model_->isa(), n_vocab);
  }
}

void DraftModel::compute(std::span<const Span> spans) {
  spans_.clear();
  for (Span span : spans) {
    span.n_logits = 0;
    const auto n_left = static_cast<size_t>(std::max<int64_t>(n_window() - span.position, 0));
    span.tokens = span.tokens.first(std::min(span.tokens.size(), n_left));
    if (!span.tokens.empty()) {
      spans_.push_back(span);
    }
  }
  model_->forward({.spans = spans_}, kv_, {});
}

// May the task compute its next n tokens beside those that are in the batch already? Sequences
// share blocks of a common beginning, which this model may know for neither of them: one writes a
// block then, and no other reads or writes it in the same pass.
bool DraftModel::joins_batch(const DraftTask& task, int64_t n) {
  const auto n_read = static_cast<size_t>((task.n_computed + n + kBlockTokens - 1) / kBlockTokens);
  const auto first_written = static_cast<size_t>(task.n_computed / kBlockTokens);
  for (size_t i = 0; i < n_read; ++i) {
    const BlockUse other = uses_[task.blocks[i]];
    if (other == BlockUse::kWritten || (other == BlockUse::kRead && i >= first_written)) {
      return false;
    }
  }
  for (size_t i = 0; i < n_read; ++i) {
    const BlockId block = task.blocks[i];
    uses_[block] = i >= first_written ? BlockUse::kWritten : BlockUse::kRead;
    used_.push_back(block);
  }
  return true;
}

void DraftModel::leave_batch() {
  for (const BlockId block : used_) {
    uses_[block] = BlockUse::kNone;
  }
  used_.clear();
}

// Tasks that lack more than a few tokens, in a pass of their own.
void DraftModel::catch_up(std::span<DraftTask> tasks) {
  int64_t n_left = model_->max_batch_tokens();
  int64_t n_rows = 0;
  behind_.clear();
  for (DraftTask& task : tasks) {
    if (std::ssize(task.tokens) > n_window()) {
      task.n_wanted = 0;
      continue;
    }
    MR_CHECK(task.n_computed < std::ssize(task.tokens) && task.drafts->empty(),
             "{} of {} tokens",
             task.n_computed,
             task.tokens.size());
    const auto begin = static_cast<size_t>(task.n_computed);
    const int64_t n_behind = std::ssize(task.tokens) - 1 - task.n_computed;
    if (n_behind <= kJoining) {
      continue;
    }
    const int64_t n = std::min(n_behind, n_left);
    if (n == 0 || !joins_batch(task, n)) {
      task.n_wanted = 0;
      continue;
    }
    behind_.push_back({.tokens = task.tokens.subspan(begin, static_cast<size_t>(n)),
                       .position = task.n_computed,
                       .blocks = task.blocks});
    task.n_computed += n;
    task.n_wanted = n < n_behind ? 0 : task.n_wanted;
    n_left -= n;
    n_rows += n;
  }
  leave_batch();
  if (n_rows > 0) {
    const TimePoint begin = Clock::now();
    compute(behind_);
    passes_.push_back({n_rows, seconds_since(begin)});
  }
}

// The token behind the latest one of every active task; a task whose row is broken ends.
void DraftModel::draw(std::span<DraftTask> tasks) {
  const auto n_active = static_cast<int64_t>(active_.size());
  const auto draw_share = [&](int worker) {
    const Range range = share(n_active, worker, workers_.size());
    for (int64_t i = range.begin; i < range.end; ++i) {
      const size_t index = active_[static_cast<size_t>(i)];
      DraftTask& task = tasks[index];
      const Span& span = spans_[static_cast<size_t>(i)];
      const int64_t position = span.position + std::ssize(span.tokens);
      const auto sampled = samplers_[static_cast<size_t>(worker)].sample(
          {.logits = std::span(logits_).subspan(static_cast<size_t>(i * row_stride_),
                                                static_cast<size_t>(n_vocab_)),
           .panel_maxima = std::span(maxima_).subspan(static_cast<size_t>(i * n_panels_),
                                                      static_cast<size_t>(n_panels_)),
           .params = task.params,
           .history = task.history,
           .seed = task.seed,
           .position = position,
           .banned = position < task.banned_until ? task.banned : std::span<const TokenId>()});
      latest_[index] = sampled ? sampled->token : kNoToken;
    }
  };
  if (n_active == 1) {
    draw_share(0);
  } else {
    workers_.run(draw_share);
  }
}

// Who drafts in the round: the first decides whose lacking tokens go together.
void DraftModel::choose_active(std::span<DraftTask> tasks, int64_t round) {
  int64_t n_left = model_->max_batch_tokens() - std::ssize(active_);
  std::erase_if(active_, [&](size_t i) {
    const DraftTask& task = tasks[i];
    const int64_t n_room = std::min(std::ssize(task.blocks) * kBlockTokens, n_window());
    if (round >= task.n_wanted || latest_[i] == kNoToken ||
        std::ssize(task.tokens) + round > n_room) {
      return true;
    }
    if (round > 0) {
      return false;
    }
    const int64_t n_behind = std::ssize(task.tokens) - 1 - task.n_computed;
    if (n_behind > n_left || !joins_batch(task, n_behind + 1)) {
      return true;
    }
    n_left -= n_behind;
    return false;
  });
  leave_batch();
}

void DraftModel::forward_active(std::span<DraftTask> tasks, int64_t round) {
  spans_.clear();
  for (const size_t i : active_) {
    const DraftTask& task = tasks[i];
    const auto n_computed = static_cast<size_t>(task.n_computed);
    spans_.push_back({.tokens = round == 0 ? task.tokens.subspan(n_computed)
                                           : std::span<const TokenId>(&latest_[i], 1),
                      .position = task.n_computed,
                      .blocks = task.blocks,
                      .n_logits = 1});
  }
  model_->forward({.spans = spans_},
                  kv_,
                  std::span(logits_).first(active_.size() * static_cast<size_t>(row_stride_)),
                  std::span(maxima_).first(active_.size() * static_cast<size_t>(n_panels_)));
}

void DraftModel::draft(std::span<DraftTask> tasks) {
  passes_.clear();
  catch_up(tasks);
  logits_.resize(tasks.size() * static_cast<size_t>(row_stride_));
  maxima_.resize(tasks.size() * static_cast<size_t>(n_panels_));
  latest_.resize(tasks.size());
  active_.clear();
  for (size_t i = 0; i < tasks.size(); ++i) {
    latest_[i] = tasks[i].tokens.back();
    active_.push_back(i);
  }
  for (int64_t round = 0;; ++round) {
    choose_active(tasks, round);
    if (active_.empty()) {
      break;
    }
    const TimePoint begin = Clock::now();
    forward_active(tasks, round);
    draw(tasks);
    int64_t n_rows = 0;
    for (size_t at = 0; at < active_.size(); ++at) {
      const size_t i = active_[at];
      const int64_t n = std::ssize(spans_[at].tokens);
      tasks[i].n_computed += n;
      n_rows += n;
      if (latest_[i] == kNoToken) {
        continue;
      }
      tasks[i].drafts->push_back(latest_[i]);
      if (tasks[i].history != nullptr) {
        tasks[i].history->push(latest_[i]);
      }
    }
    passes_.push_back({n_rows, seconds_since(begin)});
  }
  for (const DraftTask& task : tasks) {
    for (size_t i = task.drafts->size(); task.history != nullptr && i-- > 0;) {
      task.history->pop((*task.drafts)[i]);
    }
  }
}

}  // namespace millrace
