#include "text/gguf_pre_tokenizers.h"

#include <algorithm>
#include <array>
#include <string>

namespace millrace {

namespace {

constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kQwen2 = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
                                    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kDeepSeekCjk =
    R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
constexpr std::string_view kDeepSeek =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)"
    R"(|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kFalconPunctuation = R"([\p{P}\$\+<=>\^~\|`]+)";
constexpr std::string_view kThreeDigits = "[0-9][0-9][0-9]";

// One family: the patterns are applied one after the other, each within the pieces of the last.
struct Family {
  std::array<std::string_view, 12> names;
  std::array<std::string_view, 4> patterns;
  bool ignores_merges = false;
  bool adds_bos = false;
  bool is_nfc = false;
};

// Facts from llama.cpp's vocabulary loader, with the patterns of the original tokenizers where
// llama.cpp approximates them (tekken, gpt-4o) and NFC where the original has it (qwen2).
constexpr Family kFamilies[] = {
    {.names = {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral"},
     .patterns = {kLlama3},
     .ignores_merges = true,
     .adds_bos = true},
    {.names = {"qwen2", "deepseek-r1-qwen", "megrez"}, .patterns = {kQwen2}, .is_nfc = true},
    {.names = {"deepseek-v3"}, .patterns = {R"(\p{N}{1,3})", kDeepSeekCjk, kDeepSeek}},
    {.names = {"tekken"}, .patterns = {kTekken}, .ignores_merges = true, .adds_bos = true},
    {.names = {"gpt-4o", "llama4"}, .patterns = {kO200k}, .ignores_merges = true},
    {.names = {"gpt-2", "gpt2", "phi-2", "mpt", "olmo", "gigachat"}, .patterns = {kGpt2Pattern}},
    {.names = {"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"},
     .patterns = {R"(\p{N})", kGpt2Pattern}},
    {.names = {"falcon"}, .patterns = {kFalconPunctuation, kGpt2Pattern, kThreeDigits}},
    {.names = {"default"},
     .patterns = {kFalconPunctuation, kGpt2Pattern, R"(\p{N}+)", kThreeDigits}},
};

}  // namespace

Result<GgufPreTokenizer> find_gguf_pre_tokenizer(std::string_view name) {
  for (const Family& family : kFamilies) {
    const bool is_named =
        std::find(family.names.begin(), family.names.end(), name) != family.names.end();
    if (!is_named || name.empty()) {
      continue;
    }
    GgufPreTokenizer found;
    found.ignores_merges = family.ignores_merges;
    found.adds_bos = family.adds_bos;
    if (family.is_nfc) {
      found.normalizers.push_back({NormalizerStep::Kind::kNfc, {}, {}});
    }
    for (const std::string_view pattern : family.patterns) {
      if (!pattern.empty()) {
        PreTokenizerStep step;
        step.pattern = pattern;
        found.pre_tokenizers.push_back(std::move(step));
      }
    }
    return found;
  }
  return fail(ErrorCode::kUnsupported,
              "[tokenizer] pre-tokenizer \"{}\" (tokenizer.ggml.pre) is not supported",
              name);
}

}  // namespace millrace
