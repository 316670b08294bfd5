#include "base/libm_digest.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace millrace {
namespace {

std::string hex(const Digest256& digest) {
  std::string text;
  for (const std::byte byte : digest) {
    fmt::format_to(std::back_inserter(text), "{:02x}", std::to_integer<int>(byte));
  }
  return text;
}

// All that a command prints.
std::string output_of(const std::string& command) {
  std::string output;
  FILE* const pipe = ::popen(command.c_str(), "r");
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
    output += static_cast<char>(c);
  }
  ::pclose(pipe);
  return output;
}

bool has_fma() {
  std::ifstream file("/proc/cpuinfo");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return text.find(" fma ") != std::string::npos;
}

TEST(LibmDigest, is_the_same_each_time) {
  EXPECT_EQ(libm_digest(), libm_digest());
}

// What the next test runs in another process.
TEST(LibmDigest, DISABLED_print) {
  fmt::print("digest {}\n", hex(libm_digest()));
}

TEST(LibmDigest, tells_variants_of_one_library_apart) {
  if (!has_fma()) {
    GTEST_SKIP() << "needs a processor for which glibc has two variants";
  }
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = fmt::format(
      "'{}' --gtest_also_run_disabled_tests --gtest_filter=LibmDigest.DISABLED_print", program);
  const std::string same = output_of(command);
  const std::string other = output_of("GLIBC_TUNABLES=glibc.cpu.hwcaps=-FMA,-FMA4 " + command);
  const std::string digest = "digest " + hex(libm_digest());
  EXPECT_NE(same.find(digest), std::string::npos) << same;
  EXPECT_NE(other.find("digest "), std::string::npos) << other;
  EXPECT_EQ(other.find(digest), std::string::npos);
}

}  // namespace
}  // namespace millrace
