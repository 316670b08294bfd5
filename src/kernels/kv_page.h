#pragma once
// The memory layout of one KV page: 64 tokens of one layer and one KV head. Plain data, any thread.

#include <cstddef>
#include <cstdint>

namespace millrace {

enum class KvType : uint8_t { kBF16, kF32, kInt8, kFP8 };
inline constexpr int kKvTypes = 4;

// "bf16", "f32", "int8" or "fp8".
const char* kv_type_name(KvType type);

// Most dims of a head whose int8 dot products are exact.
inline constexpr int kMaxInt8HeadDim = 256;

// A page is K followed by V. The lanes of K are tokens, those of V are dims, so that no kernel adds
// across lanes; what is summed in pairs or quads lies together, as one 32-bit word:
//   kBF16  K [head_dim/2][64 tokens][2 dims]    V [32 token pairs][v_dim][2 tokens]
//   kF32   K [head_dim][64 tokens]              V [64 tokens][v_dim]
//   kInt8  K [v_dim/4][64 tokens][4 dims] u8    V [16 token quads][v_dim][4 tokens] u8
//   kFP8   K [v_dim][64 tokens] e4m3            V [64 tokens][v_dim] e4m3
// Behind the codes of kInt8 and kFP8 are 64 f32 scales, one for each token's K, and again for its
// V: x = scale (code - 128), x = scale e4m3 / 256. V rows are padded to 16 values so that a kernel
// never has a partial vector. Tokens that were never written may hold anything.
struct PageFormat {
  static constexpr int kTokens = 64;

  KvType type = KvType::kBF16;
  int head_dim = 0;  // even

  constexpr bool has_scales() const { return type == KvType::kInt8 || type == KvType::kFP8; }
  constexpr int value_bytes() const {
    return type == KvType::kF32 ? 4 : type == KvType::kBF16 ? 2 : 1;
  }
  constexpr int v_dim() const { return (head_dim + 15) / 16 * 16; }
  constexpr size_t scale_bytes() const { return has_scales() ? kTokens * sizeof(float) : 0; }
  constexpr size_t k_bytes() const {
    const int rows = has_scales() ? v_dim() : head_dim;
    return size_t(kTokens) * size_t(rows) * value_bytes() + scale_bytes();
  }
  constexpr size_t v_bytes() const {
    return size_t(kTokens) * size_t(v_dim()) * value_bytes() + scale_bytes();
  }
  // Of one page: a multiple of 64, so that every page starts on a cache line.
  constexpr size_t bytes() const { return k_bytes() + v_bytes(); }

  bool operator==(const PageFormat&) const = default;
};

}  // namespace millrace
