#pragma once
// What this machine's libm answers. Any thread.

#include "base/digest.h"

namespace millrace {

// SHA-256 of many results of the functions that answers depend on. A C library picks variants of
// them by the processor (with FMA or without), whose results differ in the last bit for one
// argument in a thousand to one in tens of thousands; so its version and the instruction set of the
// kernels do not tell which numbers come out. About 10 ms.
Digest256 libm_digest();

}  // namespace millrace
