#pragma once
// Parses and checks one safetensors file (github.com/huggingface/safetensors, "Format"): the length
// of a JSON header in 64 bits, the header, the data. Any thread.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace millrace {

struct SafetensorsTensor {
  std::string name;            // not empty, text of one line
  std::string dtype;           // as in the file: "BF16"
  std::vector<int64_t> shape;  // outermost first; empty: one value; lengths of 0 may occur
  std::span<const std::byte> data;
};

// Longest header that is read; the format's own limit.
inline constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;

// In the order of the data, which they cover without a hole and without an overlap, each exactly as
// long as its shape and type say, of any alignment. Names are unique. `name` is for messages, data
// refers to `bytes`. Errors: kCorrupt, with "truncated" in the message when bytes are missing at
// the end; kUnsupported names an unknown type.
Result<std::vector<SafetensorsTensor>> parse_safetensors(std::span<const std::byte> bytes,
                                                         const std::string& name);

}  // namespace millrace
