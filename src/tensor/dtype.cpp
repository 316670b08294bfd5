#include "tensor/dtype.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "base/check.h"
#include "tensor/blocks.h"
#include "tensor/decode.h"
#include "tensor/encode.h"

namespace millrace {
namespace {

constexpr uint32_t kNoId = UINT32_MAX;  // no type of GGUF

// clang-format off
constexpr DTypeInfo kTable[] = {
    // dtype        name  ggml file  block size  bytes
    {DType::kF32,  "F32",   0,  0, 1, 4, decode_f32, encode_f32},
    {DType::kF16,  "F16",   1,  1, 1, 2, decode_f16, encode_f16},
    {DType::kBF16, "BF16", 30, 32, 1, 2, decode_bf16, encode_bf16},
    {DType::kQ4_0, "Q4_0",  2,  2, kBlock32, sizeof(BlockQ4_0), decode_q4_0, encode_q4_0},
    {DType::kQ4_1, "Q4_1",  3,  3, kBlock32, sizeof(BlockQ4_1), decode_q4_1, encode_q4_1},
    {DType::kQ5_0, "Q5_0",  6,  8, kBlock32, sizeof(BlockQ5_0), decode_q5_0, encode_q5_0},
    {DType::kQ5_1, "Q5_1",  7,  9, kBlock32, sizeof(BlockQ5_1), decode_q5_1, encode_q5_1},
    {DType::kQ8_0, "Q8_0",  8,  7, kBlock32, sizeof(BlockQ8_0), decode_q8_0, encode_q8_0},
    {DType::kQ2_K, "Q2_K", 10, 10, kBlock256, sizeof(BlockQ2_K), decode_q2_k, encode_q2_k},
    {DType::kQ3_K, "Q3_K", 11, 12, kBlock256, sizeof(BlockQ3_K), decode_q3_k, encode_q3_k},
    {DType::kQ4_K, "Q4_K", 12, 15, kBlock256, sizeof(BlockQ4_K), decode_q4_k, encode_q4_k},
    {DType::kQ5_K, "Q5_K", 13, 17, kBlock256, sizeof(BlockQ5_K), decode_q5_k, encode_q5_k},
    {DType::kQ6_K, "Q6_K", 14, 18, kBlock256, sizeof(BlockQ6_K), decode_q6_k, encode_q6_k},
    {DType::kF8_E4M3, "F8_E4M3", kNoId, kNoId, 1, 1, nullptr, nullptr},
    {DType::kInt4,  "INT4", kNoId, kNoId, 2, 1, nullptr, nullptr},
};

struct OtherType {
  uint32_t ggml_id;
  const char* name;
};

// Types that GGUF files may hold and Millrace does not read, so that the error can name them.
constexpr OtherType kOtherTypes[] = {
    {4, "Q4_2"},       {5, "Q4_3"},        {9, "Q8_1"},        {15, "Q8_K"},      {16, "IQ2_XXS"},
    {17, "IQ2_XS"},    {18, "IQ3_XXS"},    {19, "IQ1_S"},      {20, "IQ4_NL"},    {21, "IQ3_S"},
    {22, "IQ2_S"},     {23, "IQ4_XS"},     {24, "I8"},         {25, "I16"},       {26, "I32"},
    {27, "I64"},       {28, "F64"},        {29, "IQ1_M"},      {31, "Q4_0_4_4"},  {32, "Q4_0_4_8"},
    {33, "Q4_0_8_8"},  {34, "TQ1_0"},      {35, "TQ2_0"},      {36, "IQ4_NL_4_4"},
    {37, "IQ4_NL_4_8"}, {38, "IQ4_NL_8_8"}, {39, "MXFP4"},     {40, "NVFP4"},
};
// clang-format on

constexpr bool is_in_order() {
  for (size_t i = 0; i < std::size(kTable); ++i) {
    if (static_cast<size_t>(kTable[i].dtype) != i) return false;
  }
  return true;
}
static_assert(is_in_order(), "rows stand in the order of DType");

constexpr auto kGgufTypes =
    std::span(kTable).first<static_cast<size_t>(DType::kF8_E4M3)>();  // those before the codes

std::string known_names() {
  std::string names;
  for (const DTypeInfo& info : kGgufTypes) {
    if (!names.empty()) names += ", ";
    names += info.name;
  }
  return names;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::toupper(static_cast<unsigned char>(x)) ==
           std::toupper(static_cast<unsigned char>(y));
  });
}

}  // namespace

const DTypeInfo& dtype_info(DType dtype) {
  const auto row = static_cast<size_t>(dtype);
  MR_CHECK(row < std::size(kTable), "dtype {}", row);
  return kTable[row];
}

std::span<const DTypeInfo> all_dtypes() {
  return kGgufTypes;
}

Result<DType> dtype_from_ggml(uint32_t ggml_id) {
  for (const DTypeInfo& info : kGgufTypes) {
    if (info.ggml_id == ggml_id) return info.dtype;
  }
  for (const OtherType& other : kOtherTypes) {
    if (other.ggml_id == ggml_id) {
      return fail(ErrorCode::kUnsupported,
                  "tensor type {} is not supported; the supported types are {}",
                  other.name,
                  known_names());
    }
  }
  return fail(ErrorCode::kCorrupt, "{} is not a known tensor type", ggml_id);
}

Result<DType> dtype_from_name(std::string_view name) {
  for (const DTypeInfo& info : kGgufTypes) {
    if (equal_ignoring_case(info.name, name)) return info.dtype;
  }
  return fail(
      ErrorCode::kInvalidArgument, "'{}' is not one of the tensor types {}", name, known_names());
}

}  // namespace millrace
