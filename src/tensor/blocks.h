#pragma once
// The quantised blocks of GGUF as they lie in a file: little endian, 2-byte aligned, no padding.
// Free of library headers and of weak symbols, so that the per-ISA kernel units may include it.
//
// d, m and dmin are f16 bits (half.h). The 32-value blocks keep value i in the low nibble of qs[i]
// and value i + 16 in its high nibble. The 256-value blocks hold groups of 16 or 32 values, whose
// small integer scales multiply d (and dmin); x is the decoded value, q the stored integer.

#include <stdint.h>

namespace millrace {

constexpr int kBlock32 = 32;    // values in a block of the plain types
constexpr int kBlock256 = 256;  // values in a block of the K types

struct BlockQ4_0 {  // x = d (q - 8)
  uint16_t d;
  uint8_t qs[16];
};
struct BlockQ4_1 {  // x = d q + m
  uint16_t d;
  uint16_t m;
  uint8_t qs[16];
};
struct BlockQ5_0 {  // x = d (q - 16); bit i of qh, read as a 32-bit number, is bit 4 of value i
  uint16_t d;
  uint8_t qh[4];
  uint8_t qs[16];
};
struct BlockQ5_1 {  // x = d q + m
  uint16_t d;
  uint16_t m;
  uint8_t qh[4];
  uint8_t qs[16];
};
struct BlockQ8_0 {  // x = d q
  uint16_t d;
  int8_t qs[32];
};
// Groups of 16: x = d (scale & 15) q - dmin (scale >> 4). Byte l of the 32-byte half h of qs has
// the values 128 h + 32 j + l in its bits 2 j, 2 j + 1.
struct BlockQ2_K {
  uint8_t scales[16];
  uint8_t qs[64];
  uint16_t d;
  uint16_t dmin;
};
// Groups of 16: x = d (scale - 32) (q - 4). Low two bits of q as in Q2_K, the third is bit
// 4 h + j of hmask[l]. Sixteen 6-bit scales: low nibbles in bytes 0-7 (group g and g + 8 share a
// byte), high bit pairs in bytes 8-11 (group g in byte 8 + g % 4, bits 2 (g / 4)).
struct BlockQ3_K {
  uint8_t hmask[32];
  uint8_t qs[64];
  uint8_t scales[12];
  uint16_t d;
};
// Groups of 32: x = d scale q - dmin min. Eight 6-bit scales and mins: groups 0-3 have the low six
// bits of bytes g and g + 4; groups 4-7 have the low and high nibble of byte g + 4, and their high
// two bits are the high two of bytes g - 4 and g. Byte l of 32-byte run c of qs holds value l of
// group 2 c in its low nibble and of group 2 c + 1 in its high one.
struct BlockQ4_K {
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];
  uint8_t qs[128];
};
struct BlockQ5_K {  // as Q4_K; bit 4 of value l of group g is bit g of qh[l]
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];
  uint8_t qh[32];
  uint8_t qs[128];
};
// Groups of 16: x = d scale (q - 32). In half h (128 values), value 32 j + l has its low nibble in
// ql[64 h + 32 (j % 2) + l] (low for j < 2, else high) and bits 4-5 in bits 2 j, 2 j + 1 of qh[32 h
// + l].
struct BlockQ6_K {
  uint8_t ql[128];
  uint8_t qh[64];
  int8_t scales[16];
  uint16_t d;
};

static_assert(sizeof(BlockQ4_0) == 18 && alignof(BlockQ4_0) == 2);
static_assert(sizeof(BlockQ4_1) == 20 && alignof(BlockQ4_1) == 2);
static_assert(sizeof(BlockQ5_0) == 22 && alignof(BlockQ5_0) == 2);
static_assert(sizeof(BlockQ5_1) == 24 && alignof(BlockQ5_1) == 2);
static_assert(sizeof(BlockQ8_0) == 34 && alignof(BlockQ8_0) == 2);
static_assert(sizeof(BlockQ2_K) == 84 && alignof(BlockQ2_K) == 2);
static_assert(sizeof(BlockQ3_K) == 110 && alignof(BlockQ3_K) == 2);
static_assert(sizeof(BlockQ4_K) == 144 && alignof(BlockQ4_K) == 2);
static_assert(sizeof(BlockQ5_K) == 176 && alignof(BlockQ5_K) == 2);
static_assert(sizeof(BlockQ6_K) == 210 && alignof(BlockQ6_K) == 2);

}  // namespace millrace
