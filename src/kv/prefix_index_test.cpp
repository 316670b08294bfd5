#include "kv/prefix_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Ids = std::vector<BlockId>;
using Tokens = std::vector<TokenId>;

constexpr int64_t kTokens = 4;  // of a block

class PrefixIndexTest : public testing::Test {
 protected:
  explicit PrefixIndexTest(int n_key_bits = 128)
      : pool_(16),
        picker_(pool_),
        index_(pool_, {.block_tokens = kTokens, .key = {}, .n_key_bits = n_key_bits}),
        space_(index_.acquire("")) {}

  std::vector<Digest128> keys_of(const Tokens& tokens, NamespaceId space) {
    std::vector<Digest128> keys;
    index_.extend_keys(space, tokens, keys);
    return keys;
  }

  // Takes blocks, publishes all that they hold of the tokens and gives them back.
  Ids add(const Tokens& tokens) { return add(tokens, space_); }
  Ids add(const Tokens& tokens, NamespaceId space) {
    Ids blocks;
    picker_.reset();
    picker_.pick(blocks_for(static_cast<int64_t>(tokens.size()), kTokens), blocks);
    for (const BlockId block : blocks) {
      index_.forget(block);
    }
    pool_.take(blocks);
    const auto keys = keys_of(tokens, space);
    for (size_t i = 0; i < blocks.size(); ++i) {
      const auto rest = std::span(tokens).subspan(i * kTokens);
      const BlockId parent = i == 0 ? kNoBlock : blocks[i - 1];
      if (i == keys.size()) {
        index_.publish_part(space, parent, rest, blocks[i]);
        continue;
      }
      const BlockId same = index_.publish(space, parent, keys[i], rest.first(kTokens), blocks[i]);
      if (same != blocks[i]) {
        pool_.touch(Ids{same});
        pool_.release(Ids{blocks[i]});
        blocks[i] = same;
      }
    }
    pool_.release(blocks);
    EXPECT_TRUE(index_.check());
    EXPECT_TRUE(pool_.check());
    return blocks;
  }

  // The blocks found and the match.
  std::pair<Ids, PrefixMatch> find(const Tokens& tokens) { return find(tokens, space_); }
  std::pair<Ids, PrefixMatch> find(const Tokens& tokens, NamespaceId space) {
    picker_.reset();
    return find_now(tokens, space);
  }
  std::pair<Ids, PrefixMatch> find_now(const Tokens& tokens, NamespaceId space) {
    Ids blocks;
    const PrefixMatch match = index_.match(space, keys_of(tokens, space), tokens, picker_, blocks);
    return {blocks, match};
  }

  BlockPool pool_;
  BlockPicker picker_;
  PrefixIndex index_;
  NamespaceId space_;
};

TEST_F(PrefixIndexTest, finds_whole_blocks_and_then_the_block_that_shares_the_most_tokens) {
  const Ids chain = add({1, 2, 3, 4, 5, 6, 7, 8, 9});
  const Ids other = add({1, 2, 3, 4, 5, 6, 0, 0, 9});
  EXPECT_EQ(other[0], chain[0]);  // merged
  {
    const auto [blocks, match] = find({1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
    EXPECT_THAT(blocks, ElementsAre(chain[0], chain[1]));
    EXPECT_EQ(match.n_tokens, 9);
    EXPECT_EQ(match.source, chain[2]);
  }
  {
    const auto [blocks, match] = find({1, 2, 3, 4, 5, 6, 7});
    EXPECT_THAT(blocks, ElementsAre(chain[0]));
    EXPECT_EQ(match.n_tokens, 7);
    EXPECT_EQ(match.source, chain[1]);
  }
  {
    const auto [blocks, match] = find({1, 2, 9});
    EXPECT_THAT(blocks, IsEmpty());
    EXPECT_EQ(match.n_tokens, 2);
    EXPECT_EQ(match.source, chain[0]);
  }
  {
    const auto [blocks, match] = find({7, 7});
    EXPECT_THAT(blocks, IsEmpty());
    EXPECT_EQ(match.n_tokens, 0);
    EXPECT_EQ(match.source, kNoBlock);
  }
}

TEST_F(PrefixIndexTest, same_tokens_behind_another_block_or_in_another_namespace_are_other_blocks) {
  add({1, 2, 3, 4, 5, 6, 7, 8});
  const Ids other = add({9, 9, 9, 9, 5, 6, 7, 8});
  EXPECT_THAT(find({9, 9, 9, 9, 5, 6, 7, 8}).first, ElementsAre(other[0], other[1]));
  const NamespaceId salted = index_.acquire("salt");
  EXPECT_NE(salted, space_);
  EXPECT_EQ(index_.acquire("salt"), salted);
  EXPECT_EQ(find({1, 2, 3, 4, 5}, salted).second.n_tokens, 0);
  const Ids own = add({1, 2, 3, 4}, salted);
  EXPECT_THAT(find({1, 2, 3, 4}, salted).first, own);
}

TEST_F(PrefixIndexTest, namespace_lasts_as_long_as_its_users_and_blocks) {
  const NamespaceId first = index_.acquire("a");
  const Ids blocks = add({1, 2, 3}, first);
  index_.release(first);
  EXPECT_EQ(index_.acquire("a"), first);
  EXPECT_EQ(find({1, 2, 3}, first).second.n_tokens, 3);
  index_.release(first);
  index_.forget(blocks[0]);
  EXPECT_EQ(index_.acquire("b"), first);  // its number is free again
  EXPECT_EQ(find({1, 2, 3}, first).second.n_tokens, 0);
}

TEST_F(PrefixIndexTest, chain_whose_beginning_was_given_away_is_not_found) {
  const Ids chain = add({1, 2, 3, 4, 5, 6, 7, 8});
  index_.forget(chain[0]);
  pool_.take(Ids{chain[0]});
  EXPECT_EQ(find({1, 2, 3, 4, 5, 6, 7, 8}).second.n_tokens, 0);
  // Nor when another block with the same tokens takes its place.
  index_.publish(space_, kNoBlock, keys_of({1, 2, 3, 4}, space_)[0], Tokens{1, 2, 3, 4}, chain[0]);
  const auto [blocks, match] = find({1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_THAT(blocks, ElementsAre(chain[0]));
  EXPECT_EQ(match.n_tokens, 4);
  EXPECT_TRUE(index_.check());
}

TEST_F(PrefixIndexTest, blocks_that_the_picker_gave_away_are_passed_over) {
  add({1, 2, 3, 4, 5, 6});
  picker_.reset();
  Ids picked;
  picker_.pick(pool_.n_free() - 1, picked);  // all but the youngest, the chain's beginning
  const auto [blocks, match] = find_now({1, 2, 3, 4, 5, 6}, space_);
  EXPECT_EQ(blocks.size(), 1U);
  EXPECT_EQ(match.n_tokens, 4);
  EXPECT_EQ(match.source, kNoBlock);
}

TEST_F(PrefixIndexTest, part_that_another_block_covers_is_not_published) {
  add({1, 2, 3, 4});
  const int64_t n_entries = index_.n_entries();
  add({1, 2, 3});
  EXPECT_EQ(index_.n_entries(), n_entries);
  add({1, 2, 9});
  EXPECT_EQ(index_.n_entries(), n_entries + 1);
}

TEST_F(PrefixIndexTest, picker_keeps_what_was_found) {
  const Ids chain = add({1, 2, 3, 4, 5, 6, 7, 8});
  picker_.reset();
  EXPECT_EQ(picker_.n_free_lost_by_keeping(chain[1]), 1);
  picker_.keep(chain[1]);
  EXPECT_EQ(picker_.n_free_lost_by_keeping(chain[1]), 0);
  picker_.keep(chain[1]);
  EXPECT_EQ(picker_.n_free(), pool_.n_total() - 1);
  Ids picked;
  picker_.pick(picker_.n_free(), picked);
  EXPECT_THAT(picked, testing::Not(testing::Contains(chain[1])));
}

// Against a list of everything published and not yet given away; keys of 2 bits collide all the
// time.
class PrefixIndexFuzz : public PrefixIndexTest, public testing::WithParamInterface<int> {
 protected:
  PrefixIndexFuzz() : PrefixIndexTest(GetParam()) {}

  Tokens some_tokens(size_t n) {
    Tokens tokens;
    while (tokens.size() < n) {
      tokens.push_back(static_cast<TokenId>(random_() % 2));
    }
    return tokens;
  }

  std::mt19937 random_{42};
};

TEST_P(PrefixIndexFuzz, match_is_the_longest_beginning_that_a_block_holds) {
  struct Held {
    Tokens tokens;  // all up to the block's end
    BlockId parent = kNoBlock;
    uint32_t generation = 0;
    uint32_t parent_generation = 0;
  };
  std::map<BlockId, Held> held;
  const auto generation_of = [&](BlockId block) {
    return block == kNoBlock ? 0 : pool_.generation(block);
  };
  int64_t n_found = 0;
  for (int i = 0; i < 3'000; ++i) {
    const Tokens added = some_tokens(1 + random_() % 14);
    const Ids blocks = add(added);
    for (size_t b = 0; b < blocks.size(); ++b) {
      if (pool_.is_cached(blocks[b])) {
        const size_t end = std::min<size_t>(added.size(), (b + 1) * kTokens);
        const BlockId parent = b == 0 ? kNoBlock : blocks[b - 1];
        held[blocks[b]] = {Tokens(added.begin(), added.begin() + static_cast<ptrdiff_t>(end)),
                           parent,
                           generation_of(blocks[b]),
                           generation_of(parent)};
      }
    }
    std::erase_if(held, [&](const auto& item) {
      return item.second.generation != generation_of(item.first);
    });
    const Tokens wanted = some_tokens(1 + random_() % 14);
    const auto [found, match] = find(wanted);
    n_found += match.n_tokens;
    int64_t longest = static_cast<int64_t>(found.size()) * kTokens;
    for (const auto& [block, it] : held) {
      if (it.parent == (found.empty() ? kNoBlock : found.back()) &&
          it.parent_generation == generation_of(it.parent)) {
        longest = std::max<int64_t>(
            longest, std::ranges::mismatch(it.tokens, wanted).in1 - it.tokens.begin());
      }
    }
    for (size_t b = 0; b < found.size(); ++b) {
      const auto end = static_cast<ptrdiff_t>((b + 1) * kTokens);
      ASSERT_EQ(held.at(found[b]).tokens, Tokens(wanted.begin(), wanted.begin() + end));
    }
    if (match.source != kNoBlock) {
      const Tokens& source = held.at(match.source).tokens;
      ASSERT_EQ(std::ranges::mismatch(source, wanted).in1 - source.begin(), match.n_tokens);
    }
    ASSERT_EQ(match.n_tokens, longest) << i;
  }
  EXPECT_GT(n_found, 6'000);
}

INSTANTIATE_TEST_SUITE_P(, PrefixIndexFuzz, testing::Values(2, 8, 70, 128));

}  // namespace
}  // namespace millrace
