#include "text/tokenizer_spec.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "base/log.h"
#include "text/gguf_pre_tokenizers.h"

namespace millrace {
namespace {

// Spellings that end a turn or a text in the families we know.
constexpr std::string_view kEndOfTurn[] = {
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|end_of_turn|>",
    "<end_of_turn>",
    "<|eot|>",
    "<EOT>",
    "_<EOT>",
    "<\uFF5Cend\u2581of\u2581sentence\uFF5C>",
    "<end_of_utterance>",
    "<|END_OF_TURN_TOKEN|>",
};

Result<TokenId> id_of(std::optional<int64_t> value, std::size_t n_tokens, const char* key) {
  if (!value) {
    return kNoToken;
  }
  // Writers put 2^32 - 1 for "none".
  if (*value < 0 || *value == std::numeric_limits<uint32_t>::max()) {
    return kNoToken;
  }
  if (static_cast<uint64_t>(*value) >= n_tokens) {
    return fail(ErrorCode::kCorrupt, "[tokenizer] {} is {}, of {} tokens", key, *value, n_tokens);
  }
  return static_cast<TokenId>(*value);
}

Result<void> copy_tokens(const GgufTokenizerFields& fields, TokenizerSpec& spec) {
  const std::size_t n = fields.tokens.size();
  spec.tokens.assign(fields.tokens.begin(), fields.tokens.end());
  if (fields.token_types.empty()) {
    spec.types.assign(n, TokenType::kNormal);
    return {};
  }
  if (fields.token_types.size() != n) {
    return fail(ErrorCode::kCorrupt,
                "[tokenizer] tokenizer.ggml.token_type has {} values for {} tokens",
                fields.token_types.size(),
                n);
  }
  for (std::size_t id = 0; id < n; ++id) {
    const int32_t type = fields.token_types[id];
    if (type < 0 || type > static_cast<int32_t>(TokenType::kByte)) {
      return fail(ErrorCode::kCorrupt, "[tokenizer] token {} has type {}", id, type);
    }
    // 0 is "undefined", which some writers use for ordinary tokens.
    spec.types.push_back(type == 0 ? TokenType::kNormal : static_cast<TokenType>(type));
    const bool is_searched = spec.types[id] == TokenType::kControl ||
                             spec.types[id] == TokenType::kUnknown ||
                             spec.types[id] == TokenType::kUserDefined;
    if (is_searched) {
      AddedToken added;
      added.id = static_cast<TokenId>(id);
      added.text = spec.tokens[id];
      spec.added_tokens.push_back(std::move(added));
    }
  }
  return {};
}

Result<void> copy_ids(const GgufTokenizerFields& fields, TokenizerSpec& spec) {
  struct Field {
    std::optional<int64_t> value;
    const char* key;
    TokenId* id;
  };
  TokenId eot = kNoToken, eom = kNoToken;
  for (const Field& field :
       {Field{fields.bos, "tokenizer.ggml.bos_token_id", &spec.bos},
        Field{fields.eos, "tokenizer.ggml.eos_token_id", &spec.eos},
        Field{fields.eot, "tokenizer.ggml.eot_token_id", &eot},
        Field{fields.eom, "tokenizer.ggml.eom_token_id", &eom},
        Field{fields.unknown, "tokenizer.ggml.unknown_token_id", &spec.unknown},
        Field{fields.padding, "tokenizer.ggml.padding_token_id", &spec.padding}}) {
    const Result<TokenId> id = id_of(field.value, spec.tokens.size(), field.key);
    if (!id) {
      return propagate(id);
    }
    *field.id = *id;
  }
  const TokenId declared[] = {spec.eos, eot, eom};
  spec.end_of_generation = find_end_of_generation(spec.tokens, spec.types, declared);
  return {};
}

Result<void> fill_byte_level(const GgufTokenizerFields& fields, TokenizerSpec& spec) {
  spec.kind = TokenizerSpec::Kind::kByteLevelBpe;
  std::string pre = fields.pre;
  if (pre.empty()) {
    log_warning("[tokenizer] tokenizer.ggml.pre is missing, the file is old: using \"default\"");
    pre = "default";
  }
  Result<GgufPreTokenizer> found = find_gguf_pre_tokenizer(pre);
  if (!found) {
    return propagate(found);
  }
  spec.normalizers = std::move(found->normalizers);
  spec.pre_tokenizers = std::move(found->pre_tokenizers);
  spec.ignores_merges = found->ignores_merges;
  for (std::size_t i = 0; i < fields.merges.size(); ++i) {
    const std::string_view merge = fields.merges[i];
    const std::size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos) {
      return fail(ErrorCode::kCorrupt, "[tokenizer] merge {} is \"{}\", without a space", i, merge);
    }
    spec.merges.push_back(
        {std::string(merge.substr(0, space)), std::string(merge.substr(space + 1))});
  }
  if (spec.bos != kNoToken && fields.add_bos.value_or(found->adds_bos)) {
    spec.prefix.push_back(spec.bos);
  }
  return {};
}

void fill_sentence_piece(const GgufTokenizerFields& fields, TokenizerSpec& spec) {
  spec.kind = TokenizerSpec::Kind::kSentencePieceBpe;
  spec.scores = fields.scores;
  const bool add_space = fields.add_space_prefix.value_or(true);
  if (add_space) {
    spec.normalizers.push_back({NormalizerStep::Kind::kPrepend, {}, "\u2581"});
  }
  spec.normalizers.push_back({NormalizerStep::Kind::kReplace, " ", "\u2581"});
  spec.strips_leading_space = add_space;
  if (spec.bos != kNoToken && fields.add_bos.value_or(true)) {
    spec.prefix.push_back(spec.bos);
  }
}

}  // namespace

std::vector<TokenId> find_end_of_generation(std::span<const std::string> tokens,
                                            std::span<const TokenType> types,
                                            std::span<const TokenId> declared) {
  std::vector<TokenId> ids;
  std::copy_if(declared.begin(), declared.end(), std::back_inserter(ids), [](TokenId id) {
    return id >= 0;
  });
  TokenId end = kNoToken;
  bool has_return = false, has_call = false;
  for (std::size_t id = 0; id < tokens.size() && id < types.size(); ++id) {
    const bool is_special =
        types[id] == TokenType::kControl || types[id] == TokenType::kUserDefined;
    if (!is_special || std::find(std::begin(kEndOfTurn), std::end(kEndOfTurn), tokens[id]) ==
                           std::end(kEndOfTurn)) {
      continue;
    }
    ids.push_back(static_cast<TokenId>(id));
    end = tokens[id] == "<|end|>" ? ids.back() : end;
    has_return = has_return || tokens[id] == "<|return|>";
    has_call = has_call || tokens[id] == "<|call|>";
  }
  // In gpt-oss's format <|end|> only ends a channel; the answer goes on after it.
  if (has_return && has_call) {
    std::erase(ids, end);
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

Result<TokenizerSpec> tokenizer_spec_from_gguf_fields(const GgufTokenizerFields& fields) {
  TokenizerSpec spec;
  const Result<void> tokens = copy_tokens(fields, spec);
  if (!tokens) {
    return propagate(tokens);
  }
  const Result<void> ids = copy_ids(fields, spec);
  if (!ids) {
    return propagate(ids);
  }
  if (fields.model == "gpt2") {
    const Result<void> filled = fill_byte_level(fields, spec);
    if (!filled) {
      return propagate(filled);
    }
  } else if (fields.model == "llama") {
    fill_sentence_piece(fields, spec);
  } else {
    return fail(ErrorCode::kUnsupported,
                "[tokenizer] model \"{}\" (tokenizer.ggml.model) is not supported",
                fields.model);
  }
  if (spec.eos != kNoToken && fields.add_eos.value_or(false)) {
    spec.suffix.push_back(spec.eos);
  }
  return spec;
}

}  // namespace millrace
