#include "formats/gguf_metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "formats/gguf.h"
#include "formats/gguf_testing.h"

namespace millrace {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class Metadata : public testing::Test {
 protected:
  Metadata() {
    GgufBuilder builder;
    builder.add("u16", uint16_t{65535});
    builder.add("u32", std::numeric_limits<uint32_t>::max());
    builder.add("i32", int32_t{-1});
    builder.add("u64", std::numeric_limits<uint64_t>::max());
    builder.add("i64", int64_t{-5'000'000'000});
    builder.add("f32", 0.25f);
    builder.add("f64", 1e300);
    builder.add("flag", true);
    builder.add("text", "line\none");
    const std::vector<std::string> texts = {"x", "", "yz"};
    builder.add("texts", std::span(texts));
    builder.add("floats", std::span<const float>(floats_));
    builder.add("empty", std::span<const int32_t>());
    const std::string long_text(500, 'q');
    builder.add("long", long_text);
    bytes_ = testing_support::gguf_bytes(builder);
    file_ = parse_gguf(bytes_, "test.gguf").value();
  }
  const GgufMetadata& metadata() const { return file_.metadata(); }

  std::vector<float> floats_ = {1.0f, 2.0f, 3.0f, 4.0f, 5.0f};
  std::vector<std::byte> bytes_;
  Checkpoint file_;
};

TEST_F(Metadata, integers_convert_when_they_fit) {
  EXPECT_EQ(metadata().get<int32_t>("u16").value(), 65535);
  EXPECT_EQ(metadata().get<int64_t>("u32").value(), 4294967295);
  EXPECT_EQ(metadata().get<int64_t>("i64").value(), -5'000'000'000);
  EXPECT_FALSE(metadata().get<int32_t>("u32"));
  EXPECT_FALSE(metadata().get<uint32_t>("i32"));
  EXPECT_FALSE(metadata().get<uint64_t>("i32"));
  EXPECT_FALSE(metadata().get<int64_t>("u64"));
  EXPECT_FALSE(metadata().get<int32_t>("i64"));
}

TEST_F(Metadata, numbers_become_floating_point_but_never_integers) {
  EXPECT_EQ(metadata().get<float>("f32").value(), 0.25f);
  EXPECT_EQ(metadata().get<double>("f32").value(), 0.25);
  EXPECT_EQ(metadata().get<float>("i32").value(), -1.0f);
  EXPECT_EQ(metadata().get<double>("f64").value(), 1e300);
  EXPECT_FALSE(metadata().get<int32_t>("f32"));
}

TEST_F(Metadata, bools_and_texts_do_not_convert) {
  EXPECT_TRUE(metadata().get<bool>("flag").value());
  EXPECT_FALSE(metadata().get<bool>("u32"));
  EXPECT_FALSE(metadata().get<uint32_t>("flag"));
  EXPECT_EQ(metadata().get<std::string_view>("text").value(), "line\none");
  EXPECT_FALSE(metadata().get<std::string_view>("u32"));
  EXPECT_FALSE(metadata().get<float>("text"));
  EXPECT_FALSE(metadata().get<std::string_view>("texts"));
}

TEST_F(Metadata, arrays_are_typed) {
  EXPECT_THAT(metadata().get<std::vector<std::string_view>>("texts").value(),
              ElementsAre("x", "", "yz"));
  EXPECT_EQ(metadata().get<std::vector<float>>("floats").value(), floats_);
  EXPECT_TRUE(metadata().get<std::vector<int32_t>>("empty").value().empty());
  EXPECT_FALSE(metadata().get<std::vector<int32_t>>("floats"));
  EXPECT_FALSE(metadata().get<std::vector<float>>("f32"));
}

TEST_F(Metadata, errors_name_file_key_and_value) {
  const auto missing = metadata().get<int32_t>("nothing");
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, AllOf(HasSubstr("test.gguf"), HasSubstr("'nothing'")));
  const auto wrong = metadata().get<uint32_t>("text");
  EXPECT_EQ(wrong.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(
      wrong.error().message,
      AllOf(HasSubstr("'text'"), HasSubstr("\"line one\""), HasSubstr("32-bit unsigned integer")));
}

TEST_F(Metadata, a_fallback_serves_only_absent_keys) {
  EXPECT_EQ(metadata().get_or<int32_t>("nothing", 3).value(), 3);
  EXPECT_EQ(metadata().get_or<int32_t>("i32", 3).value(), -1);
  EXPECT_FALSE(metadata().get_or<int32_t>("text", 3));
}

TEST_F(Metadata, long_values_are_cut_when_described) {
  EXPECT_EQ(GgufMetadata::describe(*metadata().find("floats")),
            "array of 5 float32 [1, 2, 3, 4, and 1 more]");
  const std::string text = GgufMetadata::describe(*metadata().find("long"));
  EXPECT_LT(text.size(), 100u);
  EXPECT_NE(text.find("bytes more"), std::string::npos) << text;
  EXPECT_EQ(GgufMetadata::describe(*metadata().find("flag")), "bool true");
}

TEST_F(Metadata, entries_keep_the_order_of_the_file_and_can_be_written_again) {
  EXPECT_EQ(metadata().entries().front().key, "u16");
  GgufBuilder copy;
  for (const GgufEntry& entry : metadata().entries()) copy.add(entry.key, entry.value);
  EXPECT_EQ(testing_support::gguf_bytes(copy), bytes_);
}

}  // namespace
}  // namespace millrace
