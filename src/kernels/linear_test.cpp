#include "kernels/linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <thread>

#include "kernels/linear_testing.h"
#include "kernels/tiers_testing.h"

namespace millrace::kernels {
namespace {

bool is_float(const WeightType& type) {
  return type.is_tensor() && dtype_info(type.dtype).block_size == 1;
}

struct Shape {
  int64_t n_out, n_in, n_rows;
};

// Shapes that a type can have, with odd edges in every direction.
std::vector<Shape> shapes(const WeightType& type) {
  std::vector<Shape> all = {{32, 256, 1},
                            {96, 512, 2},
                            {40, 768, 3},
                            {1, 256, 4},
                            {33, 256, 5},
                            {64, 1024, 7},
                            {200, 2304, 6},
                            {130, 512, 11}};
  if (type.block_size() <= 32) {
    for (const Shape shape :
         {Shape{35, 32, 3}, Shape{64, 96, 2}, Shape{31, 160, 5}, Shape{96, 896, 1}}) {
      all.push_back(shape);
    }
  }
  if (type.block_size() == 64) {
    for (const Shape shape : {Shape{35, 64, 3}, Shape{64, 192, 2}, Shape{96, 960, 1}}) {
      all.push_back(shape);
    }
  }
  if (type.block_size() == 128) {
    for (const Shape shape : {Shape{35, 128, 3}, Shape{64, 384, 2}, Shape{96, 896, 1}}) {
      all.push_back(shape);
    }
  }
  if (type.block_size() == 1) {
    for (const Shape shape : {Shape{172, 64, 3},
                              Shape{64, 172, 2},
                              Shape{5, 1, 1},
                              Shape{7, 129, 4},
                              Shape{33, 127, 7}}) {
      all.push_back(shape);
    }
  }
  return all;
}

LinearWeights packed(const TestTensor& tensor, Rounding rounding = Rounding::kFine) {
  WorkerPool pool(2);
  Result<LinearWeights> weights = tensor.pack(rounding, pool);
  EXPECT_TRUE(weights.has_value()) << weights.error().message;
  return std::move(*weights);
}

std::vector<std::vector<double>> dequantised(const LinearWeights& weights,
                                             const ActivationRows& rows,
                                             int64_t n_rows) {
  std::vector<std::vector<double>> values;
  for (int64_t r = 0; r < n_rows; ++r) {
    values.push_back(row_values(rows.kind(), rows.row(r), weights.n_in()));
  }
  return values;
}

struct WeightCase {
  WeightType type;
  Rounding rounding;
};

bool rounding_matters(PanelFormat format) {
  return std::ranges::any_of(kAllIsas, [&](Isa isa) {
    return activation_kind(isa, format, Rounding::kCoarse) !=
           activation_kind(isa, format, Rounding::kFine);
  });
}

// Every type, and both roundings where they differ on any tier.
std::vector<WeightCase> weight_cases() {
  std::vector<WeightCase> cases;
  for (const WeightType& type : all_weight_types()) {
    cases.push_back({type, Rounding::kFine});
    if (rounding_matters(type.format())) cases.push_back({type, Rounding::kCoarse});
  }
  return cases;
}

class LinearOfType : public testing::TestWithParam<WeightCase> {
 protected:
  static const WeightType& type() { return GetParam().type; }
  static LinearWeights packed(const TestTensor& tensor) {
    return kernels::packed(tensor, GetParam().rounding);
  }
};

INSTANTIATE_TEST_SUITE_P(
    Types, LinearOfType, testing::ValuesIn(weight_cases()), [](const auto& info) {
      const char* suffix = info.param.rounding == Rounding::kCoarse ? "_coarse" : "";
      return info.param.type.name() + suffix;
    });

TEST_P(LinearOfType, matches_exact_sums_of_the_quantised_operands_on_every_tier) {
  uint32_t seed = 1;
  for (const Shape& shape : shapes(type())) {
    std::vector<TestTensor> tensors = {encoded_tensor(type(), shape.n_out, shape.n_in, seed++)};
    if (!is_float(type())) {
      tensors.push_back(random_bits_tensor(type(), shape.n_out, shape.n_in, seed++));
    }
    for (const TestTensor& tensor : tensors) {
      const LinearWeights weights = packed(tensor);
      const std::vector<float> x = gaussian(shape.n_rows * shape.n_in, seed++);
      for (const Tier& tier : tiers()) {
        SCOPED_TRACE(
            fmt::format("{} N {} K {} M {}", tier.name, shape.n_out, shape.n_in, shape.n_rows));
        const ActivationRows rows(*tier.table, weights, x, shape.n_rows);
        const auto expected = reference(tensor, dequantised(weights, rows, shape.n_rows));
        const auto actual = multiply(*tier.table, weights, rows, 0, shape.n_rows);
        EXPECT_LE(nmse(expected, actual), 1e-12);
      }
    }
  }
}

// Relative squared error that the activations may add, for gaussian activations.
double activation_limit(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::kF32:
      return 1e-12;
    case ActivationKind::kInt16:
      return 1e-8;
    case ActivationKind::kInt8Per32:
      return 5e-5;
    case ActivationKind::kInt8:
      return 1e-4;
    case ActivationKind::kBF16:
      return 0x1p-18;  // at most 2^-9 of every value
  }
  return 0;
}

TEST_P(LinearOfType, stays_near_the_product_with_unquantised_activations) {
  const Shape shape{64, 1024, 4};
  const TestTensor tensor = encoded_tensor(type(), shape.n_out, shape.n_in, 5);
  const LinearWeights weights = packed(tensor);
  const std::vector<float> x = gaussian(shape.n_rows * shape.n_in, 6);
  std::vector<std::vector<double>> exact_rows;
  for (int64_t r = 0; r < shape.n_rows; ++r) {
    exact_rows.emplace_back(x.begin() + r * shape.n_in, x.begin() + (r + 1) * shape.n_in);
  }
  const auto expected = reference(tensor, exact_rows);
  for (const Tier& tier : tiers()) {
    SCOPED_TRACE(tier.name);
    const ActivationRows rows(*tier.table, weights, x, shape.n_rows);
    const double error = nmse(expected, multiply(*tier.table, weights, rows, 0, shape.n_rows));
    EXPECT_LE(error, activation_limit(rows.kind()));
  }
}

TEST_P(LinearOfType, tiers_agree) {
  const TestTensor tensor = encoded_tensor(type(), 160, 768, 8);
  const LinearWeights weights = packed(tensor);
  const std::vector<float> x = gaussian(9 * 768, 9);
  const ActivationRows rows(kScalarKernels, weights, x, 9);
  const std::vector<float> expected = multiply(kScalarKernels, weights, rows, 0, 9);
  for (const Tier& tier : tiers()) {
    SCOPED_TRACE(tier.name);
    const ActivationRows own_rows(*tier.table, weights, x, 9);
    const double error = nmse(expected, multiply(*tier.table, weights, own_rows, 0, 9));
    if (own_rows.kind() != rows.kind()) {
      EXPECT_LE(error, activation_limit(own_rows.kind()));
      continue;
    }
    EXPECT_LE(error, 1e-12);
    for (int64_t r = 0; r < 9; ++r) {
      ASSERT_EQ(0,
                std::memcmp(rows.row(r), own_rows.row(r), static_cast<size_t>(rows.row_bytes())));
    }
  }
}

TEST_P(LinearOfType, a_row_does_not_depend_on_the_rows_beside_it) {
  constexpr int64_t kRows = 64;
  const int64_t n_in = type().block_size() <= 32 ? 480 : type().block_size() == 64 ? 448 : 512;
  const TestTensor tensor = encoded_tensor(type(), 75, n_in, 10);
  const LinearWeights weights = packed(tensor);
  const std::vector<float> x = gaussian(kRows * n_in, 11);
  const size_t row_size = static_cast<size_t>(weights.n_out());
  for (const Tier& tier : tiers()) {
    SCOPED_TRACE(tier.name);
    const ActivationRows rows(*tier.table, weights, x, kRows);
    std::vector<float> alone;
    for (int64_t r = 0; r < kRows; ++r) {
      const std::vector<float> one = multiply(*tier.table, weights, rows, r, 1);
      alone.insert(alone.end(), one.begin(), one.end());
    }
    for (int64_t n = 2; n <= kRows; ++n) {
      const int64_t first = (kRows - n) / 2;
      const std::vector<float> together = multiply(*tier.table, weights, rows, first, n);
      ASSERT_EQ(0,
                std::memcmp(together.data(),
                            alone.data() + static_cast<size_t>(first) * row_size,
                            together.size() * sizeof(float)))
          << n << " rows";
    }
  }
}

TEST_P(LinearOfType, a_row_does_not_depend_on_the_pass_it_falls_into) {
  // Wide rows: a pass takes fewer than 64 of them.
  const int64_t n_in = 4096;
  constexpr int64_t kRows = 70;
  const TestTensor tensor = encoded_tensor(type(), 8, n_in, 12);
  const LinearWeights weights = packed(tensor);
  const std::vector<float> x = gaussian(kRows * n_in, 13);
  const KernelTable& table = kernel_table(detect_isa());
  const ActivationRows rows(table, weights, x, kRows);
  const std::vector<float> together = multiply(table, weights, rows, 0, kRows);
  for (int64_t r = 0; r < kRows; ++r) {
    const std::vector<float> alone = multiply(table, weights, rows, r, 1);
    ASSERT_EQ(0, std::memcmp(alone.data(), together.data() + r * 8, 8 * sizeof(float))) << r;
  }
}

TEST_P(LinearOfType, worker_counts_do_not_change_a_bit) {
  const TestTensor tensor = encoded_tensor(type(), 300, 256, 14);
  const LinearWeights weights = packed(tensor);
  const Isa isa = detect_isa();
  const std::vector<float> x = gaussian(6 * 256, 15);
  const ActivationRows rows(kernel_table(isa), weights, x, 6);
  const std::vector<float> expected = multiply(kernel_table(isa), weights, rows, 0, 6);
  for (int n_workers = 1; n_workers <= 8; ++n_workers) {
    // Rows lie apart, so a write past the last column shows.
    constexpr int64_t kStride = 300 + 9;
    std::vector<float> out(6 * kStride, -7.0f);
    std::vector<float> maxima(6 * 10);  // of panels
    WorkerPool pool(n_workers);
    pool.run([&](int worker) {
      linear(isa,
             weights,
             rows.row(0),
             6,
             out.data(),
             kStride,
             worker,
             n_workers,
             {.values = maxima.data(), .stride = 10});
    });
    EXPECT_TRUE(are_maxima(maxima, expected, 300));
    for (int64_t r = 0; r < 6; ++r) {
      ASSERT_EQ(0,
                std::memcmp(&out[static_cast<size_t>(r * kStride)],
                            &expected[static_cast<size_t>(r * 300)],
                            300 * sizeof(float)))
          << n_workers << " workers, row " << r;
      for (int64_t i = 300; i < kStride; ++i) {
        ASSERT_EQ(out[static_cast<size_t>(r * kStride + i)], -7.0f);
      }
    }
  }
}

TEST_P(LinearOfType, packs_the_same_bytes_with_any_number_of_workers) {
  const TestTensor tensor = encoded_tensor(type(), 300, 512, 16);
  WorkerPool one(1);
  const LinearWeights expected = *tensor.pack(GetParam().rounding, one);
  for (const int n_workers : {2, 3, 8}) {
    WorkerPool pool(n_workers);
    const LinearWeights weights = *tensor.pack(GetParam().rounding, pool);
    ASSERT_EQ(weights.bytes(), expected.bytes());
    EXPECT_EQ(0, std::memcmp(weights.panels(), expected.panels(), weights.bytes()));
  }
}

TEST_P(LinearOfType, zero_rows_and_zero_weights_give_zero) {
  const TestTensor zeros = empty_tensor(type(), 33, 512);
  const TestTensor tensor = encoded_tensor(type(), 33, 512, 17);
  for (const Tier& tier : tiers()) {
    SCOPED_TRACE(tier.name);
    for (const TestTensor* t : {&zeros, &tensor}) {
      const LinearWeights weights = packed(*t);
      const std::vector<float> x = t == &zeros ? gaussian(512, 18) : std::vector<float>(512, 0.0f);
      const ActivationRows rows(*tier.table, weights, x, 1);
      EXPECT_THAT(multiply(*tier.table, weights, rows, 0, 1), testing::Each(0.0f));
    }
  }
}

// Factors of ordinary size, for bytes that are all `fill`; zero points are `fill` too.
void set_factors(TestTensor& tensor, std::byte fill) {
  switch (tensor.type.kind) {
    case WeightType::Kind::kTensor: {
      const HalfOffsets offsets = half_offsets(tensor.type.dtype);
      const int64_t n_blocks = tensor.n_out * tensor.n_in / tensor.type.block_size();
      for (int64_t block = 0; block < n_blocks; ++block) {
        set_half(tensor, block, offsets.first, f32_to_f16(0.5f));
        if (offsets.second >= 0) {
          set_half(tensor, block, offsets.second, f32_to_f16(0.25f));
        }
      }
      break;
    }
    case WeightType::Kind::kFp8:
      std::ranges::fill(tensor.fp8_scales, 0.5f);
      for (std::byte& code : tensor.bytes) {
        if ((code & std::byte{0x7f}) == std::byte{0x7f}) code ^= std::byte{1};  // the largest
      }
      break;
    case WeightType::Kind::kInt4:
      std::ranges::fill(tensor.int4_scales, f32_to_f16(0.5f));
      std::ranges::fill(tensor.zeros, static_cast<uint8_t>(fill));
      break;
  }
}

TEST_P(LinearOfType, extreme_codes_and_activations_do_not_overflow) {
  // All codes and scales at their ends, against activations at theirs.
  for (const std::byte fill :
       {std::byte{0xff}, std::byte{0x80}, std::byte{0x7f}, std::byte{0x00}}) {
    if (is_float(type())) {
      continue;
    }
    TestTensor tensor = empty_tensor(type(), 33, 512);
    std::fill(tensor.bytes.begin(), tensor.bytes.end(), fill);
    set_factors(tensor, fill);
    const LinearWeights weights = packed(tensor);
    std::vector<float> x(2 * 512, 3.0f);
    std::fill(x.begin() + 512, x.end(), -3.0f);
    for (const Tier& tier : tiers()) {
      SCOPED_TRACE(tier.name);
      const ActivationRows rows(*tier.table, weights, x, 2);
      const auto expected = reference(tensor, dequantised(weights, rows, 2));
      EXPECT_LE(nmse(expected, multiply(*tier.table, weights, rows, 0, 2)), 1e-12);
    }
  }
}

TEST_P(LinearOfType, non_finite_activations_spoil_their_own_row_only) {
  const TestTensor tensor = encoded_tensor(type(), 40, 512, 19);
  const LinearWeights weights = packed(tensor);
  const float inf = std::numeric_limits<float>::infinity();
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), inf, -inf}) {
    std::vector<float> x = gaussian(3 * 512, 20);
    const std::vector<float> good = x;
    x[512 + 300] = bad;
    for (const Tier& tier : tiers()) {
      SCOPED_TRACE(tier.name);
      const ActivationRows rows(*tier.table, weights, x, 3);
      const ActivationRows good_rows(*tier.table, weights, good, 3);
      const std::vector<float> out = multiply(*tier.table, weights, rows, 0, 3);
      const std::vector<float> expected = multiply(*tier.table, weights, good_rows, 0, 3);
      for (size_t i = 0; i < out.size(); ++i) {
        if (i / 40 == 1) {
          ASSERT_FALSE(std::isfinite(out[i])) << i;
        } else {
          ASSERT_EQ(out[i], expected[i]) << i;
        }
      }
    }
  }
}

// Makes the value, or the factor of its group, no number.
void spoil_weight(TestTensor& tensor, int64_t at) {
  constexpr uint16_t kHalfNan = 0x7e00;
  const WeightType& type = tensor.type;
  const int64_t block = at / type.block_size();
  if (type.kind == WeightType::Kind::kFp8) {
    tensor.bytes[static_cast<size_t>(at)] = std::byte{0xff};
  } else if (type.kind == WeightType::Kind::kInt4) {
    tensor.int4_scales[static_cast<size_t>(block)] = kHalfNan;
  } else if (type.dtype == DType::kF32) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(tensor.bytes.data() + block * 4, &nan, sizeof(nan));
  } else {
    const uint16_t bits = type.dtype == DType::kBF16 ? uint16_t{0x7fc0} : kHalfNan;
    set_half(tensor, block, std::max(half_offsets(type.dtype).first, 0), bits);
  }
}

TEST_P(LinearOfType, a_weight_that_is_not_a_number_spoils_its_own_column_only) {
  TestTensor tensor = encoded_tensor(type(), 40, 512, 21);
  const LinearWeights good_weights = packed(tensor);
  spoil_weight(tensor, 3 * 512 + 256);  // in row 3
  const LinearWeights weights = packed(tensor);
  const std::vector<float> x = gaussian(512, 22);
  for (const Tier& tier : tiers()) {
    SCOPED_TRACE(tier.name);
    const ActivationRows rows(*tier.table, weights, x, 1);
    const std::vector<float> out = multiply(*tier.table, weights, rows, 0, 1);
    const std::vector<float> expected = multiply(*tier.table, good_weights, rows, 0, 1);
    for (size_t n = 0; n < out.size(); ++n) {
      if (n == 3) {
        EXPECT_TRUE(std::isnan(out[n]));
      } else {
        EXPECT_EQ(out[n], expected[n]) << n;
      }
    }
  }
}

TEST_P(LinearOfType, survives_huge_and_tiny_activations) {
  const TestTensor tensor = encoded_tensor(type(), 33, 512, 23);
  const LinearWeights weights = packed(tensor);
  std::vector<float> x = gaussian(4 * 512, 24);
  x[5] = 1e30f;  // one value drowns its group
  for (size_t k = 512; k < 1024; ++k) x[k] *= 1e-30f;
  for (size_t k = 1024; k < 1536; ++k) x[k] *= 1e-40f;  // denormals
  for (size_t k = 1536; k < 2048; ++k) x[k] *= 1e30f;
  for (const Tier& tier : tiers()) {
    SCOPED_TRACE(tier.name);
    const ActivationRows rows(*tier.table, weights, x, 4);
    const auto expected = reference(tensor, dequantised(weights, rows, 4));
    const std::vector<float> out = multiply(*tier.table, weights, rows, 0, 4);
    for (const int64_t r : {0, 1, 3}) {
      const std::vector<double> want(expected.begin() + r * 33, expected.begin() + (r + 1) * 33);
      const std::vector<float> got(out.begin() + r * 33, out.begin() + (r + 1) * 33);
      EXPECT_LE(nmse(want, got), 1e-12) << "row " << r;
    }
    for (size_t i = 2 * 33; i < 3 * 33; ++i) {
      EXPECT_LT(std::abs(out[i]), 1e-37f);
    }
  }
}

TEST(Linear, f16_weights_that_fit_bf16_are_stored_as_bf16) {
  TestTensor tensor = empty_tensor(DType::kF16, 40, 96);
  std::vector<float> values = gaussian(40 * 96, 25);
  for (float& value : values) {
    value = bf16_to_f32(f32_to_bf16(value));
  }
  values[7] = 0x1p-24f;  // the smallest half
  values[8] = 0x1.8p-20f;
  dtype_info(DType::kF16).encode(values.data(), tensor.bytes.data(), 40 * 96);
  EXPECT_EQ(packed(tensor).format(), PanelFormat::kBF16);
  // What they meet is what F16 panels meet, on every tier.
  for (const Isa isa : kAllIsas) {
    EXPECT_EQ(packed(tensor, Rounding::kCoarse).activation(isa), ActivationKind::kF32);
    EXPECT_EQ(activation_kind(isa, PanelFormat::kF16, Rounding::kCoarse), ActivationKind::kF32);
  }

  values[40 * 96 - 1] = 1.0f + 0x1p-10f;
  dtype_info(DType::kF16).encode(values.data(), tensor.bytes.data(), 40 * 96);
  EXPECT_EQ(packed(tensor).format(), PanelFormat::kF16);
}

TEST(Linear, panels_take_the_bits_per_weight_of_the_file) {
  for (const DTypeInfo& info : all_dtypes()) {
    const TestTensor tensor = encoded_tensor(info.dtype, 64, 512, 26);
    // Q3_K has whole bytes for its 6-bit scales.
    const size_t n_extra = info.dtype == DType::kQ3_K ? 64 * 512 / 16 / 4 : 0;
    EXPECT_EQ(packed(tensor).bytes(), tensor.bytes.size() + n_extra) << info.name;
  }
}

TEST(Linear, refuses_what_it_cannot_pack) {
  WorkerPool pool(1);
  const TestTensor tensor = encoded_tensor(DType::kQ8_0, 4, 64, 27);
  const auto code_of = [&](const TensorView& view) {
    const Result<LinearWeights> weights = LinearWeights::pack(view, Rounding::kFine, pool);
    return weights ? ErrorCode::kInternal : weights.error().code;
  };
  TensorView view = tensor.view();
  view.shape = {48, 4, 1, 1};
  EXPECT_EQ(code_of(view), ErrorCode::kUnsupported);
  view = tensor.view();
  view.data = view.data.first(view.data.size() - 1);
  EXPECT_EQ(code_of(view), ErrorCode::kCorrupt);
  view = tensor.view();
  view.shape = {64, int64_t{1} << 62, 1, 1};
  EXPECT_EQ(code_of(view), ErrorCode::kCorrupt);
  view.shape = {int64_t{1} << 62, 4, 1, 1};
  EXPECT_EQ(code_of(view), ErrorCode::kCorrupt);
  view.shape = {32, 2, 4, 1};
  EXPECT_EQ(code_of(view), ErrorCode::kInvalidArgument);
  view.shape = {64, 0, 1, 1};
  EXPECT_EQ(code_of(view), ErrorCode::kInvalidArgument);
  view.shape = {-64, 4, 1, 1};
  EXPECT_EQ(code_of(view), ErrorCode::kInvalidArgument);
}

TEST(Linear, no_rows_and_no_weights_are_no_work) {
  const TestTensor tensor = encoded_tensor(DType::kQ4_K, 32, 256, 28);
  const LinearWeights weights = packed(tensor);
  linear(detect_isa(), weights, nullptr, 0, nullptr, 0, 0, 1);
  float out = -7.0f;
  linear(detect_isa(), LinearWeights(), nullptr, 3, &out, 1, 0, 1);
  EXPECT_EQ(out, -7.0f);
}

TEST(ActivationRow, sums_and_values_are_those_of_the_definition) {
  std::vector<float> x = gaussian(200, 29);
  for (const Tier& tier : tiers()) {
    SCOPED_TRACE(tier.name);
    const ActivationRows rows(*tier.table, ActivationKind::kInt16, x, 1);
    const auto* block = reinterpret_cast<const Int16Block*>(rows.row(0));
    for (int b = 0; b < 2; ++b, ++block) {
      float amax = 0;
      for (size_t k = static_cast<size_t>(b) * 128;
           k < std::min<size_t>(200, static_cast<size_t>(b + 1) * 128);
           ++k) {
        amax = std::max(amax, std::abs(x[k]));
      }
      EXPECT_EQ(block->scale, amax / 32258.0f);
      int32_t total = 0;
      for (int i = 0; i < 128; ++i) {
        total += block->values[i];
        if (128 * b + i / 4 * 4 >= 200) {
          EXPECT_EQ(block->values[i], 0);
        }
      }
      int32_t of_16 = 0;
      int32_t of_32 = 0;
      for (int g = 0; g < 8; ++g) of_16 -= block->minus_sums16[g];
      for (int g = 0; g < 4; ++g) of_32 -= block->minus_sums32[g];
      EXPECT_EQ(of_16, total);
      EXPECT_EQ(of_32, total);
    }
    const std::vector<double> values = row_values(ActivationKind::kInt16, rows.row(0), 200);
    for (size_t k = 0; k < 200; ++k) {
      EXPECT_NEAR(values[k], x[k], 4.0 / 32258 * 0.51);
    }
  }
}

TEST(ActivationRow, bf16_is_the_nearest_and_the_padding_zero) {
  for (const int64_t n_in : {1, 16, 31, 200}) {
    std::vector<float> x = gaussian(n_in, 30);
    x[0] = 1.0f + 0x1p-8f;  // a tie
    for (const Tier& tier : tiers()) {
      SCOPED_TRACE(tier.name);
      const ActivationRows rows(*tier.table, ActivationKind::kBF16, x, 1);
      const auto* values = reinterpret_cast<const uint16_t*>(rows.row(0));
      for (int64_t k = 0; k < n_in; ++k) {
        EXPECT_EQ(values[k], f32_to_bf16(x[static_cast<size_t>(k)])) << k;
      }
      for (int64_t k = n_in; k % 16 != 0; ++k) EXPECT_EQ(values[k], 0) << k;
    }
  }
}

TEST(ActivationRow, rows_take_an_odd_number_of_cache_lines) {
  for (const ActivationKind kind : {ActivationKind::kF32,
                                    ActivationKind::kInt8,
                                    ActivationKind::kInt8Per32,
                                    ActivationKind::kInt16,
                                    ActivationKind::kBF16}) {
    for (const int64_t n_in : {1, 64, 172, 1024, 4096}) {
      const size_t bytes = activation_row_bytes(kind, n_in);
      EXPECT_EQ(bytes % 128, 64u);
    }
  }
}

}  // namespace
}  // namespace millrace::kernels
