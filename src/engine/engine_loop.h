#pragma once
// The step loop: sequences from submission to their last event. Everything here runs on the engine
// thread; other threads see only SharedCounters.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/engine.h"
#include "engine/engine_metrics.h"
#include "engine/executor.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/step_budget.h"
#include "engine/tier_traffic.h"
#include "spec/draft_policy.h"

namespace millrace {

// Written by the engine thread, but for the first two, which submit() raises.
struct SharedCounters {
  std::atomic<int64_t> n_queued{0};  // choices accepted and not yet admitted or ended
  std::atomic<int64_t> n_live{0};    // choices accepted and not yet ended
  std::atomic<int64_t> n_running{0};
  std::atomic<int64_t> blocks_free{0};
  std::atomic<int64_t> steps{0};
  std::atomic<bool> is_stepping{false};
  std::atomic<int64_t> preemptions{0};
  std::atomic<int64_t> recomputed_tokens{0};
  std::atomic<int64_t> refused_offers{0};
  std::atomic<int64_t> prompt_tokens{0};
  std::atomic<int64_t> cached_tokens{0};
  std::atomic<int64_t> loaded_tokens{0};
  std::atomic<int64_t> generated_tokens{0};
  std::atomic<int64_t> accepted_drafts{0};
  std::atomic<int64_t> rejected_drafts{0};
  std::atomic<double> copy_rate{0};
  // Of the first, second, ... token of a guess, those that were looked at.
  std::array<std::atomic<int64_t>, kMaxDrafts> accepted_at{};
  std::array<std::atomic<int64_t>, kMaxDrafts> rejected_at{};
};

struct Speculation {
  int max_drafts = 0;  // tokens guessed for a sequence in a step
  bool copies = true;  // guesses what followed the same tokens before
  bool adapts = true;  // fewer where they do not pay
};

struct LoopTimes {
  double max_step_seconds = 0;   // see StepBudget
  double max_queue_seconds = 0;  // until the first choice of a request starts; 0: for ever
};

class EngineLoop {
 public:
  EngineLoop(Executor& executor,
             const SchedulerLimits& limits,
             const Speculation& speculation,
             const LoopTimes& times,
             const Tokenizer& tokenizer,
             Metrics& metrics,
             SharedCounters& counters,
             std::unique_ptr<TierTraffic> traffic = nullptr);  // null: no tier

  void submit(std::shared_ptr<RequestState> state);
  bool is_idle() const { return sequences_.empty(); }
  // After a step: there is nothing to compute until a load has made progress.
  bool waits_for_tier() const { return waits_for_tier_; }
  int64_t n_unwritten_blocks() const {  // any thread
    return traffic_ == nullptr ? 0 : traffic_->n_unwritten();
  }
  int64_t n_failed_blocks() const {  // any thread
    return traffic_ == nullptr ? 0 : traffic_->n_failed();
  }
  // Ends sequences whose reader cancelled or went away or whose deadline has come, plans, runs and
  // applies one step, then ends those that still wait and have waited too long.
  void step();
  // While idle: takes what the tier reports, of writes and of loads that nobody waits for.
  void rest();
  void abort_all(const Error& error);

 private:
  using Sequences = std::unordered_map<SequenceId, std::unique_ptr<SequenceState>>;

  template <class EndIf>
  void end_some(const EndIf& end_if);  // sequences, waiting or running
  void end_unwanted();
  void end_at_deadline(SequenceState& sequence);
  void end_overdue();
  bool is_worth_following(const SequenceState& sequence);
  DraftOffer model_offer(const SequenceState& sequence) const;
  int64_t n_to_come(const SequenceState& sequence) const;
  void propose(StepPlan& plan);
  void collect_offers();
  void collect_draft_tasks(const StepPlan& plan);
  void draft_with_model(const StepPlan& plan);
  static int64_t n_accepted_of(const SpanOutput& output, int64_t n_appended);
  void note_copied_guess(const SpanPlan& span, const SpanResult& result, SequenceState& sequence);
  void note_rates(const SpanPlan& span,
                  const SpanResult& result,
                  int64_t n_accepted,
                  SequenceState& sequence);
  void note_drafts(const SpanPlan& span,
                   const SpanOutput& output,
                   const SpanResult& result,
                   SequenceState& sequence);
  void run_step();
  void receive_loads();
  void start_loads(const StepPlan& plan);
  void offer_blocks();
  void remove(SequenceId id);
  void note_cached(SequenceState& sequence);
  static void note_started(SequenceState& sequence);
  static void note_answered(SequenceState& sequence);
  void note_admissions(const StepPlan& plan);
  SpanResult deliver(const SpanPlan& span, const SpanOutput& output, SequenceState& sequence);
  const Error* deliver_scores(const SpanPlan& span,
                              const SpanOutput& output,
                              SequenceState& sequence);
  bool deliver_token(const SampledToken& sampled, SequenceState& sequence);
  void finish(SequenceState& sequence, FinishReason reason, Error error = {});
  void send(SequenceState& sequence, StreamEvent event);
  void send_popped(SequenceState& sequence);
  void notify_readers();
  void note_step(const StepPlan& plan, TimePoint begin);
  void fail_stuck();

  Executor& executor_;
  const Speculation speculation_;
  const LoopTimes times_;
  const Tokenizer& tokenizer_;
  EngineMetrics metrics_;
  SharedCounters& counters_;
  Scheduler scheduler_;
  std::unique_ptr<TierTraffic> traffic_;
  bool waits_for_tier_ = false;
  Sequences sequences_;
  SequenceId next_id_ = 0;
  TimePoint now_;  // of this step
  StepBudget step_budget_;
  int64_t n_decoding_ = 0;  // after the last step
  AnswerLog answers_;       // for everybody without a salt
  DraftPolicy draft_policy_;
  Acceptance copy_acceptance_;  // of all sequences: what to expect of a new one
  Acceptance model_acceptance_;
  double usual_answer_ = 64;     // tokens, running mean
  bool is_speculating_ = false;  // in this step
  double draft_seconds_ = 0;     // what the draft model took in this step
  std::vector<DraftTask> draft_tasks_;
  std::vector<DraftOffer> offers_;                        // of each span
  std::vector<int64_t> n_drafts_;                         // of each span
  std::vector<SequenceState*> planned_;                   // of each span
  std::vector<SpanResult> results_;                       // of each span
  std::vector<SequenceId> ended_;                         // in this step
  std::vector<std::shared_ptr<RequestState>> to_notify_;  // have events of this step
};

}  // namespace millrace
