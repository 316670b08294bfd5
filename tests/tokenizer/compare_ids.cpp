// Compares our tokenizer with the lines of reference_ids.mjs on standard input.
//
//   compare_ids FOLDER [PRE] < lines   exit status 1 and the first differences when there are any
//
// With PRE the tokenizer is not made from the JSON file but from the GGUF fields a converter would
// write for it: PRE is tokenizer.ggml.pre, or "llama" for a SentencePiece model, whose merges then
// become scores: the rank of the first merge that makes the token.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
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

// The spec must outlive the fields.
millrace::GgufTokenizerFields to_gguf(const millrace::TokenizerSpec& spec,
                                      const std::string& pre,
                                      std::vector<std::string>& merges) {
  millrace::GgufTokenizerFields fields;
  fields.model = pre == "llama" ? "llama" : "gpt2";
  fields.pre = pre;
  fields.tokens.assign(spec.tokens.begin(), spec.tokens.end());
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) {
    fields.token_types.push_back(static_cast<int32_t>(spec.types[id]));
  }
  std::unordered_map<std::string, float> scores;
  for (const millrace::Merge& merge : spec.merges) {
    merges.push_back(merge.left + " " + merge.right);
    scores.emplace(merge.left + merge.right, -static_cast<float>(merges.size()));
  }
  for (const std::string& token : spec.tokens) {
    const auto score = scores.find(token);
    fields.scores.push_back(score == scores.end() ? -1e9f : score->second);
  }
  if (pre != "llama") {
    fields.merges.assign(merges.begin(), merges.end());
  }
  const auto set = [](std::optional<int64_t>& field, TokenId id) {
    if (id != millrace::kNoToken) {
      field = id;
    }
  };
  set(fields.bos, spec.bos);
  set(fields.eos, spec.eos);
  set(fields.unknown, spec.unknown);
  set(fields.padding, spec.padding);
  fields.add_bos = !spec.prefix.empty();
  fields.add_space_prefix = spec.strips_leading_space;
  return fields;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::cerr << "usage: compare_ids FOLDER [PRE] < lines\n";
    return 2;
  }
  auto spec = millrace::load_tokenizer_json(argv[1]);
  if (!spec) {
    std::cerr << spec.error().message << '\n';
    return 1;
  }
  if (argc == 3) {
    const millrace::TokenizerSpec from_json = std::move(*spec);
    std::vector<std::string> merges;
    spec = millrace::tokenizer_spec_from_gguf_fields(to_gguf(from_json, argv[2], merges));
    if (!spec) {
      std::cerr << spec.error().message << '\n';
      return 1;
    }
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
