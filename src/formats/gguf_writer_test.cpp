#include "formats/gguf_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "formats/gguf.h"
#include "formats/gguf_testing.h"

namespace millrace {
namespace {

using testing_support::gguf_bytes;
using testing_support::TempFolder;

GgufBuilder two_tensors() {
  GgufBuilder builder(64);
  builder.add("general.architecture", "llama");
  builder.add_tensor("a", DType::kF16, std::vector<int64_t>{5});
  builder.add_tensor("b", DType::kQ4_K, std::vector<int64_t>{256, 3});
  return builder;
}

std::vector<std::byte> numbered(int64_t n) {
  std::vector<std::byte> bytes(static_cast<size_t>(n));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i & 0xff);
  return bytes;
}

TEST(gguf_writer, streamed_pieces_give_the_same_file_as_one_buffer) {
  const TempFolder folder;
  const std::string path = folder.path("out.gguf");
  const GgufBuilder builder = two_tensors();
  auto writer = GgufWriter::create(path, builder);
  ASSERT_TRUE(writer) << writer.error().message;
  ASSERT_TRUE(writer->write(numbered(10)));
  const auto second = numbered(3 * 144);
  ASSERT_TRUE(writer->write(std::span(second).first(100)));
  ASSERT_TRUE(writer->write(std::span(second).subspan(100)));
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_TRUE(writer->finish());

  std::ifstream stream(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const auto expected = gguf_bytes(builder);
  ASSERT_EQ(text.size(), expected.size());
  EXPECT_EQ(std::memcmp(text.data(), expected.data(), text.size()), 0);
  const auto file = open_gguf(path);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->metadata().get<uint32_t>("general.alignment").value(), 64u);
}

TEST(gguf_writer, an_unfinished_run_leaves_no_file) {
  const TempFolder folder;
  const std::string path = folder.path("out.gguf");
  {
    auto writer = GgufWriter::create(path, two_tensors());
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->write(numbered(4)));
    EXPECT_TRUE(std::filesystem::exists(path + ".part"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
}

TEST(gguf_writer, an_unwritable_place_is_an_io_error_that_names_it) {
  const auto writer = GgufWriter::create("/nonexistent/out.gguf", two_tensors());
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().code, ErrorCode::kIo);
  EXPECT_THAT(writer.error().message, testing::HasSubstr("/nonexistent/out.gguf"));
}

}  // namespace
}  // namespace millrace
