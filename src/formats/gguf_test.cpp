#include "formats/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "formats/gguf_shards.h"
#include "formats/gguf_testing.h"

namespace millrace {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing_support::gguf_bytes;
using testing_support::TempFolder;

using Shape = std::vector<int64_t>;

GgufBuilder small_builder() {
  GgufBuilder builder;
  builder.add("general.architecture", "llama");
  builder.add("number", uint32_t{7});
  builder.add("negative", int32_t{-7});
  builder.add("ratio", 0.5f);
  builder.add("flag", true);
  const std::vector<std::string> texts = {"", "a", "Grüße"};
  builder.add("texts", std::span(texts));
  const std::vector<int32_t> numbers = {1, -2, 3};
  builder.add("numbers", std::span<const int32_t>(numbers));
  builder.add_tensor("first", DType::kF32, Shape{3, 2});
  builder.add_tensor("second", DType::kQ8_0, Shape{64, 2, 2});
  return builder;
}

std::string parse_error(std::span<const std::byte> bytes) {
  const auto file = parse_gguf(bytes, "test");
  return file ? "no error" : file.error().message;
}

TEST(gguf, reads_what_the_writer_wrote) {
  const auto bytes = gguf_bytes(small_builder());
  const auto file = parse_gguf(bytes, "test");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->version(), 3u);
  EXPECT_EQ(file->file_bytes(), bytes.size());
  ASSERT_EQ(file->tensors().size(), 2u);
  const TensorView* second = file->find("second");
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->dtype, DType::kQ8_0);
  EXPECT_EQ(second->n_dims, 3);
  EXPECT_THAT(second->shape, testing::ElementsAre(64, 2, 2, 1));
  EXPECT_EQ(second->data.size(), 4 * 2 * 34u);
  EXPECT_EQ(second->data[1], std::byte{1});
  EXPECT_EQ((second->data.data() - bytes.data()) % 32, 0);
  EXPECT_EQ(file->find("third"), nullptr);
}

TEST(gguf, version_2_reads_like_3_and_others_are_refused) {
  auto bytes = gguf_bytes(small_builder());
  bytes[4] = std::byte{2};
  EXPECT_EQ(parse_gguf(bytes, "test")->version(), 2u);
  bytes[4] = std::byte{1};
  EXPECT_THAT(parse_error(bytes), HasSubstr("version 1"));
  bytes[4] = std::byte{4};
  EXPECT_THAT(parse_error(bytes), HasSubstr("version 4"));
  bytes[4] = std::byte{0};
  bytes[7] = std::byte{3};
  EXPECT_THAT(parse_error(bytes), HasSubstr("big endian"));
}

TEST(gguf, every_proper_prefix_is_an_error) {
  GgufBuilder builder = small_builder();
  const auto bytes = gguf_bytes(builder);
  const size_t n_data = 34 * 8 + 32;  // both tensors, the first with its padding
  const size_t end = builder.header().size() + n_data;
  for (size_t n = 0; n < end; ++n) {
    // A copy of exactly n bytes, so that AddressSanitizer sees a read past them.
    const std::vector<std::byte> prefix(bytes.begin(), bytes.begin() + static_cast<long>(n));
    const auto file = parse_gguf(prefix, "test");
    ASSERT_FALSE(file) << n;
    ASSERT_EQ(file.error().code, ErrorCode::kCorrupt);
    if (n >= 4) {
      ASSERT_THAT(file.error().message, HasSubstr("truncated")) << n;
    }
  }
  EXPECT_TRUE(parse_gguf(std::span(bytes).first(end), "test"));
}

TEST(gguf, absurd_counts_are_refused_even_when_the_file_is_large_enough) {
  std::vector<std::byte> bytes = GgufBuilder().header();
  bytes.resize(size_t{80} << 20);
  bytes[8 + 2] = std::byte{0x20};  // 2^21 tensors
  EXPECT_THAT(parse_error(bytes), HasSubstr("2097152 tensors, more than"));
  std::swap(bytes[8 + 2], bytes[16 + 2]);
  EXPECT_THAT(parse_error(bytes), HasSubstr("2097152 metadata entries, more than"));
}

TEST(gguf, a_truncated_tensor_is_named_with_needed_and_actual_bytes) {
  const auto bytes = gguf_bytes(small_builder());
  const std::string message = parse_error(std::span(bytes).first(bytes.size() - 100));
  EXPECT_THAT(message,
              AllOf(HasSubstr("test is truncated"),
                    HasSubstr("'second'"),
                    HasSubstr("needs 272 bytes"),
                    HasSubstr(fmt::format("has {}", bytes.size() - 100))));
}

TEST(gguf, changed_bytes_never_do_more_than_fail) {
  const auto original = gguf_bytes(small_builder());
  std::mt19937 generator(1);
  int n_refused = 0;
  for (int round = 0; round < 5000; ++round) {
    auto bytes = original;
    const int n_changes = 1 + static_cast<int>(generator() % 3);
    for (int i = 0; i < n_changes; ++i) {
      static constexpr uint8_t kEdges[] = {0, 1, 0x7f, 0x80, 0xff};
      const uint32_t draw = generator();
      const uint8_t byte = draw % 2 ? kEdges[draw / 2 % 5] : static_cast<uint8_t>(draw >> 8);
      bytes[generator() % bytes.size()] = static_cast<std::byte>(byte);
    }
    const auto file = parse_gguf(bytes, "test");
    if (!file) {
      ++n_refused;
      continue;
    }
    for (const GgufEntry& entry : file->metadata().entries()) GgufMetadata::describe(entry.value);
    for (const TensorView& tensor : file->tensors()) {
      ASSERT_GE(tensor.data.data(), bytes.data());
      ASSERT_LE(tensor.data.data() + tensor.data.size(), bytes.data() + bytes.size());
      ASSERT_EQ(tensor.data.size(), static_cast<size_t>(tensor.n_rows() * tensor.row_bytes()));
    }
  }
  EXPECT_GT(n_refused, 1000);
}

TEST(gguf, random_files_survive_the_round_trip) {
  std::mt19937 generator(2);
  for (int round = 0; round < 200; ++round) {
    GgufBuilder builder(8u << (generator() % 5));
    std::vector<std::pair<std::string, uint64_t>> numbers;
    std::vector<std::pair<std::string, std::vector<std::string>>> texts;
    for (uint32_t i = 0; i < generator() % 6; ++i) {
      numbers.emplace_back(fmt::format("n{}", i), uint64_t{generator()} << (generator() % 33));
      builder.add(numbers.back().first, numbers.back().second);
      std::vector<std::string> list(generator() % 5);
      for (std::string& text : list) {
        text.resize(generator() % 9);
        for (char& c : text) c = static_cast<char>(generator());
      }
      texts.emplace_back(fmt::format("t{}", i), list);
      builder.add(texts.back().first, std::span<const std::string>(list));
    }
    std::vector<std::pair<std::string, Shape>> tensors;
    for (uint32_t i = 0; i < generator() % 6; ++i) {
      const DTypeInfo& info = all_dtypes()[generator() % all_dtypes().size()];
      Shape shape = {static_cast<int64_t>(1 + generator() % 3) * info.block_size};
      while (generator() % 2 && shape.size() < 4) shape.push_back(1 + generator() % 3);
      tensors.emplace_back(fmt::format("w{}.{}", i, info.name), shape);
      builder.add_tensor(tensors.back().first, info.dtype, shape);
    }
    const auto bytes = gguf_bytes(builder);
    const auto file = parse_gguf(bytes, "test");
    ASSERT_TRUE(file) << file.error().message;
    for (const auto& [key, value] : numbers) {
      ASSERT_EQ(file->metadata().get<uint64_t>(key).value(), value);
    }
    for (const auto& [key, list] : texts) {
      const auto read = file->metadata().get<std::vector<std::string_view>>(key).value();
      ASSERT_TRUE(std::equal(read.begin(), read.end(), list.begin(), list.end()));
    }
    ASSERT_EQ(file->tensors().size(), tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      const TensorView& tensor = file->tensors()[i];
      ASSERT_EQ(tensor.name, tensors[i].first);
      ASSERT_EQ(tensor.n_dims, static_cast<int>(tensors[i].second.size()));
      ASSERT_TRUE(std::equal(tensors[i].second.begin(), tensors[i].second.end(), &tensor.shape[0]));
      for (size_t b = 0; b < tensor.data.size(); ++b) {
        ASSERT_EQ(tensor.data[b], static_cast<std::byte>(b & 0xff));
      }
    }
  }
}

TEST(gguf, a_trained_file_of_another_writer_opens) {
  const auto file = open_gguf(MILLRACE_SOURCE_DIR "/models/demo/demo.gguf");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->metadata().get<std::string_view>("general.architecture").value(), "llama");
  const TensorView* embedding = file->find("token_embd.weight");
  ASSERT_NE(embedding, nullptr);
  EXPECT_EQ(embedding->n_in(), 256);
}

TEST(gguf_open, a_missing_file_is_not_found_and_named) {
  const auto file = open_gguf("/nonexistent/model.gguf");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(file.error().message, HasSubstr("/nonexistent/model.gguf"));
}

TEST(gguf_open, foreign_files_are_told_apart) {
  const TempFolder folder;
  const std::vector<std::pair<std::string, std::string>> heads = {
      {"PK\x03\x04 zip", "zip"},
      {"version https://git-lfs.github.com/spec/v1", "git lfs pull"},
      {std::string("\x10\0\0\0\0\0\0\0{\"a\"", 12), "safetensors"},
      {"<!DOCTYPE html>", "web page"},
      {"tjgg....", "old GGML"},
      {"", "is empty"},
      {"hello", "does not start with"}};
  for (const auto& [head, words] : heads) {
    const auto path = folder.write("model.gguf", std::as_bytes(std::span(head)));
    const auto file = open_gguf(path);
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(file.error().message, HasSubstr(words));
  }
}

TEST(gguf_open, mapped_file_equals_the_parsed_bytes) {
  const TempFolder folder;
  const auto bytes = gguf_bytes(small_builder());
  auto opened = open_gguf(folder.write("model.gguf", bytes));
  ASSERT_TRUE(opened) << opened.error().message;
  const Checkpoint file = std::move(*opened);
  file.drop_pages();
  EXPECT_EQ(file.find("second")->data[33], std::byte{33});
  EXPECT_EQ(file.metadata().get<uint32_t>("number").value(), 7u);
}

// Shard `no` of `count` (from 1) with one tensor of its own.
std::vector<std::byte> shard_bytes(int no, int count, const std::string& tensor, int n_tensors) {
  GgufBuilder builder;
  if (no == 1) builder.add("general.architecture", "llama");
  builder.add("split.no", static_cast<uint16_t>(no - 1));
  builder.add("split.count", static_cast<uint16_t>(count));
  builder.add("split.tensors.count", int32_t{n_tensors});
  builder.add_tensor(tensor, DType::kF32, Shape{8, no});
  return gguf_bytes(builder);
}

std::string shard_name(int no, int count) {
  return fmt::format("model-{:05}-of-{:05}.gguf", no, count);
}

class GgufShards : public testing::Test {
 protected:
  GgufShards() {
    for (int no = 1; no <= 3; ++no) {
      folder_.write(shard_name(no, 3), shard_bytes(no, 3, fmt::format("w{}", no), 3));
    }
  }
  Error open_error(const std::string& name) const {
    const auto file = open_gguf(folder_.path(name));
    EXPECT_FALSE(file);
    return file ? Error{} : file.error();
  }
  TempFolder folder_;
};

TEST_F(GgufShards, any_name_of_the_set_loads_the_set) {
  for (int no = 1; no <= 3; ++no) {
    const auto file = open_gguf(folder_.path(shard_name(no, 3)));
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->n_shards(), 3);
    size_t n_bytes = 0;
    for (const auto& bytes : file->contents()) {
      n_bytes += bytes.size();
    }
    EXPECT_EQ(n_bytes, file->file_bytes());
    EXPECT_EQ(file->name(), folder_.path(shard_name(1, 3)));
    ASSERT_EQ(file->tensors().size(), 3u);
    EXPECT_EQ(file->find("w3")->n_rows(), 3);
    EXPECT_TRUE(file->metadata().get<std::string_view>("general.architecture"));
  }
}

TEST_F(GgufShards, missing_ones_are_listed) {
  std::filesystem::remove(folder_.path(shard_name(1, 3)));
  std::filesystem::remove(folder_.path(shard_name(3, 3)));
  const Error error = open_error(shard_name(2, 3));
  EXPECT_EQ(error.code, ErrorCode::kNotFound);
  EXPECT_THAT(error.message,
              AllOf(HasSubstr("2 of 3 shards are missing"),
                    HasSubstr(shard_name(1, 3)),
                    HasSubstr(shard_name(3, 3)),
                    testing::Not(HasSubstr(shard_name(2, 3)))));
}

TEST_F(GgufShards, a_shard_of_another_place_or_set_is_refused) {
  folder_.write(shard_name(2, 3), shard_bytes(3, 3, "w2", 3));
  EXPECT_THAT(open_error(shard_name(1, 3)).message, HasSubstr("shard 3 of 3, expected 2 of 3"));
  folder_.write(shard_name(2, 3), shard_bytes(2, 4, "w2", 3));
  EXPECT_THAT(open_error(shard_name(1, 3)).message, HasSubstr("shard 2 of 4, expected 2 of 3"));
}

TEST_F(GgufShards, a_tensor_twice_or_too_few_tensors_is_refused) {
  folder_.write(shard_name(2, 3), shard_bytes(2, 3, "w1", 3));
  EXPECT_THAT(open_error(shard_name(1, 3)).message, HasSubstr("'w1' appears in two shards"));
  folder_.write(shard_name(2, 3), shard_bytes(2, 3, "w2", 3));
  folder_.write(shard_name(1, 3), shard_bytes(1, 3, "w1", 4));
  EXPECT_THAT(open_error(shard_name(1, 3)).message, HasSubstr("3 tensors, the first declares 4"));
}

TEST_F(GgufShards, a_truncated_shard_is_the_one_named) {
  auto bytes = shard_bytes(2, 3, "w2", 3);
  bytes.resize(bytes.size() - 10);
  folder_.write(shard_name(2, 3), bytes);
  EXPECT_THAT(open_error(shard_name(1, 3)).message,
              AllOf(HasSubstr(shard_name(2, 3)), HasSubstr("truncated"), HasSubstr("'w2'")));
}

TEST_F(GgufShards, a_renamed_shard_says_what_its_name_must_be) {
  folder_.write("model.gguf", shard_bytes(2, 3, "w2", 3));
  const Error error = open_error("model.gguf");
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.message, AllOf(HasSubstr("shard 2 of 3"), HasSubstr("-of-00003.gguf")));
}

TEST_F(GgufShards, files_joined_with_cat_are_refused_with_the_remedy) {
  auto joined = gguf_bytes(small_builder());
  const auto second = gguf_bytes(small_builder());
  joined.insert(joined.end(), second.begin(), second.end());
  folder_.write("joined.gguf", joined);
  const Error error = open_error("joined.gguf");
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.message, AllOf(HasSubstr("cat"), HasSubstr("llama-gguf-split --merge")));

  auto shards = shard_bytes(1, 3, "w1", 3);
  const auto next = shard_bytes(2, 3, "w2", 3);
  shards.insert(shards.end(), next.begin(), next.end());
  folder_.write("shards.gguf", shards);
  EXPECT_THAT(open_error("shards.gguf").message, HasSubstr("cat"));
}

TEST_F(GgufShards, pieces_cut_by_bytes_are_refused_with_the_remedy) {
  for (const char* name : {"m.gguf.part1of2", "m.gguf.part2of2", "m.gguf-split-b"}) {
    const Error error = open_error(name);
    EXPECT_EQ(error.code, ErrorCode::kUnsupported) << name;
    EXPECT_THAT(error.message, AllOf(HasSubstr("cut by bytes"), HasSubstr("cat "))) << name;
  }
}

TEST(shard_name, is_parsed_only_when_whole) {
  const auto shard = parse_shard_name("a/b-00002-of-00013.gguf");
  ASSERT_TRUE(shard);
  EXPECT_EQ(shard->no, 2);
  EXPECT_EQ(shard->count, 13);
  EXPECT_EQ(shard->path(11), "a/b-00011-of-00013.gguf");
  for (const char* name : {"",
                           "model.gguf",
                           "b-00000-of-00003.gguf",
                           "b-00004-of-00003.gguf",
                           "b-0001-of-00003.gguf",
                           "b-+0001-of-00003.gguf",
                           "b-00001-of-00003.bin",
                           "b-00001-of-0000x.gguf"}) {
    EXPECT_FALSE(parse_shard_name(name)) << name;
  }
}

}  // namespace
}  // namespace millrace
