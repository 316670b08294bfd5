#include "kernels/panel_pack.h"

#include <cstring>

#include "base/check.h"
#include "tensor/blocks.h"
#include "tensor/half.h"
#include "tensor/k_scales.h"

namespace millrace::kernels {
namespace {

constexpr uint32_t kNibbles = 0x0f0f0f0f;
constexpr uint32_t kPairs = 0x03030303;
constexpr uint32_t kBits = 0x01010101;
constexpr int kQuadBytes = 4 * kPanelRows;  // one quad of all rows

uint32_t load_word(const void* from) {
  uint32_t word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

template <class T>
void store_at(uint8_t* to, T value) {
  std::memcpy(to, &value, sizeof(value));
}

uint8_t* quad_at(uint8_t* quads, int quad, int row) {
  return quads + quad * kQuadBytes + row * 4;
}

void store_codes(uint8_t* quads, int row, const uint32_t (&codes)[8]) {
  for (int quad = 0; quad < 8; ++quad) {
    store_at(quad_at(quads, quad, row), codes[quad]);
  }
}

// Eight quads of codes as the planes of 32 k.
template <Planes kPlanes>
void store_planes(uint8_t* planes, int row, const uint32_t (&codes)[8]) {
  if constexpr (kPlanes.has_nibbles) {
    for (int quad = 0; quad < 4; ++quad) {
      store_at(quad_at(planes, quad, row),
               (codes[quad] & kNibbles) | (codes[quad + 4] & kNibbles) << 4);
    }
  }
  if constexpr (kPlanes.has_pairs) {
    const auto pair = [&](int quad) { return codes[quad] >> kPlanes.pair_bit() & kPairs; };
    for (int p = 0; p < 2; ++p) {
      store_at(quad_at(planes, kPlanes.pair_line() + p, row),
               pair(2 * p) | pair(2 * p + 4) << 2 | pair(2 * p + 1) << 4 | pair(2 * p + 5) << 6);
    }
  }
  if constexpr (kPlanes.has_bits) {
    uint32_t bits = 0;
    for (int quad = 0; quad < 8; ++quad) {
      bits |= (codes[quad] >> kPlanes.single_bit() & kBits) << quad;
    }
    store_at(quad_at(planes, kPlanes.single_line(), row), bits);
  }
}

// Codes of the 32-value types, quad by quad: 16 bytes with value i low and value i + 16 high.
void split_nibbles(const uint8_t* packed, uint32_t (&codes)[8]) {
  for (int quad = 0; quad < 4; ++quad) {
    const uint32_t word = load_word(packed + 4 * quad);
    codes[quad] = word & kNibbles;
    codes[quad + 4] = word >> 4 & kNibbles;
  }
}

// Adds bit i of `bits` to code i as its bit 4.
void add_fifth_bits(const uint8_t* bits, uint32_t (&codes)[8]) {
  const uint32_t all = load_word(bits);
  for (int quad = 0; quad < 8; ++quad) {
    const uint32_t four = all >> (4 * quad) & 15u;
    // Bit j of four to bit 8 j: the products do not overlap where the mask looks.
    codes[quad] |= (four * 0x00204081u & kBits) << 4;
  }
}

void pack_block(const BlockQ8_0& from, int row, uint8_t* to) {
  uint32_t codes[8];
  for (int quad = 0; quad < 8; ++quad) {
    codes[quad] = load_word(from.qs + 4 * quad) ^ 0x80808080u;  // q + 128
  }
  store_at(to + 2 * row, from.d);
  store_codes(to + 2 * kPanelRows, row, codes);
}

// Scales, and offsets if there are any, then the planes of 32 k.
template <Planes kPlanes>
void pack_32(
    const uint16_t* factors, int n_factors, const uint32_t (&codes)[8], int row, uint8_t* to) {
  for (int i = 0; i < n_factors; ++i) {
    store_at(to + 2 * (i * kPanelRows + row), factors[i]);
  }
  store_planes<kPlanes>(to + 2 * n_factors * kPanelRows, row, codes);
}

void pack_block(const BlockQ4_0& from, int row, uint8_t* to) {
  uint32_t codes[8];
  split_nibbles(from.qs, codes);
  pack_32<kQ4Planes>(&from.d, 1, codes, row, to);
}

void pack_block(const BlockQ4_1& from, int row, uint8_t* to) {
  uint32_t codes[8];
  split_nibbles(from.qs, codes);
  const uint16_t factors[] = {from.d, from.m};
  pack_32<kQ4Planes>(factors, 2, codes, row, to);
}

void pack_block(const BlockQ5_0& from, int row, uint8_t* to) {
  uint32_t codes[8];
  split_nibbles(from.qs, codes);
  add_fifth_bits(from.qh, codes);
  pack_32<kQ5Planes>(&from.d, 1, codes, row, to);
}

void pack_block(const BlockQ5_1& from, int row, uint8_t* to) {
  uint32_t codes[8];
  split_nibbles(from.qs, codes);
  add_fifth_bits(from.qh, codes);
  const uint16_t factors[] = {from.d, from.m};
  pack_32<kQ5Planes>(factors, 2, codes, row, to);
}

// Of Q4_K and Q5_K; gives back where the planes begin.
uint8_t* store_scale_mins(uint16_t d, uint16_t dmin, const uint8_t* packed, int row, uint8_t* to) {
  store_at(to + 2 * row, d);
  store_at(to + 2 * (kPanelRows + row), dmin);
  uint8_t* low = to + 4 * kPanelRows;
  uint8_t* high = low + 8 * kPanelRows;
  ScaleMin6 scales[8];
  for (int g = 0; g < 8; ++g) {
    scales[g] = scale_min_6(packed, g);
    low[g * kPanelRows + row] =
        static_cast<uint8_t>((scales[g].scale & 15) | (scales[g].min & 15) << 4);
  }
  for (int g = 0; g < 4; ++g) {
    high[g * kPanelRows + row] =
        static_cast<uint8_t>(scales[g].scale >> 4 | scales[g].min >> 4 << 2 |
                             scales[g + 4].scale >> 4 << 4 | scales[g + 4].min >> 4 << 6);
  }
  return high + 4 * kPanelRows;
}

void pack_block(const BlockQ4_K& from, int row, uint8_t* to) {
  uint8_t* planes = store_scale_mins(from.d, from.dmin, from.scales, row, to);
  for (int g = 0; g < 8; ++g) {
    uint32_t codes[8];
    for (int quad = 0; quad < 8; ++quad) {
      codes[quad] = load_word(from.qs + 32 * (g / 2) + 4 * quad) >> (4 * (g % 2)) & kNibbles;
    }
    store_planes<kQ4Planes>(planes + g * kQ4Planes.group_bytes(), row, codes);
  }
}

void pack_block(const BlockQ5_K& from, int row, uint8_t* to) {
  uint8_t* planes = store_scale_mins(from.d, from.dmin, from.scales, row, to);
  for (int g = 0; g < 8; ++g) {
    uint32_t codes[8];
    for (int quad = 0; quad < 8; ++quad) {
      const uint32_t low = load_word(from.qs + 32 * (g / 2) + 4 * quad) >> (4 * (g % 2));
      const uint32_t fifth = load_word(from.qh + 4 * quad) >> g & kBits;
      codes[quad] = (low & kNibbles) | fifth << 4;
    }
    store_planes<kQ5Planes>(planes + g * kQ5Planes.group_bytes(), row, codes);
  }
}

// Of Q3_K and Q6_K, scale(g) of 16 groups; gives back where the planes begin.
template <class Scale>
uint8_t* store_signed_scales(uint16_t d, const Scale& scale, int row, uint8_t* to) {
  store_at(to + 2 * row, d);
  for (int g = 0; g < 16; ++g) {
    to[(2 + g) * kPanelRows + row] = static_cast<uint8_t>(scale(g));
  }
  return to + 18 * kPanelRows;
}

void pack_block(const BlockQ6_K& from, int row, uint8_t* to) {
  uint8_t* planes = store_signed_scales(
      from.d, [&](int g) { return from.scales[g]; }, row, to);
  for (int g = 0; g < 8; ++g) {
    const int half = g / 4;
    const int j = g % 4;
    uint32_t codes[8];
    for (int quad = 0; quad < 8; ++quad) {
      const uint32_t low = load_word(from.ql + 64 * half + 32 * (j % 2) + 4 * quad);
      const uint32_t high = load_word(from.qh + 32 * half + 4 * quad);
      codes[quad] = (low >> (j < 2 ? 0 : 4) & kNibbles) | (high >> (2 * j) & kPairs) << 4;
    }
    store_planes<kQ6_KPlanes>(planes + g * kQ6_KPlanes.group_bytes(), row, codes);
  }
}

void pack_block(const BlockQ3_K& from, int row, uint8_t* to) {
  uint8_t* planes = store_signed_scales(
      from.d, [&](int g) { return q3_k_scale(from.scales, g) - 32; }, row, to);
  for (int g = 0; g < 8; ++g) {
    uint32_t codes[8];
    for (int quad = 0; quad < 8; ++quad) {
      const uint32_t low = load_word(from.qs + 32 * (g / 4) + 4 * quad) >> (2 * (g % 4)) & kPairs;
      const uint32_t third = load_word(from.hmask + 4 * quad) >> g & kBits;
      codes[quad] = low | third << 2;
    }
    store_planes<kQ3_KPlanes>(planes + g * kQ3_KPlanes.group_bytes(), row, codes);
  }
}

void pack_block(const BlockQ2_K& from, int row, uint8_t* to) {
  store_at(to + 2 * row, from.d);
  store_at(to + 2 * (kPanelRows + row), from.dmin);
  for (int g = 0; g < 16; ++g) {
    to[(4 + g) * kPanelRows + row] = from.scales[g];
  }
  uint8_t* planes = to + 20 * kPanelRows;
  for (int g = 0; g < 8; ++g) {
    uint32_t codes[8];
    for (int quad = 0; quad < 8; ++quad) {
      codes[quad] = load_word(from.qs + 32 * (g / 4) + 4 * quad) >> (2 * (g % 4)) & kPairs;
    }
    store_planes<kQ2_KPlanes>(planes + g * kQ2_KPlanes.group_bytes(), row, codes);
  }
}

// Block by block through all rows, so that a panel block is written while it is in the cache.
template <class Block, int kBlockK, PanelFormat kFormat>
void pack_blocks(const PanelSource& source, std::byte* panel) {
  constexpr PanelInfo kInfo = kPanelInfo[static_cast<int>(kFormat)];
  static_assert(kBlockK % kInfo.block_k == 0);
  auto* to = reinterpret_cast<uint8_t*>(panel);
  for (int64_t b = 0; b < source.n_in / kBlockK; ++b) {
    for (int row = 0; row < source.n_rows; ++row) {
      Block block;
      std::memcpy(
          &block, source.rows + row * source.row_bytes + b * int64_t{sizeof(Block)}, sizeof(Block));
      pack_block(block, row, to);
    }
    to += kBlockK / kInfo.block_k * kInfo.block_bytes;
  }
}

// Transposes scalars to [K / kPair][32][kPair].
template <class T, int kPair, class Convert>
void pack_scalars(const PanelSource& source, std::byte* panel, const Convert& convert) {
  constexpr int64_t kChunk = 32;
  for (int64_t begin = 0; begin < source.n_in; begin += kChunk) {
    const int64_t end = begin + kChunk < source.n_in ? begin + kChunk : source.n_in;
    for (int row = 0; row < source.n_rows; ++row) {
      for (int64_t k = begin; k < end; ++k) {
        T value;
        std::memcpy(
            &value, source.rows + row * source.row_bytes + k * int64_t{sizeof(T)}, sizeof(T));
        value = convert(value);
        const int64_t at = (k / kPair * kPanelRows + row) * kPair + k % kPair;
        std::memcpy(panel + at * int64_t{sizeof(T)}, &value, sizeof(T));
      }
    }
  }
}

void pack_f32(const PanelSource& source, std::byte* panel) {
  pack_scalars<uint32_t, 1>(source, panel, [](uint32_t bits) { return bits; });
}
void pack_f16(const PanelSource& source, std::byte* panel) {
  pack_scalars<uint16_t, 1>(source, panel, [](uint16_t bits) { return bits; });
}
void pack_bf16(const PanelSource& source, std::byte* panel) {
  pack_scalars<uint16_t, 2>(source, panel, [](uint16_t bits) { return bits; });
}
void pack_f16_as_bf16(const PanelSource& source, std::byte* panel) {
  pack_scalars<uint16_t, 2>(
      source, panel, [](uint16_t bits) { return f32_to_bf16(f16_to_f32(bits)); });
}

}  // namespace

PackPanel panel_packer(DType dtype, PanelFormat format) {
  switch (dtype) {
    case DType::kF32:
      return pack_f32;
    case DType::kF16:
      return format == PanelFormat::kBF16 ? pack_f16_as_bf16 : pack_f16;
    case DType::kBF16:
      return pack_bf16;
    case DType::kQ4_0:
      return pack_blocks<BlockQ4_0, kBlock32, PanelFormat::kQ4_0>;
    case DType::kQ4_1:
      return pack_blocks<BlockQ4_1, kBlock32, PanelFormat::kQ4_1>;
    case DType::kQ5_0:
      return pack_blocks<BlockQ5_0, kBlock32, PanelFormat::kQ5_0>;
    case DType::kQ5_1:
      return pack_blocks<BlockQ5_1, kBlock32, PanelFormat::kQ5_1>;
    case DType::kQ8_0:
      return pack_blocks<BlockQ8_0, kBlock32, PanelFormat::kQ8_0>;
    case DType::kQ2_K:
      return pack_blocks<BlockQ2_K, kBlock256, PanelFormat::kQ2_K>;
    case DType::kQ3_K:
      return pack_blocks<BlockQ3_K, kBlock256, PanelFormat::kQ3_K>;
    case DType::kQ4_K:
      return pack_blocks<BlockQ4_K, kBlock256, PanelFormat::kQ4_K>;
    case DType::kQ5_K:
      return pack_blocks<BlockQ5_K, kBlock256, PanelFormat::kQ5_K>;
    case DType::kQ6_K:
      return pack_blocks<BlockQ6_K, kBlock256, PanelFormat::kQ6_K>;
    case DType::kF8_E4M3:
    case DType::kInt4:
      break;  // matrix_source_pack.h
  }
  MR_CHECK(false, "dtype {}", static_cast<int>(dtype));
}

bool halves_fit_bf16(const std::byte* halves, int64_t n) {
  uint16_t any = 0;
  for (int64_t i = 0; i < n; ++i) {
    uint16_t half;
    std::memcpy(&half, halves + 2 * i, sizeof(half));
    any |= half;
  }
  if ((any & 7u) == 0) {
    return true;  // no significand uses the three bits that bf16 lacks
  }
  for (int64_t i = 0; i < n; ++i) {  // some small subnormals fit all the same
    uint16_t half;
    std::memcpy(&half, halves + 2 * i, sizeof(half));
    if ((f32_bits(f16_to_f32(half)) & 0xffffu) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace millrace::kernels
