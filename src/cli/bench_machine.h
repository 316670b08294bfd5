#pragma once
// How bench shows what the machine can do. Plain functions, any thread.

#include <string>

#include "cli/json_object.h"
#include "kernels/machine_limits.h"

namespace millrace {

// A table for people.
std::string machine_text(const kernels::MachineLimits& limits);

JsonObject machine_json(const kernels::MachineLimits& limits);

}  // namespace millrace
