#include "text/tokenizer_json_steps.h"

#include <string>
#include <string_view>

#include "text/gguf_pre_tokenizers.h"
#include "text/split_regex.h"

namespace millrace {
namespace {

namespace dom = simdjson::dom;

constexpr std::string_view kPunctuation = R"([!-\/:-@\[-`{-~\p{P}])";
constexpr int kMaxDepth = 16;  // of sequences in sequences

// A member that is an object, or nothing when it is absent or null.
bool get_object(const dom::element& parent, std::string_view key, dom::element& child) {
  return parent[key].get(child) == simdjson::SUCCESS && child.is_object();
}

std::string_view get_string(const dom::element& object, std::string_view key) {
  std::string_view value;
  return object[key].get(value) == simdjson::SUCCESS ? value : std::string_view();
}

bool get_bool(const dom::element& object, std::string_view key, bool fallback) {
  bool value = fallback;
  return object[key].get(value) == simdjson::SUCCESS ? value : fallback;
}

tl::unexpected<Error> unsupported(std::string_view what, std::string_view name) {
  return fail(ErrorCode::kUnsupported, "[tokenizer.json] {} \"{}\" is not supported", what, name);
}

// Calls take(child) for the members of a Sequence.
template <class Take>
Result<void> for_each_child(const dom::element& sequence, std::string_view key, const Take& take) {
  dom::array children;
  if (sequence[key].get(children) != simdjson::SUCCESS) {
    return fail(ErrorCode::kCorrupt, "[tokenizer.json] a Sequence has no {}", key);
  }
  for (const dom::element& child : children) {
    const Result<void> taken = take(child);
    if (!taken) {
      return taken;
    }
  }
  return {};
}

Result<void> read_normalizer(const dom::element& node, int depth, TokenizerSpec& spec) {
  const std::string_view type = get_string(node, "type");
  if (type == "Sequence" && depth < kMaxDepth) {
    return for_each_child(node, "normalizers", [&](const dom::element& child) {
      return read_normalizer(child, depth + 1, spec);
    });
  }
  NormalizerStep step;
  if (type == "NFC") {
    step.kind = NormalizerStep::Kind::kNfc;
  } else if (type == "NFKC") {
    step.kind = NormalizerStep::Kind::kNfkc;
  } else if (type == "Prepend") {
    step.kind = NormalizerStep::Kind::kPrepend;
    step.content = get_string(node, "prepend");
  } else if (type == "Replace") {
    dom::element pattern;
    step.kind = NormalizerStep::Kind::kReplace;
    if (get_object(node, "pattern", pattern)) {
      step.pattern = get_string(pattern, "String");
    }
    step.content = get_string(node, "content");
    if (step.pattern.empty()) {
      return unsupported("normalizer", "Replace with a Regex");
    }
  } else {
    return unsupported("normalizer", type);
  }
  spec.normalizers.push_back(std::move(step));
  return {};
}

Result<SplitBehavior> read_behavior(const dom::element& node, SplitBehavior fallback) {
  const std::string_view name = get_string(node, "behavior");
  if (name.empty()) {
    return fallback;
  }
  struct Named {
    std::string_view name;
    SplitBehavior behavior;
  };
  for (const Named& known : {Named{"Removed", SplitBehavior::kRemoved},
                             Named{"Isolated", SplitBehavior::kIsolated},
                             Named{"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
                             Named{"MergedWithNext", SplitBehavior::kMergedWithNext},
                             Named{"Contiguous", SplitBehavior::kContiguous}}) {
    if (known.name == name) {
      return known.behavior;
    }
  }
  return unsupported("split behavior", name);
}

void add_split(std::string_view pattern,
               SplitBehavior behavior,
               bool is_inverted,
               TokenizerSpec& spec) {
  PreTokenizerStep step;
  step.pattern = pattern;
  step.behavior = behavior;
  step.is_inverted = is_inverted;
  spec.pre_tokenizers.push_back(std::move(step));
}

Result<void> read_split(const dom::element& node, TokenizerSpec& spec) {
  const Result<SplitBehavior> behavior = read_behavior(node, SplitBehavior::kIsolated);
  if (!behavior) {
    return propagate(behavior);
  }
  dom::element pattern;
  if (!get_object(node, "pattern", pattern)) {
    return fail(ErrorCode::kCorrupt, "[tokenizer.json] a Split has no pattern");
  }
  std::string_view text;
  const bool is_regex = pattern["Regex"].get(text) == simdjson::SUCCESS;
  if (!is_regex && pattern["String"].get(text) != simdjson::SUCCESS) {
    return fail(ErrorCode::kCorrupt, "[tokenizer.json] a Split has neither Regex nor String");
  }
  add_split(is_regex ? std::string(text) : escape_pattern(text),
            *behavior,
            get_bool(node, "invert", false),
            spec);
  return {};
}

void read_byte_level(const dom::element& node, TokenizerSpec& spec) {
  spec.kind = TokenizerSpec::Kind::kByteLevelBpe;
  if (get_bool(node, "add_prefix_space", true)) {
    PreTokenizerStep step;
    step.kind = PreTokenizerStep::Kind::kPrefixSpace;
    spec.pre_tokenizers.push_back(std::move(step));
  }
  if (get_bool(node, "use_regex", true)) {
    add_split(kGpt2Pattern, SplitBehavior::kIsolated, false, spec);
  }
}

Result<void> read_metaspace(const dom::element& node, TokenizerSpec& spec) {
  using Prepend = PreTokenizerStep::Prepend;
  PreTokenizerStep step;
  step.kind = PreTokenizerStep::Kind::kMetaspace;
  const std::string_view replacement = get_string(node, "replacement");
  step.replacement = replacement.empty() ? "\u2581" : replacement;
  std::string_view scheme = get_string(node, "prepend_scheme");
  if (scheme.empty()) {  // files from before the scheme had a flag
    scheme = get_bool(node, "add_prefix_space", true) ? "always" : "never";
  }
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    return unsupported("Metaspace prepend_scheme", scheme);
  }
  step.prepend = scheme == "always"  ? Prepend::kAlways
                 : scheme == "first" ? Prepend::kFirst
                                     : Prepend::kNever;
  const std::string mark = escape_pattern(step.replacement);
  spec.pre_tokenizers.push_back(std::move(step));
  if (get_bool(node, "split", true)) {
    add_split(mark, SplitBehavior::kMergedWithNext, false, spec);
  }
  return {};
}

Result<void> read_pre_tokenizer(const dom::element& node, int depth, TokenizerSpec& spec) {
  const std::string_view type = get_string(node, "type");
  if (type == "Sequence" && depth < kMaxDepth) {
    return for_each_child(node, "pretokenizers", [&](const dom::element& child) {
      return read_pre_tokenizer(child, depth + 1, spec);
    });
  }
  if (type == "Split") {
    return read_split(node, spec);
  }
  if (type == "Metaspace") {
    return read_metaspace(node, spec);
  }
  if (type == "ByteLevel") {
    read_byte_level(node, spec);
  } else if (type == "Digits") {
    const bool is_single = get_bool(node, "individual_digits", false);
    add_split(is_single ? R"(\p{N})" : R"(\p{N}+)", SplitBehavior::kIsolated, false, spec);
  } else if (type == "Punctuation") {
    const Result<SplitBehavior> behavior = read_behavior(node, SplitBehavior::kIsolated);
    if (!behavior) {
      return propagate(behavior);
    }
    add_split(kPunctuation, *behavior, false, spec);
  } else if (type == "Whitespace") {
    add_split(R"(\w+|[^\w\s]+)", SplitBehavior::kRemoved, true, spec);
  } else if (type == "WhitespaceSplit") {
    add_split(R"(\s+)", SplitBehavior::kRemoved, false, spec);
  } else {
    return unsupported("pre_tokenizer", type);
  }
  return {};
}

Result<TokenId> template_id(const dom::element& processor, std::string_view name) {
  dom::element ids;
  dom::array list;
  int64_t id = -1;
  // Names hold characters that mean something in a JSON pointer, so the members are looked up one
  // by one.
  if (processor["special_tokens"][name]["ids"].get(list) != simdjson::SUCCESS || list.size() != 1 ||
      list.at(0).get(id) != simdjson::SUCCESS || id < 0 || id > INT32_MAX) {
    return fail(ErrorCode::kCorrupt, "[tokenizer.json] special token \"{}\" has no one id", name);
  }
  return static_cast<TokenId>(id);
}

Result<void> read_template(const dom::element& node, TokenizerSpec& spec) {
  std::vector<TokenId>* side = &spec.prefix;
  return for_each_child(node, "single", [&](const dom::element& part) -> Result<void> {
    dom::element token;
    if (get_object(part, "Sequence", token)) {
      side = &spec.suffix;
      return {};
    }
    if (!get_object(part, "SpecialToken", token)) {
      return fail(ErrorCode::kCorrupt, "[tokenizer.json] a template part is of an unknown kind");
    }
    const Result<TokenId> id = template_id(node, get_string(token, "id"));
    if (!id) {
      return propagate(id);
    }
    side->push_back(*id);
    return {};
  });
}

Result<void> read_post_processor(const dom::element& node, int depth, TokenizerSpec& spec) {
  const std::string_view type = get_string(node, "type");
  if (type == "Sequence" && depth < kMaxDepth) {
    return for_each_child(node, "processors", [&](const dom::element& child) {
      return read_post_processor(child, depth + 1, spec);
    });
  }
  if (type == "TemplateProcessing") {
    return read_template(node, spec);
  }
  if (type == "ByteLevel") {  // moves offsets, which we do not give
    return {};
  }
  return unsupported("post_processor", type);
}

// What decoding does is fixed by `kind`; a decoder that does anything else is refused.
Result<void> read_decoder(const dom::element& node, int depth, TokenizerSpec& spec) {
  const std::string_view type = get_string(node, "type");
  if (type == "Sequence" && depth < kMaxDepth) {
    return for_each_child(node, "decoders", [&](const dom::element& child) {
      return read_decoder(child, depth + 1, spec);
    });
  }
  if (type == "ByteLevel") {
    spec.kind = TokenizerSpec::Kind::kByteLevelBpe;
    return {};
  }
  if (type == "ByteFallback" || type == "Fuse") {
    return {};
  }
  if (type == "Metaspace") {
    const std::string_view scheme = get_string(node, "prepend_scheme");
    spec.strips_leading_space = scheme != "never" && get_bool(node, "add_prefix_space", true);
    return {};
  }
  if (type == "Replace") {
    dom::element pattern;
    if (get_object(node, "pattern", pattern) && get_string(pattern, "String") == "\u2581" &&
        get_string(node, "content") == " ") {
      return {};
    }
  }
  if (type == "Strip" && get_string(node, "content") == " ") {
    int64_t start = 0, stop = 0;
    if (node["start"].get(start) == simdjson::SUCCESS &&
        node["stop"].get(stop) == simdjson::SUCCESS && start <= 1 && stop == 0) {
      spec.strips_leading_space = start == 1;
      return {};
    }
  }
  return unsupported("decoder", type);
}

}  // namespace

Result<void> read_tokenizer_steps(const dom::element& document, TokenizerSpec& spec) {
  spec.kind = TokenizerSpec::Kind::kSentencePieceBpe;  // until a ByteLevel is met
  struct Section {
    const char* key;
    Result<void> (*read)(const dom::element&, int, TokenizerSpec&);
  };
  for (const Section& section : {Section{"normalizer", read_normalizer},
                                 Section{"pre_tokenizer", read_pre_tokenizer},
                                 Section{"post_processor", read_post_processor},
                                 Section{"decoder", read_decoder}}) {
    dom::element node;
    if (get_object(document, section.key, node)) {
      const Result<void> done = section.read(node, 0, spec);
      if (!done) {
        return done;
      }
    }
  }
  return {};
}

}  // namespace millrace
