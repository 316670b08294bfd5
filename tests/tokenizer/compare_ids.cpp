// Compares our tokenizer with the lines of reference_ids.mjs on standard input.
//
//   compare_ids FOLDER < lines     exit status 1 and the first differences when there are any
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace {

using millrace::TokenId;
using Ids = std::vector<TokenId>;

std::string from_base64(const std::string& text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  unsigned bits = 0;
  int n_bits = 0;
  for (const char c : text) {
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) {
      break;
    }
    bits = bits << 6 | static_cast<unsigned>(digit);
    n_bits += 6;
    if (n_bits >= 8) {
      n_bits -= 8;
      bytes.push_back(static_cast<char>(bits >> n_bits & 0xFF));
    }
  }
  return bytes;
}

// Empty when the line holds, else what differs.
std::string check_line(const millrace::Tokenizer& tokenizer, const nlohmann::json& line) {
  if (line.contains("decode")) {
    const auto ids = line["decode"].get<Ids>();
    const std::string text = tokenizer.decode(ids, true);
    millrace::Detokenizer detokenizer(tokenizer, {}, true);
    std::string streamed;
    for (const TokenId id : ids) {
      streamed += detokenizer.push(id);
    }
    streamed += detokenizer.flush();
    const auto expected = line["text"].get<std::string>();
    if (text == expected && streamed == expected) {
      return "";
    }
    return fmt::format("decode {}\n  reference {}\n  ours      {}\n  streamed  {}",
                       line["decode"].dump(),
                       line["text"].dump(),
                       nlohmann::json(text).dump(),
                       nlohmann::json(streamed).dump());
  }
  const auto expected = line["ids"].get<Ids>();
  const bool is_special = line.contains("special");
  std::string text;
  if (line.contains("bytes")) {
    text = from_base64(line["bytes"].get<std::string>());
  } else {
    text = line[is_special ? "special" : "text"].get<std::string>();
  }
  const Ids ids = tokenizer.encode(text, is_special, true);
  if (ids == expected) {
    return "";
  }
  return fmt::format("{}\n  reference [{}]\n  ours      [{}]",
                     line.dump(),
                     fmt::join(expected, ","),
                     fmt::join(ids, ","));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: compare_ids FOLDER < lines\n";
    return 2;
  }
  auto spec = millrace::load_tokenizer_json(argv[1]);
  if (!spec) {
    std::cerr << spec.error().message << '\n';
    return 1;
  }
  const auto tokenizer = millrace::Tokenizer::create(std::move(*spec));
  if (!tokenizer) {
    std::cerr << tokenizer.error().message << '\n';
    return 1;
  }
  int n_lines = 0, n_different = 0;
  for (std::string text; std::getline(std::cin, text); ++n_lines) {
    const std::string difference = check_line(*tokenizer, nlohmann::json::parse(text));
    if (!difference.empty() && ++n_different <= 5) {
      std::cout << difference << '\n';
    }
  }
  fmt::print("{} lines, {} differences\n", n_lines, n_different);
  return n_lines == 0 || n_different > 0 ? 1 : 0;
}
