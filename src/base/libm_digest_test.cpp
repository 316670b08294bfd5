#include "base/libm_digest.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "base/test_rerun.h"

namespace millrace {
namespace {

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
  tell_digest(libm_digest());
}

TEST(LibmDigest, tells_variants_of_one_library_apart) {
  if (!has_fma()) {
    GTEST_SKIP() << "needs a processor for which glibc has two variants";
  }
  const std::string here = rerun("LibmDigest.DISABLED_print", "");
  EXPECT_EQ(here, rerun("LibmDigest.DISABLED_print", ""));
  EXPECT_NE(here, rerun("LibmDigest.DISABLED_print", kPlainMath));
}

}  // namespace
}  // namespace millrace
