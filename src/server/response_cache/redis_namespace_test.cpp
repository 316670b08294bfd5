#include "server/response_cache/redis_namespace.h"

#include <gtest/gtest.h>

#include "engine/test_engine.h"

namespace millrace {
namespace {

const std::atomic<bool> kGoesOn{false};

Result<Digest256> name_of(const TestModel& model, std::optional<KvType> kv_type = std::nullopt) {
  EngineOptions options;
  options.kv_type = kv_type;
  const TestEngine engine(model.path(), std::move(options));
  return redis_namespace(*engine.engine, kGoesOn);
}

TEST(RedisNamespace, is_the_same_for_the_same_bytes_wherever_they_lie) {
  const TestModel model;
  const TestModel copy;
  const auto name = name_of(model);
  ASSERT_TRUE(name) << name.error().message;
  EXPECT_EQ(*name, *name_of(model));
  EXPECT_EQ(*name, *name_of(copy));
}

TEST(RedisNamespace, is_another_for_other_weights_and_another_type_of_kv) {
  const TestModel model;
  const TestModel other([](ModelShape& shape) { shape.matrix_std = 0.21F; });
  EXPECT_NE(*name_of(model), *name_of(other));
  EXPECT_NE(*name_of(model), *name_of(model, KvType::kBF16));
}

TEST(RedisNamespace, is_none_when_told_to_stop) {
  const TestModel model;
  const TestEngine engine(model.path());
  const std::atomic<bool> is_stopping{true};
  const auto name = redis_namespace(*engine.engine, is_stopping);
  ASSERT_FALSE(name);
  EXPECT_EQ(name.error().code, ErrorCode::kCancelled);
}

}  // namespace
}  // namespace millrace
