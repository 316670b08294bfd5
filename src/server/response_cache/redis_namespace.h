#pragma once
// What servers that share a Redis must have in common for their answers to be the same. Any thread.

#include <atomic>

#include "base/digest.h"
#include "base/result.h"

namespace millrace {

class Engine;

// SHA-256 of all bytes of the model's files (weights, tokenizer) and of this program, and of what
// else decides about rounding. Reads the files. kCancelled: stopped before the end. kIo: the
// program's file cannot be read.
Result<Digest256> redis_namespace(const Engine& engine, const std::atomic<bool>& is_stopping);

}  // namespace millrace
