#pragma once
// Requests of a trace through the real scheduler and block pool, in virtual time: a cost model says
// what a step takes, and nothing is computed. The same input gives the same report. One thread.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/scheduler.h"
#include "engine/simulation/cost_model.h"
#include "engine/simulation/latencies.h"
#include "engine/simulation/trace.h"

namespace millrace {

struct SimulationOptions {
  SchedulerLimits limits = {};
  double max_step_seconds = 0;  // as of StepBudget
  int64_t max_waiting = 512;    // requests in the queue, before more are turned away
  CostModel cost = {};          // a step takes some time
  double rate_scale = 1;  // requests in a second of virtual time, by those in one of the trace
  double first_token_limit = 0;  // seconds; what counts as good
  double inter_token_limit = 0;
  int64_t steps_between_checks = 10'000;  // of all that the scheduler holds
};

// What became of the requests of one key.
struct KeyReport {
  std::string key;
  int64_t n_requests = 0;
  int64_t n_finished = 0;
  int64_t n_good = 0;
  int64_t n_started = 0;           // got a token
  double first_token_seconds = 0;  // of those, from the arrival, added up

  double mean_first_token() const;  // NaN of none
};

struct SimulationReport {
  int64_t n_requests = 0;
  int64_t n_finished = 0;
  int64_t n_too_long = 0;     // refused: the pool is too small for them alone
  int64_t n_turned_away = 0;  // refused: the queue was full
  int64_t n_good = 0;         // finished, first token and mean gap between tokens within the limits
  int64_t n_steps = 0;
  int64_t n_overtakings = 0;  // of one that waits by one behind it
  int64_t n_answer_tokens = 0;
  double seconds = 0;  // virtual, from the first arrival to the last token
  SchedulerCounters counters;
  std::vector<KeyReport> keys;  // by their first request
  Latencies first_token;        // from the arrival
  Latencies inter_token;        // every gap between two tokens of an answer
  Latencies whole;              // from the arrival to the last token

  int64_t n_refused() const { return n_too_long + n_turned_away; }
  double hit_rate() const;  // of prompt tokens of the admitted; NaN of none
};

// The next request, in the order of arrival; absent behind the last.
using NextRequest = std::function<Result<std::optional<TraceRequest>>()>;

// Errors: those of `next`; kInternal when the scheduler breaks one of its promises.
Result<SimulationReport> simulate(const SimulationOptions& options, const NextRequest& next);

}  // namespace millrace
