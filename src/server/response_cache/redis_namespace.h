#pragma once
// What servers that share a Redis must have in common for their answers to be the same. Any thread.

#include <atomic>
#include <optional>
#include <string_view>

#include "base/digest.h"

namespace millrace {

class Engine;

// SHA-256 of all bytes of the model's files (weights, tokenizer), of the version and of what
// decides about rounding. Reads the files. Absent: stopped before the
// end.
std::optional<Digest256> redis_namespace(const Engine& engine,
                                         std::string_view version,
                                         const std::atomic<bool>& is_stopping);

}  // namespace millrace
