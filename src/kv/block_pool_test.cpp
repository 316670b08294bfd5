#include "kv/block_pool.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "kv/block_picker.h"

namespace millrace {
namespace {

std::vector<BlockId> free_list(const BlockPool& pool) {
  std::vector<BlockId> list;
  for (BlockId id = pool.oldest_free(); id != kNoBlock; id = pool.next_free(id)) {
    list.push_back(id);
  }
  return list;
}

using Ids = std::vector<BlockId>;

TEST(BlockPool, released_chain_is_given_away_tail_first_after_what_was_free_before) {
  BlockPool pool(5);
  pool.take(Ids{0, 1, 2});
  EXPECT_EQ(free_list(pool), (Ids{3, 4}));
  pool.release(Ids{0, 1, 2});
  EXPECT_EQ(free_list(pool), (Ids{3, 4, 2, 1, 0}));
  EXPECT_TRUE(pool.check());
}

TEST(BlockPool, touch_takes_a_cached_block_out_of_the_middle_and_keeps_its_content) {
  BlockPool pool(4);
  pool.take(Ids{0, 1, 2, 3});
  const uint32_t generation = pool.generation(2);
  pool.release(Ids{0, 1, 2, 3});
  pool.touch(Ids{2});
  EXPECT_EQ(free_list(pool), (Ids{3, 1, 0}));
  EXPECT_EQ(pool.generation(2), generation);
  pool.take(Ids{1});
  EXPECT_NE(pool.generation(1), generation);
  EXPECT_EQ(pool.n_used(), 2);
  EXPECT_TRUE(pool.check());
}

TEST(BlockPool, shared_block_becomes_free_with_its_last_reference) {
  BlockPool pool(2);
  pool.take(Ids{0});
  pool.touch(Ids{0});
  pool.release(Ids{0});
  EXPECT_EQ(pool.n_free(), 1);
  pool.release(Ids{0});
  EXPECT_EQ(pool.n_free(), 2);
}

TEST(BlockPool, transfer_and_poison_keep_a_released_block_from_being_handed_out) {
  BlockPool pool(3);
  pool.take(Ids{0, 1});
  pool.begin_transfer(0);
  pool.begin_transfer(0);
  pool.poison(1);
  pool.release(Ids{0, 1});
  EXPECT_EQ(pool.n_free(), 1);
  EXPECT_EQ(pool.n_in_transfer(), 1);
  EXPECT_EQ(pool.n_poisoned(), 1);
  EXPECT_TRUE(pool.check());
  pool.end_transfer(0);
  EXPECT_EQ(pool.n_in_transfer(), 1);
  pool.end_transfer(0);
  const uint32_t generation = pool.generation(1);
  pool.cure(1);
  EXPECT_NE(pool.generation(1), generation);  // whatever it held is doubtful
  EXPECT_EQ(free_list(pool), (Ids{2, 0, 1}));
  EXPECT_TRUE(pool.check());
}

TEST(BlockPicker, picks_what_the_pool_will_have_free) {
  BlockPool pool(6);
  pool.take(Ids{0, 1, 2, 3});
  pool.touch(Ids{0});  // shared: releasing one chain does not free it
  BlockPicker picker(pool);
  EXPECT_EQ(picker.n_free(), 2);
  picker.release(Ids{0, 1, 2});
  EXPECT_EQ(picker.n_free(), 4);
  Ids picked;
  picker.pick(3, picked);
  EXPECT_EQ(picked, (Ids{4, 5, 2}));
  pool.release(Ids{0, 1, 2});
  pool.take(picked);
  EXPECT_EQ(pool.n_free(), picker.n_free());
  EXPECT_TRUE(pool.check());
}

TEST(BlockPicker, agrees_with_the_pool_over_random_chains) {
  std::mt19937 random(1);
  BlockPool pool(60);
  BlockPicker picker(pool);
  std::deque<Ids> chains;
  for (int round = 0; round < 3'000; ++round) {
    picker.reset();
    std::vector<Ids> to_release;
    while (!chains.empty() && random() % 3 == 0) {
      to_release.push_back(chains.front());
      chains.pop_front();
      picker.release(to_release.back());
    }
    Ids fresh;
    picker.pick(static_cast<int64_t>(random() % (static_cast<uint64_t>(picker.n_free()) + 1)),
                fresh);
    for (const Ids& chain : to_release) {
      pool.release(chain);
    }
    pool.take(fresh);  // stops if one of them is not free
    EXPECT_EQ(pool.n_free(), picker.n_free());
    if (!chains.empty() && random() % 2 == 0) {  // share another chain's beginning
      Ids shared(
          chains.back().begin(),
          chains.back().begin() + static_cast<int64_t>(random() % (chains.back().size() + 1)));
      pool.touch(shared);
      fresh.insert(fresh.begin(), shared.begin(), shared.end());
    }
    chains.push_back(fresh);
    ASSERT_TRUE(pool.check());
  }
}

}  // namespace
}  // namespace millrace
