#include "kv/kv_memory.h"

#include <gmock/gmock.h>

#include <cstring>
#include <set>

namespace millrace {
namespace {

TEST(KvMemory, pages_of_all_blocks_layers_and_heads_are_disjoint_and_aligned) {
  const PageFormat format{KvType::kBF16, 8};
  auto memory = KvMemory::create(format, 3, 2, 4);
  ASSERT_TRUE(memory) << memory.error().message;
  EXPECT_EQ(memory->block_bytes(), 6 * format.bytes());
  std::set<const std::byte*> starts;
  for (BlockId block = 0; block < 4; ++block) {
    for (int layer = 0; layer < 3; ++layer) {
      for (int head = 0; head < 2; ++head) {
        std::byte* page = memory->page(block, layer, head);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(page) % 64, 0u);
        EXPECT_GE(page, memory->block(block).data());
        EXPECT_LE(page + format.bytes(), memory->block(block).data() + memory->block_bytes());
        starts.insert(page);
      }
    }
  }
  EXPECT_EQ(starts.size(), 24u);
  const std::byte* previous = nullptr;
  for (const std::byte* start : starts) {
    if (previous != nullptr) {
      EXPECT_GE(start - previous, ptrdiff_t(format.bytes()));
    }
    previous = start;
  }
}

TEST(KvMemory, copy_block_copies_every_page) {
  auto memory = KvMemory::create({KvType::kF32, 4}, 2, 2, 2);
  ASSERT_TRUE(memory);
  for (size_t i = 0; i < memory->block_bytes(); ++i) {
    memory->block(0)[i] = std::byte(i * 7 + 1);
  }
  memory->copy_block(0, 1);
  EXPECT_EQ(std::memcmp(memory->block(0).data(), memory->block(1).data(), memory->block_bytes()),
            0);
}

TEST(KvMemory, refuses_sizes_that_do_not_fit_the_address_space) {
  auto memory = KvMemory::create({KvType::kF32, 256}, 1000, 1000, int64_t{1} << 40);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code, ErrorCode::kResourceExhausted);
}

// The second of two arenas of half the address space each cannot be mapped.
TEST(KvMemory, what_the_system_refuses_is_an_error) {
  const auto first = KvMemory::create({KvType::kF32, 256}, 1, 1, int64_t{1} << 29);
  const auto second = KvMemory::create({KvType::kF32, 256}, 1, 1, int64_t{1} << 29);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(second.error().message.find("64.0 TiB"), std::string::npos) << second.error().message;
}

TEST(KvMemory, refuses_odd_head_sizes_and_empty_shapes) {
  EXPECT_FALSE(KvMemory::create({KvType::kBF16, 7}, 1, 1, 1));
  EXPECT_FALSE(KvMemory::create({KvType::kBF16, 0}, 1, 1, 1));
  EXPECT_FALSE(KvMemory::create({KvType::kBF16, 8}, 0, 1, 1));
  EXPECT_FALSE(KvMemory::create({KvType::kBF16, 8}, 1, 1, 0));
}

TEST(PageFormat, pads_values_to_whole_vectors_and_keys_not) {
  constexpr PageFormat kPage{KvType::kBF16, 8};
  static_assert(kPage.k_bytes() == 64 * 8 * 2 && kPage.v_bytes() == 64 * 16 * 2);
  constexpr PageFormat kWide{KvType::kF32, 80};
  static_assert(kWide.k_bytes() == 64 * 80 * 4 && kWide.v_bytes() == kWide.k_bytes());
  EXPECT_STREQ(kv_type_name(kPage.type), "bf16");
  EXPECT_STREQ(kv_type_name(kWide.type), "f32");
}

}  // namespace
}  // namespace millrace
