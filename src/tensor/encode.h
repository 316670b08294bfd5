#pragma once
// Scalar encoding of f32 values to each stored type. Deterministic; any thread.
//
// n is a multiple of the type's block size; blocks is aligned as its struct. F16 and BF16 round to
// nearest even. The 32-value types take the scale from the extreme value and round to the nearest
// level of the scale as stored. The 256-value types search each group for the scale (and min) of
// least squared error, weighted towards large values, then round those to their 6 (or 4) bits.
// In quantised types a NaN counts as 0 and magnitudes beyond f16's range saturate.

#include <cstdint>

namespace millrace {

void encode_f32(const float* values, void* blocks, int64_t n);
void encode_f16(const float* values, void* blocks, int64_t n);
void encode_bf16(const float* values, void* blocks, int64_t n);
void encode_q4_0(const float* values, void* blocks, int64_t n);
void encode_q4_1(const float* values, void* blocks, int64_t n);
void encode_q5_0(const float* values, void* blocks, int64_t n);
void encode_q5_1(const float* values, void* blocks, int64_t n);
void encode_q8_0(const float* values, void* blocks, int64_t n);
void encode_q2_k(const float* values, void* blocks, int64_t n);
void encode_q3_k(const float* values, void* blocks, int64_t n);
void encode_q4_k(const float* values, void* blocks, int64_t n);
void encode_q5_k(const float* values, void* blocks, int64_t n);
void encode_q6_k(const float* values, void* blocks, int64_t n);

}  // namespace millrace
