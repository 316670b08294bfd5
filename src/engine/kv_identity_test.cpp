#include "engine/kv_identity.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <vector>

#include "base/test_rerun.h"
#include "engine/test_engine.h"

namespace millrace {
namespace {

class KvIdentityTest : public testing::Test {
 protected:
  BlockKey identity(const ModelFiles& files,
                    const ModelFiles* draft = nullptr,
                    std::optional<KvType> type = {},
                    kernels::Isa isa = kernels::Isa::kScalar) {
    const auto key = kv_identity(files, draft, type, isa, workers_);
    EXPECT_TRUE(key) << key.error().message;
    return *key;
  }

  const TestModel f32_{DType::kF32};
  const TestModel q8_{DType::kQ8_0};
  const TestModel other_{[](ModelShape& shape) { shape.rms_eps *= 2; }};
  const ModelFiles target_ = *open_model_files(f32_.path());
  const ModelFiles quantised_ = *open_model_files(q8_.path());
  const ModelFiles changed_ = *open_model_files(other_.path());
  WorkerPool workers_{2};
};

TEST_F(KvIdentityTest, everything_that_content_depends_on_counts) {
  const std::vector<BlockKey> keys = {
      identity(target_),
      identity(changed_),
      identity(quantised_),
      identity(target_, &target_),
      identity(target_, &changed_),
      identity(target_, &quantised_),
      identity(quantised_, &target_),
      identity(target_, nullptr, KvType::kBF16),
      identity(target_, nullptr, KvType::kInt8),
      identity(target_, nullptr, KvType::kFP8),
      identity(target_, &target_, KvType::kBF16),
      identity(target_, nullptr, {}, kernels::Isa::kAvx2),
  };
  EXPECT_EQ(std::set<BlockKey>(keys.begin(), keys.end()).size(), keys.size());
  EXPECT_EQ(identity(target_), keys[0]);
  EXPECT_EQ(identity(target_, &quantised_), keys[5]);
  WorkerPool more(3);
  EXPECT_EQ(*kv_identity(target_, nullptr, {}, kernels::Isa::kScalar, more), keys[0]);
}

// The target's pages are F32 either way, those of the draft model are BF16 unless F32 is asked for.
TEST_F(KvIdentityTest, pages_of_both_models_count_and_not_how_they_were_asked_for) {
  EXPECT_EQ(identity(target_), identity(target_, nullptr, KvType::kF32));
  EXPECT_NE(identity(target_, &quantised_), identity(target_, &quantised_, KvType::kF32));
  EXPECT_EQ(identity(quantised_, &quantised_), identity(quantised_, &quantised_, KvType::kBF16));
}

TEST_F(KvIdentityTest, DISABLED_tells) {
  tell_digest(identity(target_));
}

TEST_F(KvIdentityTest, another_choice_of_the_c_library_counts) {
  const std::string here = rerun("KvIdentityTest.DISABLED_tells", "");
  EXPECT_EQ(rerun("KvIdentityTest.DISABLED_tells", ""), here);
  if (!__builtin_cpu_supports("fma")) {
    GTEST_SKIP() << "there is only one choice here";
  }
  EXPECT_NE(rerun("KvIdentityTest.DISABLED_tells", kPlainMath), here);
}

}  // namespace
}  // namespace millrace
