#pragma once
// What the fuzzer and the corpus test both do with a file. Any thread.

#include <cstddef>
#include <span>

#include "base/result.h"

namespace millrace {

// Parses the bytes, reads every metadata entry as every type, and decodes the first and last row of
// every tensor. The result is the parser's: everything behind it must not fail.
Result<void> exercise_gguf(std::span<const std::byte> bytes);

}  // namespace millrace
