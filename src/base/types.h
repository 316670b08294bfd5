#pragma once
// Integer names that cross modules.

#include <cstdint>

namespace millrace {

using TokenId = std::int32_t;   // a row of the vocabulary; negative: none
using BlockId = std::uint32_t;  // a KV block of the pool

inline constexpr TokenId kNoToken = -1;

}  // namespace millrace
