#include "kv/block_record.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace millrace {
namespace {

static_assert(std::endian::native == std::endian::little, "records are written as they lie");

constexpr uint32_t kMagic = 0x564b524d;  // "MRKV"
constexpr uint64_t kMaxPayload = uint64_t{1} << 40;

class Writer {
 public:
  explicit Writer(size_t n_bytes) { bytes_.reserve(n_bytes); }
  template <class T>
  void add(const T& value) {
    add_bytes(std::as_bytes(std::span(&value, 1)));
  }
  void add_bytes(std::span<const std::byte> some) {
    bytes_.insert(bytes_.end(), some.begin(), some.end());
  }
  std::vector<std::byte>& bytes() { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

// The caller has seen to it that there are enough bytes.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}
  template <class T>
  T take() {
    T value;
    std::memcpy(&value, rest_.data(), sizeof(T));
    rest_ = rest_.subspan(sizeof(T));
    return value;
  }

 private:
  std::span<const std::byte> rest_;
};

}  // namespace

bool RecordHead::is(const BlockName& name) const {
  return key == name.key && parent == name.parent && std::ranges::equal(tokens, name.tokens);
}

std::vector<std::byte> encode(const RecordHead& head, Sha256& sha) {
  MR_CHECK(head.tokens.size() <= RecordHead::kMaxTokens && head.payload_bytes <= kMaxPayload,
           "{} tokens, {} bytes",
           head.tokens.size(),
           head.payload_bytes);
  Writer writer(head.head_bytes());
  writer.add(kMagic);
  writer.add(RecordHead::kVersion);
  writer.add(static_cast<uint32_t>(head.tokens.size()));
  writer.add(uint32_t{0});
  writer.add(head.payload_bytes);
  writer.add(head.key);
  writer.add(head.parent);
  writer.add(head.payload_digest);
  writer.add_bytes(std::as_bytes(std::span(head.tokens)));
  sha.add(writer.bytes());
  writer.add(sha.finish());
  return std::move(writer.bytes());
}

std::optional<RecordHead> decode(std::span<const std::byte> bytes, Sha256& sha) {
  if (bytes.size() < RecordHead::bytes(0)) {
    return std::nullopt;
  }
  Reader reader(bytes);
  const auto magic = reader.take<uint32_t>();
  const auto version = reader.take<uint32_t>();
  const auto n_tokens = reader.take<uint32_t>();
  const auto zero = reader.take<uint32_t>();
  if (magic != kMagic || version != RecordHead::kVersion || zero != 0 ||
      n_tokens > RecordHead::kMaxTokens || bytes.size() < RecordHead::bytes(n_tokens)) {
    return std::nullopt;
  }
  RecordHead head;
  head.payload_bytes = reader.take<uint64_t>();
  head.key = reader.take<BlockKey>();
  head.parent = reader.take<BlockKey>();
  head.payload_digest = reader.take<Digest256>();
  for (uint32_t i = 0; i < n_tokens; ++i) {
    head.tokens.push_back(reader.take<TokenId>());
  }
  const auto digest = reader.take<Digest256>();
  sha.add(bytes.first(head.head_bytes() - sizeof(digest)));
  if (sha.finish() != digest || head.payload_bytes > kMaxPayload) {
    return std::nullopt;
  }
  return head;
}

Digest256 payload_digest(const BlockBytes& content, Sha256& sha) {
  sha.add(content.target);
  sha.add(content.draft);
  return sha.finish();
}

}  // namespace millrace
