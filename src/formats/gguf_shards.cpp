#include "formats/gguf_shards.h"

#include <fmt/format.h>

#include <charconv>

namespace millrace {
namespace {

std::optional<int> parse_digits(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

}  // namespace

std::string ShardName::path(int shard_no) const {
  return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, shard_no, count);
}

std::optional<ShardName> parse_shard_name(std::string_view path) {
  constexpr std::string_view kPattern = "-00000-of-00000.gguf";
  if (path.size() < kPattern.size()) return std::nullopt;
  const std::string_view tail = path.substr(path.size() - kPattern.size());
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || !tail.ends_with(".gguf"))
    return std::nullopt;
  const auto no = parse_digits(tail.substr(1, 5));
  const auto count = parse_digits(tail.substr(10, 5));
  if (!no || !count || *no < 1 || *no > *count) return std::nullopt;
  return ShardName{std::string(path.substr(0, path.size() - kPattern.size())), *no, *count};
}

std::string byte_piece_remedy(std::string_view path) {
  const size_t part = path.rfind(".part");
  if (part != std::string_view::npos) {
    const std::string_view tail = path.substr(part + 5);
    const size_t of = tail.find("of");
    if (of != std::string_view::npos && parse_digits(tail.substr(0, of)) &&
        parse_digits(tail.substr(of + 2))) {
      const std::string_view whole = path.substr(0, part);
      return fmt::format(
          "join all pieces in order ('cat {}.part1of{} {}.part2of{} ... > {}') and load that",
          whole,
          tail.substr(of + 2),
          whole,
          tail.substr(of + 2),
          whole);
    }
  }
  const size_t split = path.rfind(".gguf-split-");
  if (split != std::string_view::npos && split + 13 == path.size()) {
    const std::string_view whole = path.substr(0, split + 5);
    return fmt::format(
        "join all pieces in order ('cat {}-split-* > {}') and load that", whole, whole);
  }
  return {};
}

}  // namespace millrace
