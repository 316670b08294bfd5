// Properties of the small pieces: philox, utf8, buffer, mapped_file, cpu_info, metrics, result.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <set>
#include <string>

#include "base/buffer.h"
#include "base/check.h"
#include "base/cpu_info.h"
#include "base/human_bytes.h"
#include "base/mapped_file.h"
#include "base/metrics.h"
#include "base/philox.h"
#include "base/result.h"
#include "base/utf8.h"

namespace millrace {
namespace {

TEST(result, carries_a_value_or_a_formatted_error) {
  const auto half = [](int n) -> Result<int> {
    if (n % 2 != 0) {
      return fail(ErrorCode::kInvalidArgument, "[half] expected an even number, got {}", n);
    }
    return n / 2;
  };
  EXPECT_EQ(half(8).value(), 4);
  const auto failed = half(7);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "[half] expected an even number, got 7");
  const Result<std::string> passed_on = propagate(failed);
  EXPECT_EQ(passed_on.error().code, ErrorCode::kInvalidArgument);
  EXPECT_STREQ(error_code_name(failed.error().code), "invalid_argument");
}

TEST(check, stops_with_condition_and_values) {
  EXPECT_DEATH(MR_CHECK(1 + 1 == 3, "sum {}", 2), "check failed: 1 \\+ 1 == 3: sum 2");
}

// Known answers published with the reference implementation of the generator.
TEST(philox, matches_the_known_answers) {
  EXPECT_EQ(philox4x32(0, {0, 0, 0, 0}),
            (PhiloxBlock{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  EXPECT_EQ(philox4x32(~0ull, {~0u, ~0u, ~0u, ~0u}),
            (PhiloxBlock{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  EXPECT_EQ(philox4x32(0x299f31d0a4093822ull, {0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}),
            (PhiloxBlock{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

TEST(philox, unit_interval_is_open) {
  EXPECT_GT(open_unit_interval(0, 0), 0.0);
  EXPECT_LT(open_unit_interval(~0u, ~0u), 1.0);
}

TEST(utf8, every_code_point_survives_a_round_trip) {
  for (char32_t code_point = 1; code_point <= 0x10FFFF; ++code_point) {
    if (code_point >= 0xD800 && code_point <= 0xDFFF) {
      continue;
    }
    std::string text;
    append_utf8(text, code_point);
    const Utf8Step step = decode_utf8(text);
    ASSERT_TRUE(step.is_valid) << static_cast<std::uint32_t>(code_point);
    ASSERT_EQ(step.code_point, code_point);
    ASSERT_EQ(step.n_bytes, static_cast<int>(text.size()));
    for (std::size_t n = 1; n < text.size(); ++n) {
      ASSERT_EQ(incomplete_utf8_tail(text.substr(0, n)), n);
    }
    ASSERT_EQ(incomplete_utf8_tail(text), 0u);
  }
}

TEST(utf8, refuses_overlong_surrogate_and_out_of_range) {
  for (const char* bad :
       {"\xC0\x80", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xF8", "\x80", "\xFF"}) {
    EXPECT_FALSE(is_valid_utf8(bad));
    EXPECT_TRUE(is_valid_utf8(replace_invalid_utf8(bad)));
  }
  // The example of Unicode 15, table 3-8: maximal subparts.
  EXPECT_EQ(replace_invalid_utf8("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
            "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd");
}

TEST(Utf8, a_broken_byte_is_found_at_any_place_of_a_long_text) {
  for (size_t n = 1; n < 40; ++n) {
    std::string text(n, 'a');
    EXPECT_TRUE(is_valid_utf8(text));
    EXPECT_TRUE(is_valid_utf8(text + "\u00e9" + text));
    for (size_t at = 0; at < n; ++at) {
      text[at] = '\xFF';
      EXPECT_FALSE(is_valid_utf8(text)) << n << ' ' << at;
      text[at] = 'a';
    }
  }
}

TEST(buffer, is_aligned_zeroed_and_movable) {
  for (const std::size_t n : {1u, 4096u, (2u << 20) - 1, 5u << 20}) {
    Buffer buffer = Buffer::allocate(n);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0u);
    EXPECT_EQ(buffer.data()[0], std::byte{0});
    EXPECT_EQ(buffer.data()[n - 1], std::byte{0});
    buffer.data()[n - 1] = std::byte{7};
    const Buffer moved = std::move(buffer);
    EXPECT_EQ(moved.data()[n - 1], std::byte{7});
    EXPECT_EQ(moved.size(), n);
  }
  EXPECT_TRUE(Buffer::allocate(0).empty());
}

TEST(mapped_file, reads_a_file_and_reads_it_again_after_its_pages_were_dropped) {
  const std::string path =
      testing::TempDir() + "millrace_mapped_" + std::to_string(getpid()) + ".bin";
  std::ofstream(path) << std::string(10'000, 'x') << "end";
  {
    const auto file = MappedFile::open(path);
    ASSERT_TRUE(file) << file.error().message;
    ASSERT_EQ(file->bytes().size(), 10'003u);
    EXPECT_EQ(static_cast<char>(file->bytes()[10'002]), 'd');
    file->drop_pages();
    EXPECT_EQ(static_cast<char>(file->bytes()[0]), 'x');
  }
  std::remove(path.c_str());
  const auto gone = MappedFile::open(path);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, ErrorCode::kNotFound);
  EXPECT_NE(gone.error().message.find(path), std::string::npos);
  EXPECT_EQ(MappedFile::open(testing::TempDir()).error().code, ErrorCode::kIo);
}

TEST(buffer, sizes_that_cannot_be_had_are_errors) {
  for (const std::size_t n_bytes : {SIZE_MAX, SIZE_MAX - 100, std::size_t{1} << 60}) {
    const auto buffer = Buffer::try_allocate(n_bytes);
    ASSERT_FALSE(buffer) << n_bytes;
    EXPECT_EQ(buffer.error().code, ErrorCode::kResourceExhausted);
  }
  EXPECT_NE(Buffer::try_allocate(std::size_t{1} << 60).error().message.find("1.0 EiB"),
            std::string::npos);
  const auto small = Buffer::try_allocate(100);
  ASSERT_TRUE(small);
  EXPECT_EQ(small->size(), 100u);
}

TEST(counted, takes_an_s_but_for_one) {
  EXPECT_EQ(counted(0, "thread"), "0 threads");
  EXPECT_EQ(counted(1, "thread"), "1 thread");
  EXPECT_EQ(counted(2, "thread"), "2 threads");
}

TEST(human_bytes, has_three_digits_or_so) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1024), "1.0 KiB");
  EXPECT_EQ(human_bytes(12'800), "12.5 KiB");
  EXPECT_EQ(human_bytes(102'400), "100 KiB");
  EXPECT_EQ(human_bytes((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(human_bytes(uint64_t{5} << 40), "5.0 TiB");
}

TEST(cpu_info, threads_are_the_least_of_affinity_quota_and_cores) {
  EXPECT_EQ(default_thread_count({.n_affinity = 8, .n_physical_cores = 4, .quota = 0}), 4);
  EXPECT_EQ(default_thread_count({.n_affinity = 2, .n_physical_cores = 4, .quota = 0}), 2);
  EXPECT_EQ(default_thread_count({.n_affinity = 8, .n_physical_cores = 8, .quota = 3.9}), 3);
  EXPECT_EQ(default_thread_count({.n_affinity = 8, .n_physical_cores = 8, .quota = 0.5}), 1);
  const CpuInfo here = read_cpu_info();
  EXPECT_GE(here.n_affinity, 1);
  EXPECT_GE(here.n_affinity, here.n_physical_cores);
}

TEST(metrics, expose_what_was_recorded) {
  Metrics metrics;
  Counter requests = metrics.counter("millrace_requests_total", "Requests.", {{"kind", "chat"}});
  requests.add();
  requests.add(2);
  metrics.counter("millrace_requests_total", "Requests.", {{"kind", "chat"}}).add();  // the same
  metrics.gauge("millrace_blocks_free", "Free blocks.").set(12);
  Histogram seconds = metrics.histogram("millrace_step_seconds", "Steps.", {0.5, 1});
  seconds.observe(0.25);
  seconds.observe(4);
  EXPECT_EQ(requests.value(), 4);
  const std::string text = metrics.expose();
  for (const char* line : {"# TYPE millrace_requests_total counter\n",
                           "millrace_requests_total{kind=\"chat\"} 4\n",
                           "millrace_blocks_free 12\n",
                           "millrace_step_seconds_bucket{le=\"0.5\"} 1\n",
                           "millrace_step_seconds_count 2\n",
                           "millrace_step_seconds_sum 4.25\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "in\n" << text;
  }
  EXPECT_EQ(exponential_buckets(1, 2, 4), (std::vector<double>{1, 2, 4, 8}));
}

}  // namespace
}  // namespace millrace
