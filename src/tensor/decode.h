#pragma once
// Scalar decoding of each stored type to f32: the reference that faster kernels are tested against.
// n is a multiple of the type's block size; blocks is aligned as its struct. Any thread.

#include <cstdint>

namespace millrace {

void decode_f32(const void* blocks, float* values, int64_t n);
void decode_f16(const void* blocks, float* values, int64_t n);
void decode_bf16(const void* blocks, float* values, int64_t n);
void decode_q4_0(const void* blocks, float* values, int64_t n);
void decode_q4_1(const void* blocks, float* values, int64_t n);
void decode_q5_0(const void* blocks, float* values, int64_t n);
void decode_q5_1(const void* blocks, float* values, int64_t n);
void decode_q8_0(const void* blocks, float* values, int64_t n);
void decode_q2_k(const void* blocks, float* values, int64_t n);
void decode_q3_k(const void* blocks, float* values, int64_t n);
void decode_q4_k(const void* blocks, float* values, int64_t n);
void decode_q5_k(const void* blocks, float* values, int64_t n);
void decode_q6_k(const void* blocks, float* values, int64_t n);

}  // namespace millrace
