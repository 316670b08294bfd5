#pragma once
// f16, bf16 and e4m3 to f32 and back, rounding to nearest even; exact on subnormals, infinities and
// NaN (a signalling NaN comes back quiet, as from the hardware's instructions). Any thread. Free of
// library headers and of weak symbols, so that the per-ISA kernel units may include it.

#include <stdint.h>

namespace millrace {

static constexpr uint32_t f32_bits(float x) {
  return __builtin_bit_cast(uint32_t, x);
}
static constexpr float f32_from_bits(uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

static constexpr float f16_to_f32(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 31u;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 31) {
    const uint32_t quiet = mantissa != 0 ? 0x400000u : 0u;
    return f32_from_bits(sign | 0x7f800000u | quiet | (mantissa << 13));
  }
  if (exponent == 0) {
    // A multiple of 2^-24: the product is exact.
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return f32_from_bits(sign | f32_bits(magnitude));
  }
  return f32_from_bits(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

static constexpr uint16_t f32_to_f16(float x) {
  const uint32_t bits = f32_bits(x);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  }
  if (magnitude >= 0x477ff000u) {  // 65520: the tie between 65504 and 2^16 goes to infinity
    return static_cast<uint16_t>(sign | 0x7c00u);
  }
  if (magnitude < 0x38800000u) {  // below 2^-14: adding 0.5 rounds at 2^-24, half's last place
    const uint32_t sum = f32_bits(f32_from_bits(magnitude) + 0.5f);
    return static_cast<uint16_t>(sign | (sum - f32_bits(0.5f)));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - (112u << 23)) >> 13));
}

static constexpr float bf16_to_f32(uint16_t half) {
  return f32_from_bits(static_cast<uint32_t>(half) << 16);
}

static constexpr uint16_t f32_to_bf16(float x) {
  const uint32_t bits = f32_bits(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return static_cast<uint16_t>((bits >> 16) | 0x40u);
  }
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// e4m3 has no infinity: 448 is its largest value and what larger ones become. NaN is 0x7f.
static constexpr uint8_t f32_to_e4m3(float x) {
  const uint32_t bits = f32_bits(x);
  const uint8_t sign = static_cast<uint8_t>((bits >> 24) & 0x80u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return static_cast<uint8_t>(sign | 0x7fu);
  }
  if (magnitude >= f32_bits(448.0f)) {
    return static_cast<uint8_t>(sign | 0x7eu);
  }
  if (magnitude < f32_bits(0x1p-6f)) {  // a multiple of 2^-9: adding 2^14 rounds there
    const uint32_t sum = f32_bits(f32_from_bits(magnitude) + 0x1p14f);
    return static_cast<uint8_t>(sign | (sum - f32_bits(0x1p14f)));
  }
  const uint32_t rounded = magnitude + 0x7ffffu + ((magnitude >> 20) & 1u);
  return static_cast<uint8_t>(sign | ((rounded - (120u << 23)) >> 20));
}

static constexpr float e4m3_to_f32(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x80u) << 24;
  const uint32_t magnitude = code & 0x7fu;
  if (magnitude == 0x7fu) {
    return f32_from_bits(sign | 0x7fc00000u);
  }
  if (magnitude < 8) {
    return f32_from_bits(sign | f32_bits(static_cast<float>(magnitude) * 0x1p-9f));
  }
  return f32_from_bits(sign | ((magnitude << 20) + (120u << 23)));
}

}  // namespace millrace
