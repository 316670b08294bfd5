#include "formats/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "formats/hugging_face_testing.h"

namespace millrace {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::bytes_of;
using testing_support::safetensors_bytes;
using testing_support::safetensors_of;

std::vector<std::byte> small_file() {
  return safetensors_bytes({{"first", "F32", {2, 3}, std::vector<std::byte>(24, std::byte{1})},
                            {"second", "BF16", {5}, std::vector<std::byte>(10, std::byte{2})},
                            {"scalar", "I64", {}, std::vector<std::byte>(8, std::byte{3})},
                            {"empty", "F16", {0, 4}, {}}});
}

TEST(Safetensors, reads_what_was_written) {
  const auto bytes = small_file();
  const auto tensors = parse_safetensors(bytes, "test");
  ASSERT_TRUE(tensors) << tensors.error().message;
  ASSERT_EQ(tensors->size(), 4u);
  EXPECT_EQ((*tensors)[0].name, "first");
  EXPECT_EQ((*tensors)[0].dtype, "F32");
  EXPECT_THAT((*tensors)[0].shape, ElementsAre(2, 3));
  EXPECT_EQ((*tensors)[0].data.size(), 24u);
  EXPECT_EQ((*tensors)[1].data.data(), (*tensors)[0].data.data() + 24);
  EXPECT_EQ((*tensors)[1].data[0], std::byte{2});
  EXPECT_TRUE((*tensors)[2].shape.empty());
  EXPECT_EQ((*tensors)[2].data.size(), 8u);
  EXPECT_EQ((*tensors)[3].name, "empty");
  EXPECT_TRUE((*tensors)[3].data.empty());
}

TEST(Safetensors, tensors_come_in_the_order_of_their_data) {
  const auto bytes = safetensors_of(R"({"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]},)"
                                    R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
                                    6);
  const auto tensors = parse_safetensors(bytes, "test");
  ASSERT_TRUE(tensors) << tensors.error().message;
  EXPECT_EQ((*tensors)[0].name, "a");
  EXPECT_EQ((*tensors)[1].data[0], std::byte{2});
}

TEST(Safetensors, every_proper_prefix_is_truncated) {
  const auto bytes = small_file();
  for (size_t n = 0; n < bytes.size(); ++n) {
    // A copy of exactly n bytes, so that AddressSanitizer sees a read past them.
    const std::vector<std::byte> prefix(bytes.begin(), bytes.begin() + static_cast<long>(n));
    const auto tensors = parse_safetensors(prefix, "test");
    ASSERT_FALSE(tensors) << n;
    ASSERT_EQ(tensors.error().code, ErrorCode::kCorrupt);
    ASSERT_THAT(tensors.error().message, AllOf(HasSubstr("test"), HasSubstr("truncated"))) << n;
  }
}

struct Broken {
  const char* name;
  std::string header;
  size_t n_data;
  const char* words;
};

// A header of one tensor with one part replaced.
std::string header_with(const std::string& dtype,
                        const std::string& shape,
                        const std::string& offsets,
                        const std::string& name = "x") {
  return fmt::format(
      R"({{"{}":{{"dtype":{},"shape":{},"data_offsets":{}}}}})", name, dtype, shape, offsets);
}

std::vector<Broken> broken_files() {
  const std::string first = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)";
  return {
      {"no_json", "{\"x\":", 0, "the header is not JSON"},
      {"utf8", "{\"\xff\":{}}", 0, "the header is not JSON"},
      {"list", " [1]", 0, "does not begin with '{'"},
      {"two_documents", "{} {}", 0, "the header is not JSON"},
      {"no_object", R"({"x":[1]})", 0, "entry of 'x' is not an object"},
      {"no_dtype", R"({"x":{"shape":[1],"data_offsets":[0,4]}})", 4, "tensor 'x' has no dtype"},
      {"dtype_number", header_with("32", "[1]", "[0,4]"), 4, "tensor 'x' has no dtype"},
      {"dtype_unknown", header_with(R"("Q4")", "[1]", "[0,4]"), 4, "unknown type 'Q4'"},
      {"dtype_case", header_with(R"("f32")", "[1]", "[0,4]"), 4, "unknown type 'f32'"},
      {"no_shape", R"({"x":{"dtype":"F32","data_offsets":[0,4]}})", 4, "tensor 'x' has no shape"},
      {"shape_negative", header_with(R"("F32")", "[-1]", "[0,4]"), 4, "tensor 'x' has no shape"},
      {"shape_fraction", header_with(R"("F32")", "[1.0]", "[0,4]"), 4, "tensor 'x' has no shape"},
      {"shape_text", header_with(R"("F32")", R"(["1"])", "[0,4]"), 4, "tensor 'x' has no shape"},
      {"shape_dims",
       header_with(R"("F32")", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,4]"),
       4,
       "at most 16"},
      {"shape_2_63",
       header_with(R"("U8")", "[9223372036854775808]", "[0,4]"),
       4,
       "a length of 9223372036854775808"},
      {"shape_wraps",
       header_with(R"("F32")", "[4611686018427387905]", "[0,4]"),
       4,
       "larger than 2^64"},
      {"shape_product_wraps",
       header_with(R"("U8")", "[4294967296,4294967296]", "[0,0]"),
       0,
       "larger than 2^64"},
      {"shape_longer", header_with(R"("F32")", "[2]", "[0,4]"), 4, "takes 8 bytes by its shape"},
      {"shape_shorter", header_with(R"("F32")", "[1]", "[0,8]"), 8, "takes 4 bytes by its shape"},
      {"no_offsets", R"({"x":{"dtype":"F32","shape":[1]}})", 4, "no data_offsets of two numbers"},
      {"one_offset", header_with(R"("F32")", "[1]", "[4]"), 4, "no data_offsets of two numbers"},
      {"three_offsets", header_with(R"("F32")", "[1]", "[0,4,8]"), 4, "no data_offsets of two"},
      {"offsets_reversed", header_with(R"("F32")", "[1]", "[4,0]"), 4, "its offsets are 4 to 0"},
      {"offsets_wrap",
       header_with(R"("F32")", "[1]", "[18446744073709551612,0]"),
       4,
       "its offsets are 18446744073709551612 to 0"},
      {"beyond_the_end",
       header_with(R"("F32")", "[2]", "[0,8]"),
       7,
       "truncated: tensor 'x' ends at offset 8"},
      {"far_beyond",
       header_with(R"("U8")", "[9223372036854775807]", "[0,9223372036854775807]"),
       7,
       "truncated: tensor 'x'"},
      {"twice",
       first + R"("a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
       8,
       "the header has 'a' twice"},
      {"field_twice",
       R"({"a":{"dtype":"U8","dtype":"I8","shape":[4],"data_offsets":[0,4]}})",
       4,
       "tensor 'a' has 'dtype' twice"},
      {"overlap",
       first + R"("b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}})",
       7,
       "tensors 'a' and 'b' overlap"},
      {"same_bytes",
       first + R"("b":{"dtype":"I8","shape":[4],"data_offsets":[0,4]}})",
       4,
       "tensors 'a' and 'b' overlap"},
      {"inside",
       R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
       R"("b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
       8,
       "tensors 'a' and 'b' overlap"},
      {"hole",
       first + R"("b":{"dtype":"U8","shape":[4],"data_offsets":[5,9]}})",
       9,
       "the 1 bytes in front of tensor 'b' belong to none"},
      {"hole_at_the_start",
       header_with(R"("F32")", "[1]", "[4,8]"),
       8,
       "the 4 bytes in front of tensor 'x'"},
      {"trailer", header_with(R"("F32")", "[1]", "[0,4]"), 5, "the last 1 bytes belong to no"},
      {"name_empty", header_with(R"("F32")", "[1]", "[0,4]", ""), 4, "the name of a tensor"},
      {"name_newline", header_with(R"("F32")", "[1]", "[0,4]", "a\\nb"), 4, "the name of a tensor"},
      {"name_long",
       header_with(R"("F32")", "[1]", "[0,4]", std::string(257, 'x')),
       4,
       "the name of a tensor has 257 bytes"},
      {"metadata", R"({"__metadata__":"pt"})", 0, "entry of '__metadata__' is not an object"},
      {"deep", R"({"x":)" + std::string(2000, '[') + std::string(2000, ']') + "}", 0, "not JSON"},
  };
}

TEST(Safetensors, broken_headers_give_the_error_that_they_were_made_for) {
  for (const Broken& broken : broken_files()) {
    const auto tensors =
        parse_safetensors(safetensors_of(broken.header, broken.n_data), "some.safetensors");
    ASSERT_FALSE(tensors) << broken.name;
    const bool is_type = std::string_view(broken.words).starts_with("unknown type");
    EXPECT_EQ(tensors.error().code, is_type ? ErrorCode::kUnsupported : ErrorCode::kCorrupt)
        << broken.name;
    EXPECT_THAT(tensors.error().message,
                AllOf(HasSubstr(broken.words), HasSubstr("some.safetensors")))
        << broken.name;
  }
}

TEST(Safetensors, impossible_lengths_of_the_header_are_refused) {
  std::vector<std::byte> bytes = small_file();
  for (const uint64_t length : {kMaxSafetensorsHeader + 1, UINT64_MAX, UINT64_MAX - 7}) {
    std::memcpy(bytes.data(), &length, sizeof(length));
    const auto tensors = parse_safetensors(bytes, "test");
    ASSERT_FALSE(tensors);
    EXPECT_THAT(tensors.error().message, HasSubstr(fmt::format("a header of {} bytes", length)));
  }
  const uint64_t none = 0;
  std::memcpy(bytes.data(), &none, sizeof(none));
  EXPECT_THAT(parse_safetensors(bytes, "test").error().message, HasSubstr("does not begin"));
}

TEST(Safetensors, other_files_are_called_what_they_are) {
  const std::pair<const char*, const char*> files[] = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0", "Git LFS pointer"},
      {"GGUF\3\0\0\0", "is a GGUF file"},
      {"PK\3\4and more", "is a zip archive"},
      {"<!DOCTYPE html><html>", "is a web page"},
      {"<html>", "is a web page"},
  };
  for (const auto& [text, words] : files) {
    const auto tensors = parse_safetensors(bytes_of(text), "test");
    ASSERT_FALSE(tensors) << words;
    EXPECT_THAT(tensors.error().message, HasSubstr(words));
  }
  // A header of this length begins with the same letter as a web page.
  std::string header = header_with(R"("U8")", "[1]", "[0,1]");
  header.resize(0x13c, ' ');
  EXPECT_TRUE(parse_safetensors(safetensors_of(header, 1), "test"));
}

TEST(Safetensors, changed_bytes_never_do_more_than_fail) {
  const auto original = small_file();
  std::mt19937 random(1);
  int n_refused = 0, n_read = 0;
  for (int round = 0; round < 5000; ++round) {
    auto bytes = original;
    const int n_changes = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < n_changes; ++i) {
      static constexpr char kEdges[] = {0, 1, 0x7f, '"', ',', ']', '}', '0', '9', '-', '\\'};
      const size_t at = random() % bytes.size();
      bytes[at] = random() % 2 == 0 ? static_cast<std::byte>(kEdges[random() % sizeof(kEdges)])
                                    : static_cast<std::byte>(random());
    }
    if (round % 8 == 7) bytes.resize(random() % bytes.size());
    const std::vector<std::byte> exact(bytes);
    const auto tensors = parse_safetensors(exact, "test");
    if (!tensors) {
      ++n_refused;
      EXPECT_THAT(tensors.error().message, HasSubstr("test"));
      continue;
    }
    ++n_read;
    const std::byte* next = nullptr;
    for (const SafetensorsTensor& tensor : *tensors) {
      EXPECT_TRUE(next == nullptr || tensor.data.data() == next);
      next = tensor.data.data() + tensor.data.size();
    }
    EXPECT_TRUE(next == nullptr || next == exact.data() + exact.size());
  }
  EXPECT_GT(n_refused, 1000);
  EXPECT_GT(n_read, 100);  // changes of the data, or of a name
}

}  // namespace
}  // namespace millrace
