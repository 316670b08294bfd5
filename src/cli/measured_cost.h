#pragma once
// The cost of a step as `millrace bench` measured it, for simulations. Main thread.

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/simulation/cost_model.h"

namespace millrace {

struct MeasuredCost {
  CostModel cost;
  std::string source;  // what was measured, for people
  // Of the cost against a measurement, as a share of it; absent: no more measurements than
  // coefficients, so there is none.
  std::optional<double> largest_error;
};

// From lines of `millrace bench --json`, all of one model and number of threads: prefill at two
// lengths and decode at two depths or more. Least squares of the relative errors, no coefficient
// below 0. Errors say which line, not which file.
Result<MeasuredCost> fit_cost(std::string_view bench_lines);

// Without measurements of one's own; the source says whose.
MeasuredCost reference_cost();

}  // namespace millrace
