#include "text/tokenizer_json.h"

#include <simdjson.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <utility>

#include "text/tokenizer_json_steps.h"

namespace millrace {
namespace {

namespace dom = simdjson::dom;

constexpr int64_t kMaxId = (1 << 22) - 1;  // sixteen times the largest vocabulary known

tl::unexpected<Error> corrupt(std::string_view what) {
  return fail(ErrorCode::kCorrupt, "[tokenizer.json] {}", what);
}

bool get_bool(const dom::element& object, std::string_view key, bool fallback) {
  bool value = fallback;
  return object[key].get(value) == simdjson::SUCCESS ? value : fallback;
}

std::string_view get_string(const dom::element& object, std::string_view key) {
  std::string_view value;
  return object[key].get(value) == simdjson::SUCCESS ? value : std::string_view();
}

Result<TokenId> get_id(const dom::element& value) {
  int64_t id = -1;
  if (value.get(id) != simdjson::SUCCESS || id < 0 || id > kMaxId) {
    return corrupt("a token id is not a number from 0 to 4194303");
  }
  return static_cast<TokenId>(id);
}

void set_token(TokenizerSpec& spec, TokenId id, std::string_view text, TokenType type) {
  if (static_cast<std::size_t>(id) >= spec.tokens.size()) {
    spec.tokens.resize(id + 1);
    spec.types.resize(id + 1, TokenType::kUnused);
  }
  spec.tokens[id] = text;
  spec.types[id] = type;
}

bool is_byte_token(std::string_view text) {
  return text.size() == 6 && text.starts_with("<0x") && text.ends_with('>');
}

Result<void> read_vocabulary(const dom::element& model, TokenizerSpec& spec) {
  dom::object vocabulary;
  if (model["vocab"].get(vocabulary) != simdjson::SUCCESS) {
    return corrupt("model.vocab is not an object");
  }
  spec.tokens.reserve(vocabulary.size());
  spec.types.reserve(vocabulary.size());
  const bool has_byte_fallback = get_bool(model, "byte_fallback", false);
  for (const auto& [text, value] : vocabulary) {
    const Result<TokenId> id = get_id(value);
    if (!id) {
      return propagate(id);
    }
    const bool is_byte = has_byte_fallback && is_byte_token(text);
    set_token(spec, *id, text, is_byte ? TokenType::kByte : TokenType::kNormal);
  }
  return {};
}

Result<Merge> read_merge(const dom::element& entry) {
  std::string_view text;
  if (entry.get(text) == simdjson::SUCCESS) {
    const std::size_t space = text.find(' ');
    if (space == std::string_view::npos) {
      return corrupt("a merge has no space");
    }
    return Merge{std::string(text.substr(0, space)), std::string(text.substr(space + 1))};
  }
  dom::array pair;
  std::string_view left, right;
  if (entry.get(pair) != simdjson::SUCCESS || pair.size() != 2 ||
      pair.at(0).get(left) != simdjson::SUCCESS || pair.at(1).get(right) != simdjson::SUCCESS) {
    return corrupt("a merge is neither a string nor a pair of strings");
  }
  return Merge{std::string(left), std::string(right)};
}

Result<void> read_model(const dom::element& document, TokenizerSpec& spec) {
  dom::element model;
  if (document["model"].get(model) != simdjson::SUCCESS || !model.is_object()) {
    return corrupt("there is no model");
  }
  const std::string_view type = get_string(model, "type");
  // Old files leave the type out; then only BPE has merges.
  dom::array merges;
  const bool has_merges = model["merges"].get(merges) == simdjson::SUCCESS;
  if (type != "BPE" && !(type.empty() && has_merges)) {
    return fail(ErrorCode::kUnsupported, "[tokenizer.json] model \"{}\" is not supported", type);
  }
  if (!has_merges) {
    return corrupt("model.merges is not a list");
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!get_string(model, key).empty()) {
      return fail(ErrorCode::kUnsupported, "[tokenizer.json] model.{} is not supported", key);
    }
  }
  double dropout = 0;
  if (model["dropout"].get(dropout) == simdjson::SUCCESS && dropout > 0) {
    return fail(ErrorCode::kUnsupported, "[tokenizer.json] model.dropout is not supported");
  }
  const Result<void> vocabulary = read_vocabulary(model, spec);
  if (!vocabulary) {
    return vocabulary;
  }
  spec.merges.reserve(merges.size());
  for (const dom::element& entry : merges) {
    Result<Merge> merge = read_merge(entry);
    if (!merge) {
      return propagate(merge);
    }
    spec.merges.push_back(std::move(*merge));
  }
  spec.ignores_merges = get_bool(model, "ignore_merges", false);
  spec.fuses_unknown = get_bool(model, "fuse_unk", false);
  const auto unknown =
      std::find(spec.tokens.begin(), spec.tokens.end(), get_string(model, "unk_token"));
  if (unknown != spec.tokens.end() && !unknown->empty()) {
    spec.unknown = static_cast<TokenId>(unknown - spec.tokens.begin());
  }
  return {};
}

// Some files forget the flag on tokens that plainly are control tokens, and llama.cpp's converter
// takes them for such by their looks; so do we, or input could forge them.
bool looks_like_control(std::string_view text) {
  return (text.starts_with("<|") && text.ends_with("|>")) ||
         (text.starts_with("<\uFF5C") && text.ends_with("\uFF5C>")) ||
         (text.starts_with("<unused") && text.ends_with('>')) || text == "<pad>" ||
         text == "<mask>" || text == "<2mass>" || text == "[@BOS@]";
}

Result<void> read_added_tokens(const dom::element& document, TokenizerSpec& spec) {
  dom::array added;
  if (document["added_tokens"].get(added) != simdjson::SUCCESS) {
    return {};
  }
  for (const dom::element& entry : added) {
    dom::element id_value;
    std::string_view text;
    if (entry["id"].get(id_value) != simdjson::SUCCESS ||
        entry["content"].get(text) != simdjson::SUCCESS) {
      return corrupt("an added token has no id or no content");
    }
    const Result<TokenId> id = get_id(id_value);
    if (!id) {
      return propagate(id);
    }
    const bool is_special = get_bool(entry, "special", false);
    AddedToken token;
    token.id = *id;
    token.text = text;
    token.strips_left = get_bool(entry, "lstrip", false);
    token.strips_right = get_bool(entry, "rstrip", false);
    token.is_single_word = get_bool(entry, "single_word", false);
    token.is_normalized = get_bool(entry, "normalized", !is_special);
    const bool is_control = is_special || looks_like_control(text);
    set_token(spec, *id, text, is_control ? TokenType::kControl : TokenType::kUserDefined);
    spec.added_tokens.push_back(std::move(token));
  }
  return {};
}

// "bos_token" is a string or an object with the string in "content".
TokenId named_token(const dom::element& config, std::string_view key, const TokenizerSpec& spec) {
  std::string_view text = get_string(config, key);
  if (text.empty()) {
    dom::element value;
    if (config[key].get(value) == simdjson::SUCCESS) {
      text = get_string(value, "content");
    }
  }
  const auto token = std::find(spec.tokens.begin(), spec.tokens.end(), text);
  return text.empty() || token == spec.tokens.end()
             ? kNoToken
             : static_cast<TokenId>(token - spec.tokens.begin());
}

// The configuration may ask for or forbid BOS and EOS apart from the post-processor.
void apply_add_token(const dom::element& config,
                     std::string_view key,
                     TokenId id,
                     std::vector<TokenId>& list) {
  bool wants = false;
  if (id == kNoToken || config[key].get(wants) != simdjson::SUCCESS) {
    return;
  }
  const auto place = std::find(list.begin(), list.end(), id);
  if (wants && place == list.end()) {
    list.insert(list.begin(), id);
  } else if (!wants && place != list.end()) {
    list.erase(place);
  }
}

// Files say "model_max_length": 1000000000000000019884624838656, and simdjson refuses integers over
// 64 bits. An exponent makes them floating-point numbers.
std::string make_long_integers_floats(std::string_view text) {
  constexpr std::size_t kSafeDigits = 18;
  std::string out;
  std::size_t n_digits = 0;
  bool is_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (!is_string && c >= '0' && c <= '9') {
      ++n_digits;
    } else {
      if (n_digits > kSafeDigits && c != '.' && c != 'e' && c != 'E') {
        out += "e0";
      }
      n_digits = 0;
    }
    out.push_back(c);
    if (is_string && c == '\\' && i + 1 < text.size()) {
      out.push_back(text[++i]);
    } else if (c == '"') {
      is_string = !is_string;
    }
  }
  return out;
}

Result<void> read_config(std::string_view text, TokenizerSpec& spec) {
  dom::parser parser;
  dom::element config;
  if (text.empty()) {
    return {};
  }
  if (parser.parse(make_long_integers_floats(text)).get(config) != simdjson::SUCCESS ||
      !config.is_object()) {
    return fail(ErrorCode::kCorrupt, "[tokenizer_config.json] is not a JSON object");
  }
  spec.bos = named_token(config, "bos_token", spec);
  spec.eos = named_token(config, "eos_token", spec);
  spec.padding = named_token(config, "pad_token", spec);
  apply_add_token(config, "add_bos_token", spec.bos, spec.prefix);
  apply_add_token(config, "add_eos_token", spec.eos, spec.suffix);
  return {};
}

// "eos_token_id": a number or a list of numbers.
Result<void> read_declared_ends(std::string_view text,
                                const char* file,
                                std::vector<TokenId>& declared) {
  dom::parser parser;
  dom::element config, eos;
  if (text.empty()) {
    return {};
  }
  if (parser.parse(text.data(), text.size()).get(config) != simdjson::SUCCESS) {
    return fail(ErrorCode::kCorrupt, "[{}] is not JSON", file);
  }
  if (config["eos_token_id"].get(eos) != simdjson::SUCCESS) {
    return {};
  }
  dom::array list;
  if (eos.get(list) != simdjson::SUCCESS) {
    const Result<TokenId> id = get_id(eos);
    declared.push_back(id.value_or(kNoToken));
    return {};
  }
  for (const dom::element& value : list) {
    declared.push_back(get_id(value).value_or(kNoToken));
  }
  return {};
}

Result<std::string> read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) {
    return fail(ErrorCode::kNotFound, "[tokenizer] cannot read {}", path.string());
  }
  return std::move(text).str();
}

}  // namespace

Result<TokenizerSpec> parse_tokenizer_json(std::string_view tokenizer_json,
                                           std::string_view tokenizer_config,
                                           std::string_view generation_config,
                                           std::string_view model_config) {
  dom::parser parser;
  dom::element document;
  const simdjson::error_code error =
      parser.parse(tokenizer_json.data(), tokenizer_json.size()).get(document);
  if (error != simdjson::SUCCESS || !document.is_object()) {
    return corrupt(error != simdjson::SUCCESS ? simdjson::error_message(error)
                                              : "the document is not an object");
  }
  TokenizerSpec spec;
  std::vector<TokenId> declared;
  for (const auto& step : {read_model, read_added_tokens, read_tokenizer_steps}) {
    const Result<void> done = step(document, spec);
    if (!done) {
      return propagate(done);
    }
  }
  const Result<void> config = read_config(tokenizer_config, spec);
  if (!config) {
    return propagate(config);
  }
  for (const auto& [text, file] : {std::pair(generation_config, "generation_config.json"),
                                   std::pair(model_config, "config.json")}) {
    const Result<void> read = read_declared_ends(text, file, declared);
    if (!read) {
      return propagate(read);
    }
    if (std::any_of(declared.begin(), declared.end(), [](TokenId id) { return id >= 0; })) {
      break;
    }
  }
  declared.push_back(spec.eos);
  std::erase_if(declared,
                [&](TokenId id) { return id >= static_cast<TokenId>(spec.tokens.size()); });
  spec.end_of_generation = find_end_of_generation(spec.tokens, spec.types, declared);
  return spec;
}

Result<TokenizerSpec> load_tokenizer_json(const std::string& path) {
  std::filesystem::path file = path;
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) {
    file /= "tokenizer.json";
  }
  const Result<std::string> tokenizer = read_file(file);
  if (!tokenizer) {
    return propagate(tokenizer);
  }
  const auto optional_file = [&](const char* name) {
    return read_file(file.parent_path() / name).value_or(std::string());
  };
  Result<TokenizerSpec> spec = parse_tokenizer_json(*tokenizer,
                                                    optional_file("tokenizer_config.json"),
                                                    optional_file("generation_config.json"),
                                                    optional_file("config.json"));
  if (!spec) {
    return fail(spec.error().code, "{}: {}", file.string(), spec.error().message);
  }
  return spec;
}

}  // namespace millrace
