#pragma once
// What millrace simulate prints. Pure functions.

#include <string>

#include "cli/measured_cost.h"
#include "engine/simulation/simulation.h"

namespace millrace {

// What counts as good.
struct SimulationLimits {
  double first_token_ms = 0;
  double inter_token_ms = 0;
};

std::string simulation_text(const SimulationReport& report,
                            const MeasuredCost& measured,
                            const SimulationLimits& limits,
                            double real_seconds);
std::string simulation_json(const SimulationReport& report,
                            const MeasuredCost& measured,
                            const SimulationLimits& limits,
                            double real_seconds);

}  // namespace millrace
