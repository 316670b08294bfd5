#include "base/math_digest.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/test_rerun.h"

namespace millrace {
namespace {

TEST(MathDigest, is_the_same_at_any_time_on_any_thread) {
  const Digest256 first = math_digest();
  EXPECT_EQ(math_digest(), first);
  Digest256 other{};
  std::thread([&] { other = math_digest(); }).join();
  EXPECT_EQ(other, first);
}

TEST(MathDigest, DISABLED_tells) {
  tell_digest(math_digest());
}

// The same program and C library, told that the processor lacks what it has.
TEST(MathDigest, differs_where_the_c_library_picks_other_functions) {
  const std::string here = rerun("MathDigest.DISABLED_tells", "");
  EXPECT_EQ(rerun("MathDigest.DISABLED_tells", ""), here);
  if (!__builtin_cpu_supports("fma")) {
    GTEST_SKIP() << "there is only one choice here";
  }
  EXPECT_NE(rerun("MathDigest.DISABLED_tells", kPlainMath), here);
}

}  // namespace
}  // namespace millrace
