// The decoder against logits of an independent implementation in double precision.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "base/worker_pool.h"
#include "formats/gguf.h"
#include "model/golden_testing.h"
#include "model/model.h"

namespace millrace {
namespace {

// What a logit may be off, relative to the deviation of the reference's logits, and the mean square
// of that: f32 rounding for F32 and F16 files, which have F32 pages; BF16 pages (2^-9 a value) for
// the others; and 8-bit activations for the types whose own error is larger than that.
struct Limit {
  double largest, mean_square;
};
Limit limit(const std::string& name) {
  for (const char* coarse : {"_q4_0", "_q4_k", "_q5_k"}) {
    if (name.ends_with(coarse)) return {0.06, 2e-4};
  }
  if (name.find("_q") != std::string::npos || name.ends_with("bf16")) return {0.02, 2e-5};
  return {1e-5, 2e-12};
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, logits_equal_the_reference) {
  const test::GoldenModel golden = test::read_golden(GetParam());
  const Buffer bytes = golden.gguf();
  const auto file = parse_gguf(bytes.bytes(), GetParam());
  ASSERT_TRUE(file) << file.error().message;
  WorkerPool pool(2);
  const auto model = Model::load(*file, {.pool = &pool});
  ASSERT_TRUE(model) << model.error().message;
  const ModelSpec& spec = (*model)->spec();

  const auto& tokens = golden.tokens;
  std::vector<BlockId> blocks(tokens.size() / PageFormat::kTokens + 1);
  std::iota(blocks.begin(), blocks.end(), 0);
  auto kv = KvMemory::create(
      (*model)->page_format(), spec.n_layers, spec.n_kv_heads, int64_t(blocks.size()));
  ASSERT_TRUE(kv);
  std::vector<float> logits(tokens.size() * size_t(spec.n_vocab));
  const Span span{tokens, 0, blocks, int(tokens.size())};
  (*model)->forward({{&span, 1}}, *kv, logits);

  const auto& want = golden.logits;
  const auto n_vocab = size_t(spec.n_vocab);
  ASSERT_EQ(want.size(), golden.rows.size() * n_vocab);
  double squares = 0, largest = 0, errors = 0;
  for (const float x : want) squares += double(x) * x;
  const double deviation = std::sqrt(squares / double(want.size()));
  for (size_t r = 0; r < golden.rows.size(); ++r) {
    const float* got_row = logits.data() + golden.rows[r] * n_vocab;
    const float* want_row = want.data() + r * n_vocab;
    for (size_t i = 0; i < n_vocab; ++i) {
      const double error = std::abs(double(got_row[i]) - want_row[i]);
      ASSERT_TRUE(std::isfinite(error));
      largest = std::max(largest, error);
      errors += error * error;
    }
    std::vector<float> sorted(want_row, want_row + n_vocab);
    std::ranges::sort(sorted, std::greater());
    if (sorted[0] - sorted[1] > 0.1f) {
      EXPECT_EQ(std::max_element(got_row, got_row + n_vocab) - got_row,
                std::max_element(want_row, want_row + n_vocab) - want_row)
          << "row " << r;
    }
  }
  std::printf(
      "    deviation %.2f, largest error %.2e, NMSE %.1e\n", deviation, largest, errors / squares);
  EXPECT_LT(largest, limit(GetParam()).largest * deviation);
  EXPECT_LT(errors / squares, limit(GetParam()).mean_square);
}

INSTANTIATE_TEST_SUITE_P(Files,
                         Golden,
                         testing::ValuesIn(test::golden_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace millrace
