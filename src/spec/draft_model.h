#pragma once
// Drafts by a smaller model with the same vocabulary. It draws with the noise of the target (same
// seed, same position), so where the two distributions agree they draw the same token, at any
// temperature (the coupling of Gumbel-max draws). Owned by the engine thread; phases run on the
// workers.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/worker_pool.h"
#include "kv/kv_memory.h"
#include "model/model.h"
#include "sample/sampler.h"

namespace millrace {

// A sequence that wants drafts.
struct DraftTask {
  std::span<const TokenId> tokens;  // all there are
  std::span<const BlockId> blocks;  // its table; drafts end where it ends
  int64_t n_computed = 0;           // tokens whose KV this model has; draft() adds to them
  int n_wanted = 0;

  const SamplingParams* params = nullptr;
  TokenHistory* history = nullptr;  // null when no penalty is set; left as it was
  uint64_t seed = 0;
  std::span<const TokenId> banned = {};  // below the position banned_until
  int64_t banned_until = 0;

  std::vector<TokenId>* drafts = nullptr;  // empty; what was drafted
};

class DraftModel {
 public:
  // kv has as many blocks as the target's: both keep a block's tokens under the same id.
  // n_vocab: tokens that may be drawn.
  DraftModel(std::unique_ptr<Model> model, KvMemory kv, WorkerPool& workers, int32_t n_vocab);

  KvMemory& kv() { return kv_; }
  const Model& model() const { return *model_; }

  // Only computes KV, up to this model's own window; all spans in one pass, at most
  // max_batch_tokens of the model.
  void compute(std::span<const Span> spans);

  // Drafts one token after the other for all tasks at once. First their KV is brought up to all
  // their tokens: at most max_batch_tokens in all, since everybody waits meanwhile; a task that is
  // still behind, or beyond the window, or that shares what it lacks with one that is computing it,
  // gets no drafts. A position whose KV is wrong (cached by a sequence that had ended before this
  // model saw it) costs acceptance and nothing else.
  void draft(std::span<DraftTask> tasks);

  // What the passes of the latest draft() took.
  struct Pass {
    int64_t n_rows = 0;
    double seconds = 0;
  };
  std::span<const Pass> passes() const { return passes_; }

 private:
  enum class BlockUse : uint8_t { kNone, kRead, kWritten };

  // Tokens that a task may lack and compute in the first pass that drafts, as it mostly does after
  // drafts that were all right.
  static constexpr int64_t kJoining = 8;

  bool joins_batch(const DraftTask& task, int64_t n);
  void leave_batch();
  void catch_up(std::span<DraftTask> tasks);
  void choose_active(std::span<DraftTask> tasks, int64_t round);
  void forward_active(std::span<DraftTask> tasks, int64_t round);
  int64_t n_window() const { return model_->spec().context_length; }
  void draw(std::span<DraftTask> tasks);

  std::unique_ptr<Model> model_;
  KvMemory kv_;
  WorkerPool& workers_;
  int32_t n_vocab_;
  int64_t row_stride_;
  int64_t n_panels_;
  std::vector<Sampler> samplers_;  // one a worker
  std::vector<float> logits_;      // [tasks, row_stride]
  std::vector<float> maxima_;      // [tasks, n_panels], of the logits
  std::vector<Span> spans_;
  std::vector<Span> behind_;     // of catch_up()
  std::vector<BlockUse> uses_;   // of every block, by the spans in behind_
  std::vector<BlockId> used_;    // blocks of another use than none
  std::vector<size_t> active_;   // tasks of spans_
  std::vector<TokenId> latest_;  // of each task
  std::vector<Pass> passes_;
};

}  // namespace millrace
