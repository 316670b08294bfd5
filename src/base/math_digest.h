#pragma once
// Which functions of mathematics this process has. The C library picks its log, exp, pow, sin and
// cos by what the processor can do, and they differ in last bits: results that shall be the same
// bit for bit depend on them, not only on this program. Any thread.

#include "base/digest.h"

namespace millrace {

// Of the bits that they give for some thousand arguments; the same wherever it is the same code.
Digest256 math_digest();

}  // namespace millrace
