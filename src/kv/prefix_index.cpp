#include "kv/prefix_index.h"

#include <algorithm>
#include <bit>
#include <boost/intrusive/set.hpp>
#include <compare>
#include <string>
#include <unordered_map>

#include "base/check.h"

namespace millrace {
namespace {

namespace intrusive = boost::intrusive;

// How far match() looks past blocks that the picker has given away.
constexpr int kMaxPassedOver = 8;

// One block's place in the index; the tokens lie beside.
struct Entry : intrusive::set_base_hook<intrusive::optimize_size<true>> {
  Digest128 key;                      // of a whole block
  BlockId next_in_bucket = kNoBlock;  // of a whole block
  BlockId parent = kNoBlock;
  uint32_t parent_generation = 0;
  NamespaceId space = 0;
  uint32_t n_tokens = 0;  // 0: not in the index
};

// What entries are ordered by: those with one parent lie together, by their tokens, so the longest
// common beginning with any tokens is that of a neighbour.
struct Place {
  NamespaceId space;
  BlockId parent;
  uint32_t parent_generation;
  std::span<const TokenId> tokens;

  bool has_siblings_of(const Place& other) const {
    return space == other.space && parent == other.parent &&
           parent_generation == other.parent_generation;
  }
  friend std::strong_ordering operator<=>(const Place& a, const Place& b) {
    if (const auto order = a.space <=> b.space; order != 0) {
      return order;
    }
    if (const auto order = a.parent <=> b.parent; order != 0) {
      return order;
    }
    if (const auto order = a.parent_generation <=> b.parent_generation; order != 0) {
      return order;
    }
    return std::lexicographical_compare_three_way(
        a.tokens.begin(), a.tokens.end(), b.tokens.begin(), b.tokens.end());
  }
};

int64_t n_common(std::span<const TokenId> a, std::span<const TokenId> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

}  // namespace

class PrefixIndex::Impl {
 public:
  Impl(BlockPool& block_pool, const PrefixIndexOptions& options)
      : pool(block_pool),
        block_tokens(static_cast<size_t>(options.block_tokens)),
        n_key_bits(options.n_key_bits),
        digest(options.key),
        entries(static_cast<size_t>(pool.n_total())),
        tokens(entries.size() * block_tokens),
        buckets(std::bit_ceil(entries.size()), kNoBlock),
        order(Before{PlaceOf{this}}) {
    MR_CHECK(n_key_bits >= 1 && n_key_bits <= 128, "key of {} bits", n_key_bits);
  }

  std::span<const TokenId> tokens_of(BlockId block) const {
    return {tokens.data() + block * block_tokens, entries[block].n_tokens};
  }
  Place place_of(BlockId block) const {
    const Entry& entry = entries[block];
    return {entry.space, entry.parent, entry.parent_generation, tokens_of(block)};
  }
  Place place(NamespaceId space, BlockId parent, std::span<const TokenId> some) const {
    return {space, parent, parent == kNoBlock ? 0 : pool.generation(parent), some};
  }
  BlockId id_of(const Entry& entry) const { return static_cast<BlockId>(&entry - entries.data()); }
  bool is_whole(const Entry& entry) const { return entry.n_tokens == block_tokens; }
  BlockId& bucket_of(const Digest128& key) { return buckets[key.low & (buckets.size() - 1)]; }
  BlockId bucket_of(const Digest128& key) const { return buckets[key.low & (buckets.size() - 1)]; }

  Digest128 shorten(Digest128 key) const {
    if (n_key_bits < 128) {
      key.high = n_key_bits > 64 ? key.high & ((uint64_t{1} << (n_key_bits - 64)) - 1) : 0;
      key.low = n_key_bits < 64 ? key.low & ((uint64_t{1} << n_key_bits) - 1) : key.low;
    }
    return key;
  }

  BlockId find_whole(const Digest128& key, const Place& wanted) const;
  template <class Usable>
  PrefixMatch find_part(const Place& wanted, const Usable& is_usable) const;
  void link(BlockId block, const Place& at, const Digest128& key);
  void unlink(BlockId block);
  void unlink_from_bucket(BlockId block);

  struct PlaceOf {
    const Impl* impl;

    Place operator()(const Entry& entry) const { return impl->place_of(impl->id_of(entry)); }
  };
  struct Namespace {
    std::string name;
    Digest128 root;
    int64_t n_users = 0;
  };
  struct Before {
    PlaceOf place_of;
    bool operator()(const Entry& a, const Entry& b) const { return place_of(a) < place_of(b); }
    bool operator()(const Entry& a, const Place& b) const { return place_of(a) < b; }
    bool operator()(const Place& a, const Entry& b) const { return a < place_of(b); }
  };

  BlockPool& pool;
  size_t block_tokens;
  int n_key_bits;
  KeyedDigest digest;
  std::vector<Entry> entries;    // [n_blocks]
  std::vector<TokenId> tokens;   // [n_blocks, block_tokens]
  std::vector<BlockId> buckets;  // first whole block of each
  intrusive::multiset<Entry, intrusive::compare<Before>> order;
  std::vector<Namespace> spaces;
  std::vector<NamespaceId> unused_spaces;
  std::unordered_map<std::string, NamespaceId> space_of;
};

BlockId PrefixIndex::Impl::find_whole(const Digest128& key, const Place& wanted) const {
  for (BlockId block = bucket_of(key); block != kNoBlock; block = entries[block].next_in_bucket) {
    if (entries[block].key == key && (place_of(block) <=> wanted) == 0) {
      return block;
    }
  }
  return kNoBlock;
}

// The usable entry that shares the most tokens with what is wanted.
template <class Usable>
PrefixMatch PrefixIndex::Impl::find_part(const Place& wanted, const Usable& is_usable) const {
  PrefixMatch best;
  const auto consider = [&](const Entry& entry) {  // false: none further on can be better
    const BlockId block = id_of(entry);
    const int64_t n =
        wanted.has_siblings_of(place_of(block)) ? n_common(wanted.tokens, tokens_of(block)) : 0;
    if (n <= best.n_tokens) {
      return false;
    }
    if (is_usable(block)) {
      best = {.n_tokens = n, .source = block};
    }
    return true;
  };
  const auto place = order.lower_bound(wanted, order.key_comp());
  auto next = place;
  for (int i = 0; i < kMaxPassedOver && next != order.end() && consider(*next); ++i) {
    ++next;
  }
  auto previous = place;
  for (int i = 0; i < kMaxPassedOver && previous != order.begin() && consider(*--previous); ++i) {
  }
  return best;
}

void PrefixIndex::Impl::link(BlockId block, const Place& at, const Digest128& key) {
  Entry& entry = entries[block];
  entry.key = key;
  entry.space = at.space;
  entry.parent = at.parent;
  entry.parent_generation = at.parent_generation;
  entry.n_tokens = static_cast<uint32_t>(at.tokens.size());
  std::ranges::copy(at.tokens, tokens.begin() + static_cast<ptrdiff_t>(block * block_tokens));
  order.insert(entry);
  if (is_whole(entry)) {
    BlockId& bucket = bucket_of(key);
    entry.next_in_bucket = bucket;
    bucket = block;
  }
  ++spaces[entry.space].n_users;
  pool.set_cached(block, true);
}

void PrefixIndex::Impl::unlink_from_bucket(BlockId block) {
  BlockId* link = &bucket_of(entries[block].key);
  while (*link != block) {
    MR_CHECK(*link != kNoBlock, "block {} is not in its bucket", block);
    link = &entries[*link].next_in_bucket;
  }
  *link = entries[block].next_in_bucket;
}

void PrefixIndex::Impl::unlink(BlockId block) {
  Entry& entry = entries[block];
  order.erase(order.iterator_to(entry));
  if (is_whole(entry)) {
    unlink_from_bucket(block);
  }
  entry.n_tokens = 0;
  pool.set_cached(block, false);
}

PrefixIndex::PrefixIndex(BlockPool& pool, const PrefixIndexOptions& options)
    : impl_(std::make_unique<Impl>(pool, options)) {}

// Buckets are a power of two, so up to two for each block.
size_t PrefixIndex::bytes_per_block(int64_t block_tokens) {
  return sizeof(Entry) + static_cast<size_t>(block_tokens) * sizeof(TokenId) + 2 * sizeof(BlockId);
}

PrefixIndex::~PrefixIndex() {
  impl_->order.clear();
}

NamespaceId PrefixIndex::acquire(std::string_view name) {
  Impl& impl = *impl_;
  const auto [found, is_new] = impl.space_of.try_emplace(std::string(name), NamespaceId{0});
  if (is_new) {
    if (impl.unused_spaces.empty()) {
      impl.unused_spaces.push_back(static_cast<NamespaceId>(impl.spaces.size()));
      impl.spaces.emplace_back();
    }
    found->second = impl.unused_spaces.back();
    impl.unused_spaces.pop_back();
    impl.spaces[found->second] = {.name = std::string(name),
                                  .root = impl.digest({std::as_bytes(std::span(name))})};
  }
  ++impl.spaces[found->second].n_users;
  return found->second;
}

void PrefixIndex::release(NamespaceId space) {
  Impl& impl = *impl_;
  if (--impl.spaces[space].n_users == 0) {
    impl.space_of.erase(impl.spaces[space].name);
    impl.spaces[space] = {};
    impl.unused_spaces.push_back(space);
  }
}

void PrefixIndex::extend_keys(NamespaceId space,
                              std::span<const TokenId> tokens,
                              std::vector<Digest128>& keys) {
  Impl& impl = *impl_;
  const size_t n_blocks = tokens.size() / impl.block_tokens;
  while (keys.size() < n_blocks) {
    const Digest128 parent = keys.empty() ? impl.spaces[space].root : keys.back();
    const auto block = tokens.subspan(keys.size() * impl.block_tokens, impl.block_tokens);
    keys.push_back(
        impl.shorten(impl.digest({std::as_bytes(std::span(&parent, 1)), std::as_bytes(block)})));
  }
}

PrefixMatch PrefixIndex::match(NamespaceId space,
                               std::span<const Digest128> keys,
                               std::span<const TokenId> tokens,
                               const BlockPicker& picker,
                               std::vector<BlockId>& blocks) const {
  const Impl& impl = *impl_;
  const auto is_usable = [&](BlockId block) { return !picker.is_picked(block); };
  BlockId parent = kNoBlock;
  size_t n_whole = 0;
  while (n_whole < keys.size() && tokens.size() >= impl.block_tokens) {
    const Place wanted = impl.place(space, parent, tokens.first(impl.block_tokens));
    const BlockId block = impl.find_whole(keys[n_whole], wanted);
    if (block == kNoBlock || !is_usable(block)) {
      break;
    }
    blocks.push_back(block);
    parent = block;
    tokens = tokens.subspan(impl.block_tokens);
    ++n_whole;
  }
  const auto rest = tokens.first(std::min(tokens.size(), impl.block_tokens));
  PrefixMatch match = impl.find_part(impl.place(space, parent, rest), is_usable);
  match.n_tokens += static_cast<int64_t>(n_whole * impl.block_tokens);
  return match;
}

BlockId PrefixIndex::publish(NamespaceId space,
                             BlockId parent,
                             const Digest128& key,
                             std::span<const TokenId> tokens,
                             BlockId block) {
  Impl& impl = *impl_;
  MR_CHECK(tokens.size() == impl.block_tokens, "{} tokens", tokens.size());
  const Place at = impl.place(space, parent, tokens);
  const BlockId same = impl.find_whole(key, at);
  if (same != kNoBlock) {
    return same;
  }
  forget(block);
  impl.link(block, at, key);
  return block;
}

void PrefixIndex::publish_part(NamespaceId space,
                               BlockId parent,
                               std::span<const TokenId> tokens,
                               BlockId block) {
  Impl& impl = *impl_;
  MR_CHECK(!tokens.empty() && tokens.size() < impl.block_tokens, "{} tokens", tokens.size());
  const Place at = impl.place(space, parent, tokens);
  const PrefixMatch covering = impl.find_part(at, [](BlockId) { return true; });
  if (covering.n_tokens == static_cast<int64_t>(tokens.size())) {
    return;
  }
  forget(block);
  impl.link(block, at, {});
}

void PrefixIndex::forget(BlockId block) {
  if (impl_->entries[block].n_tokens > 0) {
    const NamespaceId space = impl_->entries[block].space;
    impl_->unlink(block);
    release(space);
  }
}

int64_t PrefixIndex::n_entries() const {
  return static_cast<int64_t>(impl_->order.size());
}

bool PrefixIndex::check() const {
  const Impl& impl = *impl_;
  int64_t n_linked = 0;
  std::vector<int64_t> n_users(impl.spaces.size());
  for (BlockId block = 0; block < impl.entries.size(); ++block) {
    const Entry& entry = impl.entries[block];
    if (impl.pool.is_cached(block) != (entry.n_tokens > 0)) {
      return false;
    }
    if (entry.n_tokens == 0) {
      continue;
    }
    ++n_linked;
    ++n_users[entry.space];
    if (impl.is_whole(entry) && impl.find_whole(entry.key, impl.place_of(block)) != block) {
      return false;
    }
  }
  for (NamespaceId space = 0; space < impl.spaces.size(); ++space) {
    if (n_users[space] > impl.spaces[space].n_users) {
      return false;
    }
  }
  return n_linked == n_entries() &&
         std::is_sorted(impl.order.begin(), impl.order.end(), impl.order.key_comp());
}

}  // namespace millrace
