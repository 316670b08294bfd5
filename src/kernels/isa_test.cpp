#include "kernels/isa.h"

#include <gtest/gtest.h>

#include <string>

#include "kernels/kernel_table.h"

namespace millrace::kernels {
namespace {

TEST(Isa, names_lead_back_to_the_available_tiers) {
  for (const Isa isa : kAllIsas) {
    const Result<Isa> found = isa_from_name(isa_name(isa));
    if (isa_is_available(isa)) {
      ASSERT_TRUE(found.has_value());
      EXPECT_EQ(*found, isa);
    } else {
      ASSERT_FALSE(found.has_value());
      EXPECT_EQ(found.error().code, ErrorCode::kUnsupported);
      for (const Isa other : kAllIsas) {  // said as whole words
        const std::string words = found.error().message.substr(found.error().message.find("runs"));
        EXPECT_EQ((words + ",").find(std::string(" ") + isa_name(other) + ",") != std::string::npos,
                  isa_is_available(other))
            << words;
      }
    }
  }
  for (const Isa isa : kAllIsas) {
    const std::string message = isa_from_name("mmx").error().message;
    EXPECT_NE(message.find(isa_name(isa)), std::string::npos) << message;
  }
  EXPECT_EQ(isa_from_name("mmx").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(isa_from_name("").error().code, ErrorCode::kInvalidArgument);
}

TEST(Isa, detection_agrees_with_the_compilers_own) {
  __builtin_cpu_init();
  EXPECT_EQ(isa_is_available(Isa::kAvx2),
            __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
  EXPECT_EQ(isa_is_available(Isa::kAvx512),
            __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                __builtin_cpu_supports("avx512vnni"));
  EXPECT_EQ(isa_is_available(Isa::kAvx512Bf16),
            isa_is_available(Isa::kAvx512) && __builtin_cpu_supports("avx512bf16"));
  EXPECT_TRUE(isa_is_available(detect_isa()));
}

TEST(KernelTable, each_tier_says_its_register_width) {
  EXPECT_EQ(kernel_table(Isa::kScalar).vector_floats, 8);
  EXPECT_EQ(kernel_table(Isa::kAvx2).vector_floats, 8);
  EXPECT_EQ(kernel_table(Isa::kAvxVnni).vector_floats, 8);
  EXPECT_EQ(kernel_table(Isa::kAvx512).vector_floats, 16);
  EXPECT_EQ(kernel_table(Isa::kAvx512Bf16).vector_floats, 16);
}

}  // namespace
}  // namespace millrace::kernels
