#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tensor/blocks.h"
#include "tensor/dtype.h"
#include "tensor/half.h"
#include "tensor/tensor_view.h"

namespace millrace {
namespace {

struct Golden {
  std::vector<char> input;
  std::vector<char> output;
};

// Records made by tools/make_tensor_goldens.py.
std::map<std::string, Golden> read_goldens() {
  std::ifstream file(MILLRACE_SOURCE_DIR "/src/tensor/testdata/goldens.bin", std::ios::binary);
  std::map<std::string, Golden> goldens;
  char name[17] = {};
  uint32_t sizes[2];
  while (file.read(name, 16) && file.read(reinterpret_cast<char*>(sizes), 8)) {
    Golden& golden = goldens[name];
    golden.input.resize(sizes[0]);
    golden.output.resize(sizes[1]);
    file.read(golden.input.data(), sizes[0]);
    file.read(golden.output.data(), sizes[1]);
  }
  return goldens;
}

template <class T>
std::vector<T> as_vector(const std::vector<char>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(TensorView, rows_of_split_heads_are_found_where_they_lie) {
  uint8_t bytes[12] = {};
  TensorView view;
  view.dtype = DType::kF16;
  view.n_dims = 2;
  view.shape = {1, 6, 1, 1};
  view.data = std::as_bytes(std::span(bytes));
  const auto places = [&] {
    std::vector<int64_t> rows;
    for (int64_t r = 0; r < 6; ++r) rows.push_back((view.row(r) - view.data.data()) / 2);
    return rows;
  };
  EXPECT_EQ(places(), (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
  view.split_head_rows = 6;  // three pairs: first values 0 1 2, second ones 3 4 5
  EXPECT_EQ(places(), (std::vector<int64_t>{0, 3, 1, 4, 2, 5}));
  view.split_head_rows = 2;
  EXPECT_EQ(places(), (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
}

TEST(dtype, plain_numbers_decode_from_any_address) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    const DTypeInfo& info = dtype_info(dtype);
    const std::vector<float> values = {1.0f, -2.5f, 0.0f, 384.0f};
    std::vector<std::byte> bytes(1 + 4 * static_cast<size_t>(info.block_bytes));
    std::vector<std::byte> aligned(bytes.size() - 1);
    info.encode(values.data(), aligned.data(), 4);
    std::memcpy(bytes.data() + 1, aligned.data(), aligned.size());
    std::vector<float> decoded(4);
    info.decode(bytes.data() + 1, decoded.data(), 4);
    EXPECT_EQ(decoded, values) << info.name;
  }
}

TEST(half, every_f16_decodes_to_its_defined_value) {
  for (uint32_t half = 0; half < 0x10000; ++half) {
    const int exponent = static_cast<int>(half >> 10) & 31;
    const int mantissa = static_cast<int>(half & 0x3ff);
    const double sign = half & 0x8000 ? -1.0 : 1.0;
    const float decoded = f16_to_f32(static_cast<uint16_t>(half));
    if (exponent == 31 && mantissa != 0) {
      EXPECT_TRUE(std::isnan(decoded)) << half;
      continue;
    }
    const double expected = exponent == 31  ? sign * std::numeric_limits<double>::infinity()
                            : exponent == 0 ? sign * std::ldexp(mantissa, -24)
                                            : sign * std::ldexp(1024 + mantissa, exponent - 25);
    ASSERT_EQ(static_cast<double>(decoded), expected) << half;
    ASSERT_EQ(std::signbit(decoded), (half & 0x8000) != 0) << half;
    ASSERT_EQ(f32_to_f16(decoded), half);
  }
}

TEST(half, every_e4m3_survives_the_round_trip_and_its_value_is_that_of_the_format) {
  for (int code = 0; code < 256; ++code) {
    const float decoded = e4m3_to_f32(static_cast<uint8_t>(code));
    if ((code & 0x7f) == 0x7f) {
      EXPECT_TRUE(std::isnan(decoded));
      continue;
    }
    const int exponent = code >> 3 & 15;
    const float mantissa = static_cast<float>(code & 7) / 8;
    const float magnitude =
        exponent == 0 ? std::ldexp(mantissa, -6) : std::ldexp(1 + mantissa, exponent - 7);
    EXPECT_EQ(decoded, code < 128 ? magnitude : -magnitude);
    EXPECT_EQ(f32_to_e4m3(decoded), code);
  }
}

TEST(half, e4m3_rounds_to_the_nearest_and_ties_to_even) {
  for (int code = 0; code < 0x7e; ++code) {
    const float low = e4m3_to_f32(static_cast<uint8_t>(code));
    const float high = e4m3_to_f32(static_cast<uint8_t>(code + 1));
    const float tie = (low + high) / 2;
    EXPECT_EQ(f32_to_e4m3(tie), code + code % 2);
    EXPECT_EQ(f32_to_e4m3(std::nextafter(tie, low)), code);
    EXPECT_EQ(f32_to_e4m3(-std::nextafter(tie, high)), (code + 1) | 0x80);
  }
  EXPECT_EQ(f32_to_e4m3(1e30f), 0x7e);
  EXPECT_EQ(f32_to_e4m3(-std::numeric_limits<float>::infinity()), 0xfe);
  EXPECT_EQ(f32_to_e4m3(std::numeric_limits<float>::quiet_NaN()) & 0x7f, 0x7f);
}

TEST(half, every_bf16_survives_the_round_trip) {
  for (uint32_t half = 0; half < 0x10000; ++half) {
    const float decoded = bf16_to_f32(static_cast<uint16_t>(half));
    ASSERT_EQ(f32_bits(decoded), half << 16);
    if (std::isnan(decoded)) {
      ASSERT_EQ(f32_to_bf16(decoded), half | 0x40u);
    } else {
      ASSERT_EQ(f32_to_bf16(decoded), half);
    }
  }
}

TEST(half, nan_stays_nan_and_becomes_quiet) {
  for (const uint32_t bits : {0x7f800001u, 0xff800001u, 0x7fc00000u, 0x7fffffffu}) {
    EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(f32_from_bits(bits)))));
    EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(f32_from_bits(bits)))));
    EXPECT_EQ(f32_to_f16(f32_from_bits(bits)) & 0x7e00, 0x7e00);
  }
}

TEST(half, rounding_agrees_with_numpy) {
  const auto goldens = read_goldens();
  for (const char* name : {"f32_to_f16", "f32_to_bf16"}) {
    ASSERT_TRUE(goldens.contains(name));
    const auto input = as_vector<float>(goldens.at(name).input);
    const auto expected = as_vector<uint16_t>(goldens.at(name).output);
    ASSERT_EQ(input.size(), expected.size());
    ASSERT_GT(input.size(), 500u);
    const bool is_f16 = std::string(name) == "f32_to_f16";
    for (size_t i = 0; i < input.size(); ++i) {
      const uint16_t half = is_f16 ? f32_to_f16(input[i]) : f32_to_bf16(input[i]);
      ASSERT_EQ(half, expected[i]) << name << " of " << input[i];
    }
  }
}

TEST(dtype, table_rows_are_found_by_id_and_by_name_in_any_case) {
  for (const DTypeInfo& info : all_dtypes()) {
    EXPECT_EQ(dtype_from_ggml(info.ggml_id).value(), info.dtype);
    EXPECT_EQ(dtype_from_name(info.name).value(), info.dtype);
    std::string lower = info.name;
    for (char& c : lower) c = static_cast<char>(std::tolower(c));
    EXPECT_EQ(dtype_from_name(lower).value(), info.dtype);
    EXPECT_EQ(&dtype_info(info.dtype), &info);
  }
  EXPECT_EQ(all_dtypes().size(), 13u);
}

TEST(dtype, an_unsupported_type_is_named_and_an_unknown_one_is_corrupt) {
  const auto iq2 = dtype_from_ggml(17);
  ASSERT_FALSE(iq2);
  EXPECT_EQ(iq2.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(iq2.error().message, testing::HasSubstr("IQ2_XS"));
  EXPECT_THAT(dtype_from_ggml(34).error().message, testing::HasSubstr("TQ1_0"));
  EXPECT_THAT(dtype_from_ggml(39).error().message, testing::HasSubstr("MXFP4"));
  EXPECT_EQ(dtype_from_ggml(999).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(dtype_from_name("Q9_9").error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(dtype_from_name("Q9_9").error().message, testing::HasSubstr("Q4_K"));
}

TEST(decode, blocks_agree_bit_for_bit_with_the_independent_decoder) {
  const auto goldens = read_goldens();
  int n_types = 0;
  for (const DTypeInfo& info : all_dtypes()) {
    if (info.block_size == 1) continue;
    ASSERT_TRUE(goldens.contains(info.name)) << info.name;
    const Golden& golden = goldens.at(info.name);
    const auto expected = as_vector<float>(golden.output);
    ASSERT_EQ(info.row_bytes(static_cast<int64_t>(expected.size())),
              static_cast<int64_t>(golden.input.size()));
    std::vector<float> decoded(expected.size());
    info.decode(golden.input.data(), decoded.data(), static_cast<int64_t>(decoded.size()));
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(f32_bits(decoded[i]), f32_bits(expected[i])) << info.name << " value " << i;
    }
    ++n_types;
  }
  EXPECT_EQ(n_types, 10);
}

std::vector<float> normal_values(int64_t n, float deviation, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) value = normal(generator);
  return values;
}

std::vector<float> round_trip(const DTypeInfo& info, const std::vector<float>& values) {
  const auto n = static_cast<int64_t>(values.size());
  std::vector<uint16_t> blocks(static_cast<size_t>(info.row_bytes(n) / 2));
  info.encode(values.data(), blocks.data(), n);
  std::vector<float> decoded(values.size());
  info.decode(blocks.data(), decoded.data(), n);
  return decoded;
}

// Squared error over squared size.
double relative_error(const std::vector<float>& values, const std::vector<float>& decoded) {
  double error = 0.0;
  double size = 0.0;
  for (size_t i = 0; i < values.size(); ++i) {
    error += std::pow(static_cast<double>(values[i]) - decoded[i], 2);
    size += std::pow(static_cast<double>(values[i]), 2);
  }
  return error / size;
}

TEST(encode, error_on_normal_weights_is_within_the_bound_of_the_type) {
  // A tenth above what these encoders reach: a worse search fails.
  const std::map<std::string, double> bounds = {{"F32", 0.0},
                                                {"F16", 5e-8},
                                                {"BF16", 3.2e-6},
                                                {"Q4_0", 8.2e-3},
                                                {"Q4_1", 6.7e-3},
                                                {"Q5_0", 2.1e-3},
                                                {"Q5_1", 1.6e-3},
                                                {"Q8_0", 3.3e-5},
                                                {"Q2_K", 0.083},
                                                {"Q3_K", 0.024},
                                                {"Q4_K", 5.8e-3},
                                                {"Q5_K", 1.5e-3},
                                                {"Q6_K", 3.7e-4}};
  const auto values = normal_values(256 * 64, 0.02f, 1);
  for (const DTypeInfo& info : all_dtypes()) {
    const double error = relative_error(values, round_trip(info, values));
    EXPECT_LE(error, bounds.at(info.name)) << info.name;
  }
}

TEST(encode, each_value_of_the_plain_types_is_within_its_step) {
  const auto values = normal_values(32 * 256, 1.0f, 2);
  for (const auto& [name, levels_below, share] :
       {std::tuple{"Q4_0", 8.0f, 1.01f}, {"Q5_0", 16.0f, 1.01f}, {"Q8_0", 127.0f, 0.51f}}) {
    const DTypeInfo& info = dtype_info(dtype_from_name(name).value());
    const auto decoded = round_trip(info, values);
    for (size_t begin = 0; begin < values.size(); begin += 32) {
      float largest = 0.0f;
      for (size_t i = begin; i < begin + 32; ++i) largest = std::max(largest, std::fabs(values[i]));
      for (size_t i = begin; i < begin + 32; ++i) {
        ASSERT_LE(std::fabs(values[i] - decoded[i]), share * largest / levels_below) << name;
      }
    }
  }
}

TEST(encode, plain_types_are_idempotent) {
  const auto values = normal_values(32 * 128, 0.02f, 3);
  for (const DTypeInfo& info : all_dtypes()) {
    if (info.block_size == kBlock256) continue;
    const auto once = round_trip(info, values);
    EXPECT_EQ(round_trip(info, once), once) << info.name;
  }
}

TEST(encode, zeros_stay_zero) {
  const std::vector<float> zeros(512, 0.0f);
  for (const DTypeInfo& info : all_dtypes()) EXPECT_EQ(round_trip(info, zeros), zeros) << info.name;
}

TEST(encode, constant_rows_keep_their_value) {
  for (const float constant : {0.5f, -0.5f}) {
    const std::vector<float> values(256, constant);
    for (const DTypeInfo& info : all_dtypes()) {
      for (const float decoded : round_trip(info, values)) {
        ASSERT_NEAR(decoded, constant, 0.002f) << info.name;
      }
    }
  }
}

TEST(encode, any_input_gives_finite_values_in_quantised_types) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> strange = {std::nanf(""),
                                      infinity,
                                      -infinity,
                                      3e38f,
                                      -3e38f,
                                      1e-45f,
                                      -1e-40f,
                                      1e-8f,
                                      6e-8f,
                                      0.0f,
                                      -0.0f,
                                      1.0f,
                                      7e4f};
  std::mt19937 generator(4);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> values(512);
    const size_t n_kinds = 1 + generator() % strange.size();
    for (float& value : values) value = strange[(generator() % n_kinds + round) % strange.size()];
    for (const DTypeInfo& info : all_dtypes()) {
      if (info.block_size == 1) continue;
      for (const float decoded : round_trip(info, values)) {
        ASSERT_TRUE(std::isfinite(decoded)) << info.name << " round " << round;
      }
    }
  }
}

TEST(encode, saturates_instead_of_losing_large_values) {
  std::vector<float> values(256, 0.0f);
  values[0] = 1e30f;
  for (const DTypeInfo& info : all_dtypes()) {
    if (info.block_size == 1) continue;
    EXPECT_GT(round_trip(info, values)[0], 1e5f) << info.name;
  }
}

TEST(tensor_view, rows_follow_the_block_size) {
  std::vector<uint16_t> blocks(dtype_info(DType::kQ4_K).row_bytes(512) / 2 * 3);
  TensorView view{"w", DType::kQ4_K, 2, {512, 3, 1, 1}, std::as_bytes(std::span(blocks))};
  EXPECT_EQ(view.n_values(), 1536);
  EXPECT_EQ(view.n_rows(), 3);
  EXPECT_EQ(view.row_bytes(), 288);
  EXPECT_EQ(view.row(2) - view.row(0), 576);
}

}  // namespace
}  // namespace millrace
