#pragma once
// Decides what each step computes: which sequences, how many tokens, which blocks. Integers only;
// it looks at tokens to find them in the cache and never at what they mean. Engine thread.

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
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
  int64_t max_overtakings = 8;     // of one that waits, by others that the cache serves
  int64_t min_load_blocks = 2;     // fewer are not worth a load from a tier
  bool has_prefix_cache = true;
  int n_key_bits = 128;      // of the cache's keys; fewer for tests
  bool fills_steps = false;  // tokens per second before the time to the next one
  int64_t fair_quantum = 0;  // tokens of a client's turn; 0: clients are not told apart
};

// Chunks end on block edges or divide a block evenly.
constexpr bool is_chunk_size(int64_t chunk, int64_t block_tokens) {
  return chunk > 0 && (chunk % block_tokens == 0 || block_tokens % chunk == 0);
}

struct SequenceSpec {
  SequenceId id = 0;                 // larger than that of any sequence before
  int64_t priority = 0;              // lower is served first
  int64_t client = 0;                // whose it is
  int64_t n_prompt = 0;              // at least 1
  int64_t max_new = 0;               // tokens it may grow by
  bool wants_prompt_logits = false;  // then the cache is not read, only written
  std::string_view cache_namespace = {};
  // Its prompt, then what it grew by. Lasts until the sequence has been removed or has finished, or
  // until set_tokens().
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
  int64_t n_loaded_blocks = 0;      // from a tier, found afterwards
};

// How many blocks of a sequence, from block `first` on, a tier would bring as far as is known.
using StoredBlocks = std::function<int64_t(SequenceId sequence, int64_t first)>;

// The rules, so that every admitted sequence ends in bounded steps:
// - Spans of a sequence end where its chunks end: multiples of prefill_chunk counted from its own
//   first token (one block when it wants prompt logits). A chunk that does not fit into what is
//   left of the budget waits for the next step, so the edges depend on the request alone.
// - Decodes come first, then prefill chunks, each by priority and arrival.
// - A step's prompt tokens may be limited besides: chunks then end on smaller edges, of the same
//   grid, or anywhere when not even such a piece is allowed. The oldest prompt takes all but one
//   piece, at least half, and one token when none is allowed.
//   With fills_steps a prompt takes all that decodes and those before it leave, up to such an edge,
//   and whoever fits may pass the next in line.
// - A sequence is admitted only when blocks for all its tokens are free, with one more for each
//   running sequence to grow into. It starts behind those of its tokens that the cache holds; the
//   last one is always computed, for its logits.
// - The next in line is overtaken while it waits for another sequence, of no lower priority, that
//   is computing tokens the two share. When it cannot start for want of blocks or budget, those
//   behind it, of the same priority, of whose tokens the cache holds half may start before it:
//   everyone is overtaken so max_overtakings times at most. No more than max_sequences of those
//   that wait are looked at in a step.
// - When running sequences need more blocks than are free, the one with the lowest priority, then
//   the least computed tokens, gives all its blocks back, keeps its place in the queue and is
//   computed again; nothing is admitted in that step. The third time it is admitted it gets
//   blocks for its maximum and is not preempted any more: it can neither run short nor be made
//   to start over, so everyone starts over at most twice.
// - Drafts take only what the step leaves: no chunk waits and nobody is preempted for them, and
//   while somebody waits for blocks they take none.
// - With a fair_quantum, deficit round robin decides between clients, and priority and arrival only
//   among the sequences of one: every token computed for a client counts against it, and prompts
//   of a client whose turn is over, running or waiting, come behind those of whose turn is not. A
//   client that comes to wait begins where those that wait are: time away earns nothing. Whose
//   client has had most is the first to be preempted.
// - When the next in line lacks blocks that a tier has, they are loaded into free blocks, as many
//   as its admission would take at least being free; it waits until they have arrived or the load
//   is given up, and others pass it meanwhile. Loaded blocks are then cached ones: it is admitted
//   as if somebody had computed them. One load for each time that it comes to wait; whoever needs
//   the same blocks waits for it too.
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

  // From now on blocks are loaded, and whole_blocks() is kept. Asked while planning.
  void load_from(StoredBlocks n_stored) { n_stored_ = std::move(n_stored); }

  void submit(const SequenceSpec& spec);  // one that fits
  void remove(SequenceId id);             // in any state; its blocks become free
  // The same tokens, from now on there.
  void set_tokens(SequenceId id, const std::vector<TokenId>& tokens);

  // Changes nothing but scratch memory. At most one plan at a time, followed by its apply().
  // max_prompt_tokens: what the step's time allows; the first prompt gets one token at least.
  StepPlan plan(int64_t max_prompt_tokens = kNoLimit);
  // Lengthens the plan's decodes by guesses at the tokens that follow, to be verified: at most
  // n_drafts[i] for span i, as many as budget, rows and free blocks allow. Once, right after
  // plan().
  void add_drafts(StepPlan& plan, std::span<const int64_t> n_drafts);
  // The only thing that makes sequences move. results: one for each span.
  void apply(StepPlan plan, const std::vector<SpanResult>& results);

  // Between apply() and plan(), once for each load of a plan, its sequence there or not: the first
  // n_blocks have arrived, and nobody writes to any of them any more. How many can be found now.
  int64_t finish_load(SequenceId id, int64_t n_blocks);
  // The sequence waits no longer for what is being loaded; finish_load() is still to come.
  void give_up_load(SequenceId id);
  // Of the last apply(): candidates for a tier. Blocks of sequences that it ended among them.
  std::span<const WholeBlock> whole_blocks() const { return whole_blocks_; }

  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
  static constexpr int64_t kSmallestChunk = 8;

  bool is_idle() const { return entries_.empty(); }
  int64_t n_waiting() const { return static_cast<int64_t>(waiting_.size()); }
  int64_t n_running() const { return static_cast<int64_t>(running_.size()); }
  bool is_loading() const { return !loads_.empty(); }  // of sequences there or not
  // Tokens computed for a client, and those that it was too late for; with a fair_quantum.
  int64_t n_served(int64_t client) const;
  // The next in line (of some client); kNoSequence when nobody waits.
  static constexpr SequenceId kNoSequence = ~SequenceId{0};
  SequenceId next_waiting() const {
    return waiting_.empty() ? kNoSequence : (*waiting_.begin())->id;
  }

  const SchedulerCounters& counters() const { return counters_; }
  const SchedulerLimits& limits() const { return limits_; }
  const BlockPool& pool() const { return pool_; }

  // The pool adds up and the sequences hold exactly its used blocks, as many as they need. O(all).
  bool check() const;

 private:
  struct Entry {
    SequenceId id = 0;
    int64_t client = 0;  // 0 for all without a fair_quantum
    int64_t priority = 0;
    int64_t n_prompt = 0;
    int64_t n_known = 0;     // tokens there are
    int64_t n_computed = 0;  // tokens whose KV is in the blocks
    int64_t n_limit = 0;     // tokens there may ever be
    bool wants_prompt_logits = false;
    bool was_admitted = false;
    bool is_running = false;
    bool is_loading = false;  // waits for its load
    bool has_loaded = false;  // or tried to, since it came to wait
    int n_preemptions = 0;
    int64_t n_overtaken = 0;
    uint64_t preempting_plan = 0;  // the number of the last that did
    int64_t n_given_up = 0;        // tokens computed when it was preempted last
    const std::vector<TokenId>* tokens = nullptr;
    NamespaceId space = 0;
    std::vector<Digest128> keys = {};  // of whole blocks of tokens
    std::vector<BlockId> blocks = {};
    int64_t n_published = 0;  // whole blocks, from the first on
  };

  struct Before {
    using is_transparent = void;
    bool operator()(const Entry* a, const Entry* b) const {
      if (a->client != b->client) {
        return a->client < b->client;
      }
      return a->priority != b->priority ? a->priority < b->priority : a->id < b->id;
    }
    bool operator()(const Entry* a, int64_t client) const { return a->client < client; }
    bool operator()(int64_t client, const Entry* b) const { return client < b->client; }
  };
  using WaitingEntries = std::set<Entry*, Before>;
  // One whose prompt is being computed, and where the step begins with it.
  struct Prefill {
    const Entry* entry = nullptr;
    int64_t begin = 0;
  };

  // What a client has had; there is one for each that ever came.
  struct Share {
    int64_t n_served = 0;
    int64_t n_waiting = 0;
  };
  // A client that waits, while the plan is made.
  struct Turn {
    int64_t client = 0;
    int64_t n_served = 0;  // as if those taken had been computed
    int64_t n_taken = 0;
    WaitingEntries::const_iterator next;
  };

  // Blocks of a sequence, in transfer.
  struct Load {
    int64_t first = 0;  // index in the sequence
    std::vector<BlockId> blocks;
  };

  static constexpr int kPreemptionsBeforeReserving = 2;

  // The last token of an answer is never computed.
  static int64_t n_maximum(const Entry& entry) {
    return entry.n_limit > entry.n_prompt ? entry.n_limit - 1 : entry.n_prompt;
  }
  bool reserves_maximum(const Entry& entry) const {
    return entry.n_preemptions >= kPreemptionsBeforeReserving;
  }
  int64_t n_admission_blocks(const Entry& entry) const;
  int64_t n_missing_blocks(const Entry& entry, int64_t end) const;
  bool is_preempted(const Entry& entry) const { return entry.preempting_plan == n_plans_; }
  Entry& running(SequenceId id);
  void start(Entry& entry);
  void stop(Entry& entry);
  void enqueue(Entry& entry);
  void dequeue(Entry& entry);

  std::span<const TokenId> tokens_of(const Entry& entry, int64_t begin, int64_t end) const;
  PrefixMatch find_cached(const Entry& entry);
  bool is_being_computed(const Entry& entry, int64_t n_cached);
  bool is_worth_waiting(const Entry& other,
                        int64_t n_computed,
                        const Entry& entry,
                        int64_t n_cached);

  int64_t n_prompt_tokens_allowed() const;
  bool add_span(StepPlan& plan, const Entry& entry, int64_t begin);
  int64_t grant_running(StepPlan& plan, int64_t max_prompt_tokens);
  Entry* choose_victim() const;
  void make_room(StepPlan& plan, int64_t max_prompt_tokens);
  void admit(StepPlan& plan);
  bool consider(StepPlan& plan, const Entry& entry);
  bool try_admit(StepPlan& plan, const Entry& entry, PrefixMatch cached);
  void assign_blocks(StepPlan& plan,
                     SpanPlan& span,
                     const std::vector<BlockId>& held,
                     int64_t n_new);

  bool is_fair() const { return limits_.fair_quantum > 0; }
  int64_t round_of(int64_t n_served) const { return n_served / limits_.fair_quantum; }
  int64_t round_of(const Entry& entry) const;
  int64_t first_waiting_round() const;
  bool may_wait_for(const Entry& other, const Entry& entry) const;
  bool is_sooner_victim(const Entry& entry, const Entry& victim) const;
  void order_prefills();
  void order_waiting();
  void grant_held_back(StepPlan& plan);
  void join_round(Share& share);
  void charge(const Entry& entry, int64_t n_tokens);
  bool check_shares() const;

  int64_t n_loading() const;
  bool is_being_loaded(const StepPlan& plan, const Entry& entry) const;
  bool try_load(StepPlan& plan, const Entry& entry);
  int64_t publish_loaded(const Entry& entry, const Load& load, int64_t n_blocks);
  int64_t n_free_beside(const StepPlan& plan) const;

  void apply_preemption(SequenceId id);
  void apply_admission(SequenceId id);
  void apply_load(const StepPlan& plan, const LoadPlan& load);
  void apply_blocks(const StepPlan& plan, const SpanPlan& span);
  void apply_span(const SpanPlan& span, const SpanResult& result);
  void publish(Entry& entry);
  void publish_tail(Entry& entry);
  void drop(Entry& entry);

  SchedulerLimits limits_;
  BlockPool pool_;
  PrefixIndex index_;
  BlockPicker picker_;
  std::unordered_map<SequenceId, Entry> entries_;
  WaitingEntries waiting_;
  std::vector<Entry*> running_;  // in the order of Before
  SchedulerCounters counters_;
  std::map<int64_t, Share> shares_;  // by client, with a fair_quantum
  StoredBlocks n_stored_;            // none: no tier
  std::unordered_map<SequenceId, Load> loads_;
  std::vector<WholeBlock> whole_blocks_;

  // Of the plan that is being made.
  uint64_t n_plans_ = 0;
  std::vector<const Entry*> planned_;  // of each span
  std::vector<Prefill> prefills_;
  int64_t n_prompt_tokens_left_ = 0;
  bool has_prompt_tokens_ = false;
  std::vector<Prefill> held_back_;    // behind those that are to be admitted
  std::vector<Turn> turns_;           // by order_waiting()
  std::vector<const Entry*> order_;   // by order_waiting()
  std::vector<BlockId> hits_;         // of find_cached()
  std::vector<const Entry*> passed_;  // by admit(), everyone from the first that cannot start
  int64_t n_overtakings_ = 0;         // that all of them still allow
  int64_t n_seen_ = 0;                // by admit()
  StepPlan spare_;                    // memory of the last plan
};

}  // namespace millrace
