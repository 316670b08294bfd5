#pragma once
// One test of this program in a process where the C library thinks less of the processor, for
// tests.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "base/digest.h"

namespace millrace {

// That the C library does without instructions for which it has functions of its own.
inline constexpr const char* kPlainMath =
    "glibc.cpu.hwcaps=-FMA,-FMA4,-AVX2,-FMA_Usable,-FMA4_Usable,-AVX2_Usable";

// For the test that is run: what it found.
inline void tell_digest(const Digest256& digest) {
  std::string line = "digest ";
  for (const std::byte byte : digest) {
    line += fmt::format("{:02x}", std::to_integer<int>(byte));
  }
  std::puts(line.c_str());
}

// The digest that the (disabled) test tells there.
inline std::string rerun(const std::string& test, const std::string& tunables) {
  const std::string command =
      fmt::format("GLIBC_TUNABLES={} '{}' --gtest_also_run_disabled_tests --gtest_filter='{}'",
                  tunables,
                  std::filesystem::read_symlink("/proc/self/exe").string(),
                  test);
  std::FILE* output = ::popen(command.c_str(), "r");
  std::string text;
  for (int c = std::fgetc(output); c != EOF; c = std::fgetc(output)) {
    text += static_cast<char>(c);
  }
  EXPECT_EQ(::pclose(output), 0) << text;
  const size_t begin = text.find("digest ");
  EXPECT_NE(begin, std::string::npos) << text;
  return begin == std::string::npos ? "" : text.substr(begin, 7 + 64);
}

}  // namespace millrace
