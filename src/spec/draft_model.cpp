#include "spec/draft_model.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
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
      row_stride_(model_->spec().n_vocab) {
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

void DraftModel::catch_up(std::span<DraftTask> tasks) {
  int64_t n_left = model_->max_batch_tokens();
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
    const int64_t n = std::min(n_behind, n_left);
    if (n > 0 && !joins_batch(task, n)) {
      task.n_wanted = 0;
      continue;
    }
    behind_.push_back({.tokens = task.tokens.subspan(begin, static_cast<size_t>(n)),
                       .position = task.n_computed,
                       .blocks = task.blocks});
    task.n_computed += n;
    task.n_wanted = n < n_behind ? 0 : task.n_wanted;
    n_left -= n;
  }
  compute(behind_);
  for (const BlockId block : used_) {
    uses_[block] = BlockUse::kNone;
  }
  used_.clear();
}

// The token behind the latest one of every active task; a task whose row is broken ends.
void DraftModel::draw(std::span<DraftTask> tasks) {
  const auto n_active = static_cast<int64_t>(active_.size());
  const auto draw_share = [&](int worker) {
    const Range range = share(n_active, worker, workers_.size());
    for (int64_t i = range.begin; i < range.end; ++i) {
      const size_t index = active_[static_cast<size_t>(i)];
      DraftTask& task = tasks[index];
      const int64_t position = spans_[static_cast<size_t>(i)].position + 1;
      const auto sampled = samplers_[static_cast<size_t>(worker)].sample(
          {.logits = std::span(logits_).subspan(static_cast<size_t>(i * row_stride_),
                                                static_cast<size_t>(n_vocab_)),
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

void DraftModel::draft(std::span<DraftTask> tasks) {
  logits_.resize(tasks.size() * static_cast<size_t>(row_stride_));
  latest_.resize(tasks.size());
  active_.clear();
  for (size_t i = 0; i < tasks.size(); ++i) {
    latest_[i] = tasks[i].tokens.back();
    active_.push_back(i);
  }
  for (int64_t round = 0; !active_.empty(); ++round) {
    std::erase_if(active_, [&](size_t i) {
      const int64_t n_room = std::min(std::ssize(tasks[i].blocks) * kBlockTokens, n_window());
      return round >= tasks[i].n_wanted || latest_[i] == kNoToken || tasks[i].n_computed >= n_room;
    });
    spans_.clear();
    for (const size_t i : active_) {
      spans_.push_back({.tokens = {&latest_[i], 1},
                        .position = tasks[i].n_computed,
                        .blocks = tasks[i].blocks,
                        .n_logits = 1});
    }
    if (active_.empty()) {
      break;
    }
    model_->forward({.spans = spans_},
                    kv_,
                    std::span(logits_).first(active_.size() * static_cast<size_t>(row_stride_)));
    draw(tasks);
    for (const size_t i : active_) {
      ++tasks[i].n_computed;
      if (latest_[i] == kNoToken) {
        continue;
      }
      tasks[i].drafts->push_back(latest_[i]);
      if (tasks[i].history != nullptr) {
        tasks[i].history->push(latest_[i]);
      }
    }
  }
  for (const DraftTask& task : tasks) {
    for (size_t i = task.drafts->size(); task.history != nullptr && i-- > 0;) {
      task.history->pop((*task.drafts)[i]);
    }
  }
}

}  // namespace millrace
