#pragma once
// How many files and connections this process may have open. Main thread, before others start.

#include <cstdint>

namespace millrace {

// Raises the soft limit, often 1,024, to the hard one, which the administrator set. Gives the limit
// from then on.
int64_t raise_descriptor_limit();

}  // namespace millrace
