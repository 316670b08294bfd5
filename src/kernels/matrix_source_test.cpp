#include "kernels/matrix_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/linear_testing.h"
#include "kernels/tiers_testing.h"

namespace millrace::kernels {
namespace {

using testing::HasSubstr;

constexpr Rounding kBothRoundings[] = {Rounding::kFine, Rounding::kCoarse};
// Of one tile of every tier, and more than are multiplied without unpacking.
constexpr int64_t kRowCounts[] = {1, 40};

LinearWeights packed(const auto& matrix, Rounding rounding = Rounding::kFine) {
  WorkerPool pool(2);
  Result<LinearWeights> weights = LinearWeights::pack(matrix, rounding, pool);
  EXPECT_TRUE(weights.has_value()) << weights.error().message;
  return std::move(*weights);
}

std::vector<float> repeated(const std::vector<float>& row, int64_t n_rows) {
  std::vector<float> rows;
  for (int64_t r = 0; r < n_rows; ++r) rows.insert(rows.end(), row.begin(), row.end());
  return rows;
}

// By the definition of the format: 4 bits of exponent with bias 7, 3 of the significand.
double e4m3_value(int code) {
  const int exponent = code >> 3 & 15;
  const int significand = code & 7;
  const double magnitude =
      exponent == 0 ? std::ldexp(significand, -9) : std::ldexp(8 + significand, exponent - 10);
  return code < 128 ? magnitude : -magnitude;
}

TEST(Fp8Matrix, every_code_is_exact_and_only_two_are_no_numbers) {
  // Code n in row n, as the last of an odd number of columns.
  constexpr int64_t kIn = 3;
  std::vector<std::byte> codes(256 * kIn);
  for (size_t n = 0; n < 256; ++n) codes[n * kIn + 2] = static_cast<std::byte>(n);
  const float scale[] = {0.37f};
  const Fp8Matrix matrix{.name = "codes",
                         .n_out = 256,
                         .n_in = kIn,
                         .codes = codes,
                         .scales = scale,
                         .scale_rows = 256,
                         .scale_columns = kIn};
  for (const Rounding rounding : kBothRoundings) {
    const LinearWeights weights = packed(matrix, rounding);
    for (const Tier& tier : tiers()) {
      for (const int64_t n_rows : kRowCounts) {
        SCOPED_TRACE(fmt::format("{}, {} rows", tier.name, n_rows));
        const ActivationRows rows(
            *tier.table, weights, repeated({5.0f, -3.0f, 1.0f}, n_rows), n_rows);
        const std::vector<float> out = multiply(*tier.table, weights, rows, 0, n_rows);
        for (size_t i = 0; i < out.size(); ++i) {
          const int code = static_cast<int>(i % 256);
          if ((code & 0x7f) == 0x7f) {
            ASSERT_TRUE(std::isnan(out[i])) << code;
          } else {
            ASSERT_EQ(out[i], static_cast<float>(e4m3_value(code) * double{scale[0]})) << code;
          }
        }
      }
    }
  }
}

TEST(Fp8Matrix, scales_are_those_of_their_rectangles) {
  struct Case {
    int64_t n_in, scale_rows, scale_columns;
  };
  constexpr int64_t kOut = 200;
  for (const Case& c : {Case{300, 1, 300},
                        Case{300, kOut, 300},
                        Case{300, 128, 128},
                        Case{300, 7, 256},
                        Case{300, 1, 128},
                        Case{300, 1 << 20, 1 << 20},
                        Case{77, 32, 100},
                        Case{1, 33, 128}}) {
    SCOPED_TRACE(
        fmt::format("{} columns, scales of {} x {}", c.n_in, c.scale_rows, c.scale_columns));
    TestTensor tensor = random_bits_tensor(WeightType::fp8(), kOut, c.n_in, 1);
    tensor.scale_rows = c.scale_rows;
    tensor.scale_columns = c.scale_columns;
    const int64_t n_scales = ((kOut - 1) / c.scale_rows + 1) * ((c.n_in - 1) / c.scale_columns + 1);
    tensor.fp8_scales = gaussian(n_scales, 2);
    for (const Rounding rounding : kBothRoundings) {
      const LinearWeights weights = packed(tensor.fp8(), rounding);
      const std::vector<float> x = gaussian(2 * c.n_in, 3);
      for (const Tier& tier : tiers()) {
        const ActivationRows rows(*tier.table, weights, x, 2);
        std::vector<std::vector<double>> values;
        for (int64_t r = 0; r < 2; ++r) {
          values.push_back(row_values(rows.kind(), rows.row(r), c.n_in));
        }
        const std::vector<float> out = multiply(*tier.table, weights, rows, 0, 2);
        EXPECT_LE(nmse(reference(tensor, values), out), 1e-12) << tier.name;
      }
    }
  }
}

TEST(Fp8Matrix, a_scale_that_is_not_finite_spoils_the_rows_of_its_rectangle_only) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    TestTensor tensor = encoded_tensor(WeightType::fp8(), 200, 300, 4);
    const LinearWeights good = packed(tensor.fp8());
    tensor.fp8_scales[1] = bad;  // rows 0 to 127, columns 128 to 255
    const LinearWeights weights = packed(tensor.fp8());
    const std::vector<float> x = gaussian(300, 5);
    for (const Tier& tier : tiers()) {
      const ActivationRows rows(*tier.table, weights, x, 1);
      const std::vector<float> out = multiply(*tier.table, weights, rows, 0, 1);
      const std::vector<float> expected = multiply(*tier.table, good, rows, 0, 1);
      for (size_t n = 0; n < 200; ++n) {
        if (n < 128) {
          ASSERT_FALSE(std::isfinite(out[n])) << n;
        } else {
          ASSERT_EQ(out[n], expected[n]) << n;
        }
      }
    }
  }
}

TEST(Fp8Matrix, an_order_of_rows_gives_the_panels_of_rows_that_lie_so) {
  constexpr int64_t kOut = 70;
  constexpr int64_t kIn = 200;
  TestTensor tensor = random_bits_tensor(WeightType::fp8(), kOut, kIn, 6);
  tensor.scale_rows = 1;
  tensor.scale_columns = kIn;
  tensor.fp8_scales = gaussian(kOut, 7);
  std::vector<int64_t> order(kOut);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(8));
  TestTensor moved = tensor;
  for (int64_t n = 0; n < kOut; ++n) {
    const int64_t from = order[static_cast<size_t>(n)];
    std::copy_n(tensor.bytes.begin() + from * kIn, kIn, moved.bytes.begin() + n * kIn);
    moved.fp8_scales[static_cast<size_t>(n)] = tensor.fp8_scales[static_cast<size_t>(from)];
  }
  Fp8Matrix ordered = tensor.fp8();
  ordered.row_order = order;
  const LinearWeights weights = packed(ordered);
  const LinearWeights expected = packed(moved.fp8());
  ASSERT_EQ(weights.bytes(), expected.bytes());
  EXPECT_EQ(0, std::memcmp(weights.panels(), expected.panels(), weights.bytes()));
  EXPECT_NE(0, std::memcmp(weights.panels(), packed(tensor.fp8()).panels(), weights.bytes()));
}

TEST(Int4Matrix, a_code_that_is_its_zero_point_is_exactly_zero) {
  // However large the products are that cancel.
  constexpr int64_t kOut = 35;
  constexpr int64_t kIn = 384;
  for (const int group_size : {32, 64, 128}) {
    TestTensor tensor = empty_tensor(WeightType::int4(group_size), kOut, kIn);
    std::mt19937 generator(9);
    for (size_t group = 0; group < tensor.zeros.size(); ++group) {
      const unsigned zero = generator() & 15u;
      tensor.zeros[group] = static_cast<uint8_t>(zero);
      tensor.int4_scales[group] = f32_to_f16(60000.0f);
      const size_t n_bytes = static_cast<size_t>(group_size) / 2;
      std::fill_n(tensor.bytes.begin() + static_cast<std::ptrdiff_t>(group * n_bytes),
                  n_bytes,
                  static_cast<std::byte>(zero | zero << 4));
    }
    for (const Rounding rounding : kBothRoundings) {
      const LinearWeights weights = packed(tensor.int4(), rounding);
      for (const Tier& tier : tiers()) {
        for (const int64_t n_rows : kRowCounts) {
          SCOPED_TRACE(fmt::format("{}, {} rows", tier.name, n_rows));
          const ActivationRows rows(
              *tier.table, weights, repeated(gaussian(kIn, 10), n_rows), n_rows);
          ASSERT_THAT(multiply(*tier.table, weights, rows, 0, n_rows), testing::Each(0.0f));
        }
      }
    }
  }
}

TEST(Int4Matrix, every_code_and_zero_point_gives_their_difference) {
  // One row for each pair of them. An activation of 1 is exactly representable by its record.
  constexpr int64_t kOut = 16 * 256;
  for (const int group_size : {32, 64, 128}) {
    TestTensor tensor = empty_tensor(WeightType::int4(group_size), kOut, group_size);
    for (size_t row = 0; row < kOut; ++row) {
      const unsigned code = row % 16;
      std::fill_n(tensor.bytes.begin() + static_cast<std::ptrdiff_t>(row) * group_size / 2,
                  group_size / 2,
                  static_cast<std::byte>(code | code << 4));
      tensor.zeros[row] = static_cast<uint8_t>(row / 16);
      tensor.int4_scales[row] = f32_to_f16(0.25f);
    }
    for (const Rounding rounding : kBothRoundings) {
      const LinearWeights weights = packed(tensor.int4(), rounding);
      for (const Tier& tier : tiers()) {
        const std::vector<float> ones(static_cast<size_t>(group_size), 1.0f);
        const ActivationRows rows(*tier.table, weights, ones, 1);
        const std::vector<float> out = multiply(*tier.table, weights, rows, 0, 1);
        for (int row = 0; row < kOut; ++row) {
          const float expected = 0.25f * static_cast<float>(group_size * (row % 16 - row / 16));
          ASSERT_NEAR(out[static_cast<size_t>(row)], expected, std::abs(expected) * 0x1p-22f)
              << tier.name << ", groups of " << group_size << ", row " << row;
        }
      }
    }
  }
}

TEST(MatrixSource, panels_take_what_packed_bytes_says_and_touch_no_more) {
  struct Case {
    WeightType type;
    int64_t n_out, n_in;
    size_t bytes;
  };
  constexpr size_t kLine = 32;  // rows of a panel
  const Case cases[] = {
      {WeightType::fp8(), 64, 512, 64 * 512 + 64 * 4 * 4},
      {WeightType::fp8(), 1, 129, kLine * 130 + kLine * 2 * 4},
      {WeightType::fp8(), 33, 576, 2 * (kLine * 576 + kLine * 5 * 4)},
      {WeightType::int4(32), 64, 512, 64 * (256 + 16 * 3)},
      {WeightType::int4(64), 64, 512, 64 * (256 + 8 * 3)},
      {WeightType::int4(128), 64, 512, 64 * (256 + 4 * 3)},
      {WeightType::int4(32), 5, 160, kLine * (80 + 8 * 3)},
      {WeightType::int4(64), 5, 192, kLine * (96 + 4 * 3)},
      {WeightType::int4(128), 33, 896, 2 * kLine * (448 + 8 * 3)},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(fmt::format("{} {} x {}", c.type.name(), c.n_out, c.n_in));
    const TestTensor tensor = random_bits_tensor(c.type, c.n_out, c.n_in, 11);
    const bool is_fp8 = c.type.kind == WeightType::Kind::kFp8;
    ASSERT_EQ(is_fp8 ? packed_bytes(tensor.fp8()) : packed_bytes(tensor.int4()), c.bytes);
    EXPECT_EQ(c.bytes % 64, 0u);
    WorkerPool pool(2);
    Buffer memory = Buffer::allocate(c.bytes + 64);
    std::fill_n(memory.data() + c.bytes, 64, std::byte{0xa5});
    const Result<LinearWeights> weights =
        is_fp8 ? LinearWeights::pack(tensor.fp8(), Rounding::kFine, pool, memory.data())
               : LinearWeights::pack(tensor.int4(), Rounding::kFine, pool, memory.data());
    ASSERT_TRUE(weights.has_value());
    EXPECT_EQ(weights->bytes(), c.bytes);
    EXPECT_EQ(weights->format(), c.type.format());
    const std::vector<std::byte> behind(memory.data() + c.bytes, memory.data() + c.bytes + 64);
    EXPECT_THAT(behind, testing::Each(std::byte{0xa5}));
  }
}

template <class Matrix>
Error refusal(const Matrix& matrix) {
  WorkerPool pool(1);
  const Result<LinearWeights> weights = LinearWeights::pack(matrix, Rounding::kFine, pool);
  return weights ? Error{ErrorCode::kInternal, "packed"} : weights.error();
}

void expect_error(const Error& error, ErrorCode code, const char* text) {
  EXPECT_EQ(error.code, code) << error.message;
  EXPECT_THAT(error.message, HasSubstr("[pack] test: "));
  EXPECT_THAT(error.message, HasSubstr(text));
}

TEST(Fp8Matrix, what_does_not_fit_together_is_refused) {
  const TestTensor tensor = random_bits_tensor(WeightType::fp8(), 140, 300, 12);
  constexpr int64_t kHuge = int64_t{1} << 62;
  const auto changed = [&](auto change) {
    Fp8Matrix matrix = tensor.fp8();
    change(matrix);
    return refusal(matrix);
  };
  expect_error(changed([](Fp8Matrix& m) { m.n_in = 0; }), ErrorCode::kInvalidArgument, "140 x 0");
  expect_error(
      changed([](Fp8Matrix& m) { m.n_out = -1; }), ErrorCode::kInvalidArgument, "-1 x 300");
  expect_error(changed([](Fp8Matrix& m) { m.n_in = kHuge; }), ErrorCode::kCorrupt, "42000 bytes");
  expect_error(changed([](Fp8Matrix& m) { m.n_out = kHuge; }), ErrorCode::kCorrupt, "42000 bytes");
  expect_error(changed([](Fp8Matrix& m) { m.codes = m.codes.first(41999); }),
               ErrorCode::kCorrupt,
               "140 rows of 300 codes do not take 41999 bytes");
  expect_error(changed([](Fp8Matrix& m) { m.scales = m.scales.first(5); }),
               ErrorCode::kCorrupt,
               "expected 2 x 3 scales, found 5");
  expect_error(changed([](Fp8Matrix& m) { m.scale_rows = 64; }),
               ErrorCode::kCorrupt,
               "expected 3 x 3 scales, found 6");
  expect_error(changed([](Fp8Matrix& m) { m.scale_rows = 0; }),
               ErrorCode::kInvalidArgument,
               "scales of 0 x 128");
  expect_error(changed([](Fp8Matrix& m) { m.scale_columns = -128; }),
               ErrorCode::kInvalidArgument,
               "scales of 128 x -128");
  expect_error(changed([](Fp8Matrix& m) { m.scale_columns = 64; }),
               ErrorCode::kUnsupported,
               "scales of 64 columns, expected a multiple of 128 or all 300");
  std::vector<int64_t> order(139);
  expect_error(changed([&](Fp8Matrix& m) { m.row_order = order; }),
               ErrorCode::kInvalidArgument,
               "the order of 140 rows has 139 entries");
  order.push_back(140);
  expect_error(changed([&](Fp8Matrix& m) { m.row_order = order; }),
               ErrorCode::kInvalidArgument,
               "row 140 of 140");
  order.back() = -1;
  expect_error(changed([&](Fp8Matrix& m) { m.row_order = order; }),
               ErrorCode::kInvalidArgument,
               "row -1 of 140");
}

TEST(Int4Matrix, what_does_not_fit_together_is_refused) {
  const TestTensor tensor = random_bits_tensor(WeightType::int4(64), 10, 192, 13);
  constexpr int64_t kHuge = int64_t{1} << 62;
  const auto changed = [&](auto change) {
    Int4Matrix matrix = tensor.int4();
    change(matrix);
    return refusal(matrix);
  };
  expect_error(changed([](Int4Matrix& m) { m.n_out = 0; }), ErrorCode::kInvalidArgument, "0 x 192");
  expect_error(
      changed([](Int4Matrix& m) { m.n_in = -64; }), ErrorCode::kInvalidArgument, "10 x -64");
  expect_error(changed([](Int4Matrix& m) { m.n_in = kHuge; }), ErrorCode::kCorrupt, "960 bytes");
  expect_error(changed([](Int4Matrix& m) { m.n_out = kHuge; }), ErrorCode::kCorrupt, "960 bytes");
  expect_error(changed([](Int4Matrix& m) { m.codes = m.codes.first(959); }),
               ErrorCode::kCorrupt,
               "10 rows of 192 codes do not take 959 bytes");
  expect_error(changed([](Int4Matrix& m) { m.n_in = 160; }),
               ErrorCode::kUnsupported,
               "rows of 160 values are not a multiple of the 64 values of a group");
  for (const int group_size : {-1, 0, 16, 256}) {
    expect_error(changed([&](Int4Matrix& m) { m.group_size = group_size; }),
                 ErrorCode::kUnsupported,
                 "expected 32, 64 or 128");
  }
  expect_error(changed([](Int4Matrix& m) { m.scales = m.scales.first(29); }),
               ErrorCode::kCorrupt,
               "expected 30 scales and zero points, found 29 and 30");
  expect_error(changed([](Int4Matrix& m) { m.zeros = m.zeros.first(28); }),
               ErrorCode::kCorrupt,
               "expected 30 scales and zero points, found 30 and 28");
}

}  // namespace
}  // namespace millrace::kernels
