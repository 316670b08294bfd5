#include "engine/simulation/simulation.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/step_budget.h"

namespace millrace {
namespace {

class Simulation {
 public:
  Simulation(const SimulationOptions& options, const NextRequest& next)
      : options_(options),
        next_(next),
        scheduler_(options.limits),
        step_budget_(options.max_step_seconds) {}

  Result<SimulationReport> run() {
    if (auto read = read_ahead(); !read) {
      return propagate(read);
    }
    now_ = ahead_ ? arrival_of(*ahead_) : 0;
    const double begin = now_;
    while (ahead_ || !scheduler_.is_idle()) {
      if (scheduler_.is_idle()) {
        now_ = std::max(now_, arrival_of(*ahead_));
      }
      if (auto taken = take_arrivals(); !taken) {
        return propagate(taken);
      }
      if (auto stepped = step(); !stepped) {
        return propagate(stepped);
      }
    }
    if (auto checked = check(); !checked) {
      return propagate(checked);
    }
    if (!sequences_.empty() || scheduler_.pool().n_used() != 0 ||
        report_.n_finished + report_.n_refused() != report_.n_requests) {
      return fail(ErrorCode::kInternal,
                  "[simulation] {} requests came, {} finished, {} were refused, {} blocks are in "
                  "use at the end",
                  report_.n_requests,
                  report_.n_finished,
                  report_.n_refused(),
                  scheduler_.pool().n_used());
    }
    report_.seconds = last_token_ > begin ? last_token_ - begin : 0;
    report_.counters = scheduler_.counters();
    return std::move(report_);
  }

 private:
  struct Sequence {
    std::vector<TokenId> tokens;
    int64_t n_prompt = 0;
    int64_t n_answer = 0;
    int64_t client = kNobody;
    double arrival = 0;
    double first_token = 0;
    double last_token = 0;
    bool was_admitted = false;
    bool is_decoding = false;

    int64_t n_written() const { return std::ssize(tokens) - n_prompt; }
  };

  double arrival_of(const TraceRequest& request) const {
    return request.arrival / options_.rate_scale;
  }

  Result<void> read_ahead() {
    auto request = next_();
    if (!request) {
      return propagate(request);
    }
    ahead_ = *std::move(request);
    return {};
  }

  Result<void> take_arrivals() {
    while (ahead_ && arrival_of(*ahead_) <= now_) {
      submit(*ahead_);
      if (auto read = read_ahead(); !read) {
        return read;
      }
    }
    return {};
  }

  // The place of the key among those of the report.
  int64_t client_of(const TraceRequest& request) {
    if (request.key.empty()) {
      return kNobody;
    }
    const auto [found, is_new] = clients_.try_emplace(request.key, std::ssize(report_.keys));
    if (is_new) {
      report_.keys.push_back({.key = request.key});
    }
    return found->second;
  }

  // Where what happens to the sequence is counted besides; null: nowhere.
  KeyReport* key_of(int64_t client) {
    return client == kNobody ? nullptr : &report_.keys[static_cast<size_t>(client)];
  }

  void submit(const TraceRequest& request) {
    ++report_.n_requests;
    const int64_t client = client_of(request);
    if (KeyReport* key = key_of(client)) {
      ++key->n_requests;
    }
    if (!scheduler_.check_fit(request.n_prompt, request.n_answer)) {
      ++report_.n_too_long;
      return;
    }
    if (n_queued_ >= options_.max_waiting) {
      ++report_.n_turned_away;
      return;
    }
    const SequenceId id = next_id_++;
    Sequence& sequence = sequences_[id];
    sequence = {.tokens = prompt_tokens(request),
                .n_prompt = request.n_prompt,
                .n_answer = request.n_answer,
                .client = client,
                .arrival = arrival_of(request)};
    ++n_queued_;
    scheduler_.submit({.id = id,
                       .client = client,
                       .n_prompt = request.n_prompt,
                       .max_new = request.n_answer,
                       .tokens = &sequence.tokens});
  }

  // As EngineLoop::step, without a model, drafts and a tier.
  Result<void> step() {
    if (scheduler_.is_idle()) {  // all that arrived were refused
      return {};
    }
    StepPlan plan =
        scheduler_.plan(options_.limits.fills_steps ? Scheduler::kNoLimit
                                                    : step_budget_.max_prompt_tokens(n_decoding_));
    if (plan.is_empty()) {
      return fail(ErrorCode::kInternal,
                  "[simulation] sequence {} cannot be scheduled with {} of {} blocks free",
                  scheduler_.next_waiting(),
                  scheduler_.pool().n_free(),
                  scheduler_.pool().n_total());
    }
    for (const SequenceId id : plan.admitted) {
      Sequence& sequence = sequences_.at(id);
      n_queued_ -= sequence.was_admitted ? 0 : 1;
      sequence.was_admitted = true;
    }
    for (const SequenceId id : plan.preempted) {
      sequences_.at(id).is_decoding = false;
    }
    report_.n_overtakings += std::ssize(plan.overtaken);
    const double seconds = options_.cost.seconds(plan);
    now_ += seconds;
    if (!plan.spans.empty()) {
      step_budget_.note(plan, seconds);
    }
    results_.clear();
    ended_.clear();
    n_decoding_ = 0;
    for (const SpanPlan& span : plan.spans) {
      results_.push_back(deliver(span));
    }
    scheduler_.apply(std::move(plan), results_);
    for (const SequenceId id : ended_) {
      sequences_.erase(id);
    }
    ++report_.n_steps;
    return report_.n_steps % options_.steps_between_checks == 0 ? check() : Result<void>();
  }

  SpanResult deliver(const SpanPlan& span) {
    Sequence& sequence = sequences_.at(span.sequence);
    if (span.is_sampling) {
      add_token(span.sequence, sequence);
    }
    const bool is_finished = sequence.n_written() == sequence.n_answer;
    if (is_finished) {
      finish(sequence);
      ended_.push_back(span.sequence);
    } else if (sequence.is_decoding) {
      ++n_decoding_;
    }
    return {.n_appended = span.is_sampling ? 1 : 0, .is_finished = is_finished};
  }

  // A trace does not say what is answered: tokens that no prompt and no other answer has.
  void add_token(SequenceId id, Sequence& sequence) {
    if (sequence.n_written() == 0) {
      sequence.first_token = now_;
      report_.first_token.add(now_ - sequence.arrival);
      if (KeyReport* key = key_of(sequence.client)) {
        ++key->n_started;
        key->first_token_seconds += now_ - sequence.arrival;
      }
    } else {
      report_.inter_token.add(now_ - sequence.last_token);
    }
    sequence.last_token = now_;
    sequence.is_decoding = true;
    sequence.tokens.push_back(static_cast<TokenId>(std::numeric_limits<TokenId>::min() +
                                                   static_cast<int64_t>(id % kOwn)));
    ++report_.n_answer_tokens;
  }

  void finish(const Sequence& sequence) {
    ++report_.n_finished;
    last_token_ = now_;
    report_.whole.add(now_ - sequence.arrival);
    const auto n_gaps = static_cast<double>(std::max<int64_t>(sequence.n_answer - 1, 1));
    const bool is_good =
        sequence.first_token - sequence.arrival <= options_.first_token_limit &&
        (sequence.last_token - sequence.first_token) / n_gaps <= options_.inter_token_limit;
    report_.n_good += is_good ? 1 : 0;
    if (KeyReport* key = key_of(sequence.client)) {
      ++key->n_finished;
      key->n_good += is_good ? 1 : 0;
    }
  }

  Result<void> check() const {
    if (!scheduler_.check()) {
      return fail(ErrorCode::kInternal,
                  "[simulation] after step {} scheduler and pool contradict each other",
                  report_.n_steps);
    }
    return {};
  }

  static constexpr int64_t kNobody = -1;
  static constexpr SequenceId kOwn = SequenceId{1} << 31;  // negative tokens

  const SimulationOptions& options_;
  const NextRequest& next_;
  Scheduler scheduler_;
  StepBudget step_budget_;
  std::optional<TraceRequest> ahead_;
  double now_ = 0;  // virtual seconds
  double last_token_ = 0;
  SequenceId next_id_ = 0;
  std::unordered_map<SequenceId, Sequence> sequences_;
  std::unordered_map<std::string, int64_t> clients_;  // by key
  int64_t n_queued_ = 0;                              // submitted and never admitted
  int64_t n_decoding_ = 0;
  std::vector<SpanResult> results_;
  std::vector<SequenceId> ended_;
  SimulationReport report_;
};

}  // namespace

double KeyReport::mean_first_token() const {
  return n_started > 0 ? first_token_seconds / static_cast<double>(n_started)
                       : std::numeric_limits<double>::quiet_NaN();
}

double SimulationReport::hit_rate() const {
  return counters.n_prompt_tokens > 0 ? static_cast<double>(counters.n_cached_tokens) /
                                            static_cast<double>(counters.n_prompt_tokens)
                                      : std::numeric_limits<double>::quiet_NaN();
}

Result<SimulationReport> simulate(const SimulationOptions& options, const NextRequest& next) {
  return Simulation(options, next).run();
}

}  // namespace millrace
