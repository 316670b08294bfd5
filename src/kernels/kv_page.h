#pragma once
// The memory layout of one KV page: 64 tokens of one layer and one KV head. Plain data, any thread.

#include <cstddef>
#include <cstdint>

namespace millrace {

enum class KvType : uint8_t { kBF16, kF32 };

// "bf16" or "f32".
const char* kv_type_name(KvType type);

// A page is K followed by V. The lanes of K are tokens, those of V are dims, so that no kernel adds
// across lanes; BF16 interleaves what is summed in pairs, so that a pair is one 32-bit word:
//   kBF16  K [head_dim/2][64 tokens][2 dims]    V [32 token pairs][v_dim][2 tokens]
//   kF32   K [head_dim][64 tokens]              V [64 tokens][v_dim]
// V rows are padded to 16 values so that a kernel never has a partial vector. Tokens that were
// never written may hold anything.
struct PageFormat {
  static constexpr int kTokens = 64;

  KvType type = KvType::kBF16;
  int head_dim = 0;  // even

  constexpr int value_bytes() const { return type == KvType::kBF16 ? 2 : 4; }
  constexpr int v_dim() const { return (head_dim + 15) / 16 * 16; }
  constexpr size_t k_bytes() const { return size_t(kTokens) * size_t(head_dim) * value_bytes(); }
  constexpr size_t v_bytes() const { return size_t(kTokens) * size_t(v_dim()) * value_bytes(); }
  // Of one page: a multiple of 64, so that every page starts on a cache line.
  constexpr size_t bytes() const { return k_bytes() + v_bytes(); }

  bool operator==(const PageFormat&) const = default;
};

}  // namespace millrace
