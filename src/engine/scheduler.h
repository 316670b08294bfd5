#pragma once
// Decides what each step computes: which sequences, how many tokens, which blocks. Integers only;
// it looks at tokens to find them in the cache and never at what they mean. Engine thread.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/step_plan.h"
#include "kv/block_picker.h"
#include "kv/block_pool.h"
#include "kv/prefix_index.h"

namespace millrace {

struct SchedulerLimits {
  int64_t n_blocks = 0;
  int64_t block_tokens = kBlockTokens;
  int64_t max_sequences = 64;      // running at once
  int64_t max_batch_tokens = 512;  // of one step, at least prefill_chunk
  int64_t prefill_chunk = 256;     // is_chunk_size()
  int64_t max_logits = 128;        // rows of one step, at least block_tokens
  bool has_prefix_cache = true;
  int n_key_bits = 128;  // of the cache's keys; fewer for tests
};

// Chunks end on block edges or divide a block evenly.
constexpr bool is_chunk_size(int64_t chunk, int64_t block_tokens) {
  return chunk > 0 && (chunk % block_tokens == 0 || block_tokens % chunk == 0);
}

struct SequenceSpec {
  SequenceId id = 0;                 // larger than that of any sequence before
  int64_t priority = 0;              // lower is served first
  int64_t n_prompt = 0;              // at least 1
  int64_t max_new = 0;               // tokens it may grow by
  bool wants_prompt_logits = false;  // then the cache is not read, only written
  std::string_view cache_namespace = {};
  // Its prompt, then what it grew by. Lasts until the sequence has been removed or has finished.
  const std::vector<TokenId>* tokens = nullptr;
  // The sequence submitted just before has the same prompt and namespace: what is known of the one
  // holds for the other.
  bool is_twin = false;
};

struct SchedulerCounters {
  int64_t n_preemptions = 0;
  int64_t n_recomputed_tokens = 0;  // whose KV was given up by preemption and is computed again
  int64_t n_prompt_tokens = 0;      // of sequences when first admitted
  int64_t n_cached_tokens = 0;      // of those, found in the cache
  int64_t n_merged_blocks = 0;      // computed twice, kept once
};

// The rules, so that every admitted sequence ends in bounded steps:
// - Spans of a sequence end where its chunks end: multiples of prefill_chunk counted from its own
//   first token (one block when it wants prompt logits). A chunk that does not fit into what is
//   left of the budget waits for the next step, so the edges depend on the request alone.
// - Decodes come first, then prefill chunks, each by priority and arrival.
// - A sequence is admitted only when blocks for all its tokens are free, with one more for each
//   running sequence to grow into. It starts behind those of its tokens that the cache holds; the
//   last one is always computed, for its logits. The next in line is overtaken only while it waits
//   for another sequence, of no lower priority, that is computing tokens the two share. No more
//   than max_sequences of those that wait are looked at in a step.
// - When running sequences need more blocks than are free, the one with the lowest priority, then
//   the least computed tokens, gives all its blocks back, keeps its place in the queue and is
//   computed again; nothing is admitted in that step. The third time it is admitted it gets
//   blocks for its maximum and is not preempted any more: it can neither run short nor be made
//   to start over, so everyone starts over at most twice.
// - Drafts take only what the step leaves: no chunk waits and nobody is preempted for them.
// - A block can be found in the cache when the step that filled it is over, the unfinished last one
//   when the prompt is complete and when the sequence ends. A block that turns out to hold the same
//   as another is given back for the other.
class Scheduler {
 public:
  explicit Scheduler(SchedulerLimits limits);
  // Memory of its own for each block of the pool, at most.
  static size_t bytes_per_block();

  // Could it ever run, even alone? kContextLength tells both sizes. Any thread.
  Result<void> check_fit(int64_t n_prompt, int64_t max_new) const;

  void submit(const SequenceSpec& spec);  // one that fits
  void remove(SequenceId id);             // in any state; its blocks become free

  // Guesses at the tokens that follow: as many as budget, rows and free blocks allow are verified
  // in the next step, in which the sequence must be decoding, and then forgotten.
  void offer_drafts(SequenceId id, int64_t n_drafts);

  // The block table of a running sequence; until the next apply() or remove().
  std::span<const BlockId> blocks_of(SequenceId id) const;

  // Changes nothing but scratch memory. At most one plan at a time, followed by its apply().
  StepPlan plan();
  // The only thing that makes sequences move. results: one for each span.
  void apply(StepPlan plan, const std::vector<SpanResult>& results);

  bool is_idle() const { return waiting_.empty() && running_.empty(); }
  int64_t n_waiting() const { return static_cast<int64_t>(waiting_.size()); }
  int64_t n_running() const { return static_cast<int64_t>(running_.size()); }
  // The next in line; kNoSequence when nobody waits.
  static constexpr SequenceId kNoSequence = ~SequenceId{0};
  SequenceId next_waiting() const { return waiting_.empty() ? kNoSequence : waiting_.front().id; }

  const SchedulerCounters& counters() const { return counters_; }
  const SchedulerLimits& limits() const { return limits_; }
  const BlockPool& pool() const { return pool_; }

  // The pool adds up and the sequences hold exactly its used blocks, as many as they need. O(all).
  bool check() const;

 private:
  struct Entry {
    SequenceId id = 0;
    int64_t priority = 0;
    int64_t n_prompt = 0;
    int64_t n_known = 0;     // tokens there are
    int64_t n_computed = 0;  // tokens whose KV is in the blocks
    int64_t n_limit = 0;     // tokens there may ever be
    bool wants_prompt_logits = false;
    bool was_admitted = false;
    int n_preemptions = 0;
    int64_t n_drafts = 0;    // offered for the next step
    int64_t n_given_up = 0;  // tokens computed when it was preempted last
    const std::vector<TokenId>* tokens = nullptr;
    NamespaceId space = 0;
    std::vector<Digest128> keys = {};  // of whole blocks of tokens
    std::vector<BlockId> blocks = {};
    int64_t n_published = 0;  // whole blocks, from the first on
  };

  static constexpr int kPreemptionsBeforeReserving = 2;

  // The last token of an answer is never computed.
  static int64_t n_maximum(const Entry& entry) {
    return entry.n_limit > entry.n_prompt ? entry.n_limit - 1 : entry.n_prompt;
  }
  static bool comes_before(const Entry& a, const Entry& b);
  static bool is_listed(const std::vector<SequenceId>& ids, SequenceId id);
  bool reserves_maximum(const Entry& entry) const {
    return entry.n_preemptions >= kPreemptionsBeforeReserving;
  }
  int64_t n_admission_blocks(const Entry& entry) const;
  int64_t n_missing_blocks(const Entry& entry, int64_t end) const;
  Entry* find(std::vector<Entry>& entries, SequenceId id);
  void insert(std::vector<Entry>& entries, Entry entry);

  std::span<const TokenId> tokens_of(const Entry& entry, int64_t begin, int64_t end) const;
  PrefixMatch find_cached(const Entry& entry);
  bool is_being_computed(const StepPlan& plan, const Entry& entry, int64_t n_cached);
  bool is_worth_waiting(const Entry& other,
                        int64_t n_computed,
                        const Entry& entry,
                        int64_t n_cached);

  bool add_span(StepPlan& plan, const Entry& entry, int64_t begin);
  int64_t grant_running(StepPlan& plan);
  const Entry* choose_victim(const StepPlan& plan) const;
  void make_room(StepPlan& plan);
  void admit(StepPlan& plan);
  void add_drafts(StepPlan& plan);
  bool try_admit(StepPlan& plan, const Entry& entry, PrefixMatch cached);
  void assign_blocks(StepPlan& plan,
                     SpanPlan& span,
                     const std::vector<BlockId>& held,
                     int64_t n_new);

  void apply_preemption(SequenceId id);
  void apply_admission(SequenceId id);
  void apply_blocks(const StepPlan& plan, const SpanPlan& span);
  void apply_span(const SpanPlan& span, const SpanResult& result);
  void publish(Entry& entry);
  void publish_tail(Entry& entry);
  void drop(std::vector<Entry>& entries, Entry& entry);

  SchedulerLimits limits_;
  BlockPool pool_;
  PrefixIndex index_;
  BlockPicker picker_;
  std::vector<Entry> waiting_;  // by priority and arrival
  std::vector<Entry> running_;  // by priority and arrival
  SchedulerCounters counters_;
  std::vector<BlockId> hits_;  // of find_cached()
  StepPlan spare_;             // memory of the last plan
};

}  // namespace millrace
