#include "model/model_spec.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>

#include <fmt/ranges.h>

#include "formats/checkpoint.h"

namespace millrace {
namespace {

enum class Presence : uint8_t { kNever, kOptional, kAlways };

// One row a family: all that distinguishes the dense decoders.
struct Traits {
  const char* architecture;  // general.architecture
  RotaryStyle rotary;
  Presence qkv_bias;
  Presence output_bias;
  Presence qk_norm;
  Presence rope_factors;
};

constexpr Traits kTraits[] = {
    // Llama 2, 3, 3.1, 3.2, Mistral, SmolLM2
    {.architecture = "llama",
     .rotary = RotaryStyle::kAdjacent,
     .qkv_bias = Presence::kOptional,
     .output_bias = Presence::kOptional,
     .qk_norm = Presence::kNever,
     .rope_factors = Presence::kOptional},
    // Qwen 2, 2.5
    {.architecture = "qwen2",
     .rotary = RotaryStyle::kHalfSplit,
     .qkv_bias = Presence::kAlways,
     .output_bias = Presence::kNever,
     .qk_norm = Presence::kNever,
     .rope_factors = Presence::kNever},
    {.architecture = "qwen3",
     .rotary = RotaryStyle::kHalfSplit,
     .qkv_bias = Presence::kNever,
     .output_bias = Presence::kNever,
     .qk_norm = Presence::kAlways,
     .rope_factors = Presence::kNever},
};

// Keys that change the computation in a way this decoder does not do, unless they have the neutral
// value: to ignore one would be to answer with the wrong model.
struct RefusedKey {
  const char* suffix;
  double neutral;
  const char* feature;
};
constexpr RefusedKey kRefusedKeys[] = {
    {"expert_count", 0, "mixture of experts"},
    {"expert_used_count", 0, "mixture of experts"},
    {"attention.scale", 0, "an attention scale other than 1/sqrt(head_dim)"},
    {"attention.clamp_kqv", 0, "clamped q, k and v"},
    {"attention.max_alibi_bias", 0, "ALiBi"},
    {"attention.temperature_scale", 0, "attention temperature"},
    {"attention.kv_lora_rank", 0, "latent attention"},
    {"attention.shared_kv_layers", 0, "shared KV layers"},
    {"attention.causal", 1, "attention that is not causal"},
    {"attn_logit_softcapping", 0, "attention soft-capping"},
    {"final_logit_softcapping", 0, "logit soft-capping"},
    {"logit_scale", 1, "a logit scale"},
    {"embedding_scale", 1, "an embedding scale"},
    {"residual_scale", 1, "a residual scale"},
    {"use_parallel_residual", 0, "parallel residual blocks"},
    {"rope.scaling.yarn_log_multiplier", 0, "a YaRN log multiplier"},
    {"rope.scaling.yarn_ext_factor", 1, "a YaRN extrapolation factor"},
    {"rope.scaling.yarn_attn_factor", 1, "a YaRN attention factor"},
};

// The largest value a hyperparameter may have; products of any three fit 63 bits.
constexpr int64_t kMaxDimension = int64_t{1} << 20;
constexpr int64_t kMaxVocab = int64_t{1} << 24;
constexpr int64_t kMaxContext = int64_t{1} << 30;
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxHeadDim = 512;

class SpecReader {
 public:
  explicit SpecReader(const Checkpoint& file) : file_(file), metadata_(file.metadata()) {}

  Result<ModelSpec> read() {
    if (auto done = read_family(); !done) return propagate(done);
    if (auto done = read_shape(); !done) return propagate(done);
    if (auto done = read_rope(); !done) return propagate(done);
    if (auto done = read_vocabulary(); !done) return propagate(done);
    read_optional_parts();
    if (auto done = refuse_features(); !done) return propagate(done);
    if (auto done = check_tensors(); !done) return propagate(done);
    return spec_;
  }

 private:
  std::string key(std::string_view suffix) const {
    return fmt::format("{}.{}", spec_.architecture, suffix);
  }

  Result<void> read_family() {
    const auto architecture = metadata_.get<std::string_view>("general.architecture");
    if (!architecture) return propagate(architecture);
    const auto* row = std::ranges::find(kTraits, *architecture, &Traits::architecture);
    if (row == std::end(kTraits)) {
      return fail(ErrorCode::kUnsupported,
                  "[model] {}: unknown architecture '{}'; known are {}",
                  file_.name(),
                  *architecture,
                  fmt::join(known_architectures(), ", "));
    }
    traits_ = row;
    spec_.architecture = row->architecture;
    spec_.rope.style = row->rotary;
    const auto name = metadata_.get_or<std::string_view>("general.name", "");
    if (!name) return propagate(name);
    spec_.name = *name;
    return {};
  }

  // An integer in [1, limit]; when the key may be absent, `fallback` is above 0.
  Result<int64_t> dimension(std::string_view suffix, int64_t limit, int64_t fallback = 0) const {
    const auto value = fallback > 0 ? metadata_.get_or<int64_t>(key(suffix), fallback)
                                    : metadata_.get<int64_t>(key(suffix));
    if (!value) return propagate(value);
    if (*value < 1 || *value > limit) {
      return fail(ErrorCode::kCorrupt,
                  "[model] {}: {} is {}, expected 1 to {}",
                  file_.name(),
                  key(suffix),
                  *value,
                  limit);
    }
    return *value;
  }

  Result<void> read_shape() {
    struct Field {
      const char* suffix;
      int64_t limit;
      int* value;
    };
    const Field fields[] = {{"block_count", kMaxLayers, &spec_.n_layers},
                            {"embedding_length", kMaxDimension, &spec_.n_embd},
                            {"feed_forward_length", kMaxDimension, &spec_.n_ff},
                            {"attention.head_count", kMaxDimension, &spec_.n_heads}};
    for (const Field& field : fields) {
      const auto value = dimension(field.suffix, field.limit);
      if (!value) return propagate(value);
      *field.value = static_cast<int>(*value);
    }
    const auto n_kv_heads = dimension("attention.head_count_kv", kMaxDimension, spec_.n_heads);
    if (!n_kv_heads) return propagate(n_kv_heads);
    spec_.n_kv_heads = static_cast<int>(*n_kv_heads);
    const auto context = dimension("context_length", kMaxContext);
    if (!context) return propagate(context);
    spec_.context_length = *context;
    const auto eps = metadata_.get<double>(key("attention.layer_norm_rms_epsilon"));
    if (!eps) return propagate(eps);
    if (!(*eps > 0 && *eps < 1)) {
      return fail(ErrorCode::kCorrupt,
                  "[model] {}: {} is {}, expected a value between 0 and 1",
                  file_.name(),
                  key("attention.layer_norm_rms_epsilon"),
                  *eps);
    }
    spec_.rms_eps = static_cast<float>(*eps);
    return read_head_shape();
  }

  Result<void> read_head_shape() {
    if (spec_.n_heads % spec_.n_kv_heads != 0) {
      return fail(ErrorCode::kCorrupt,
                  "[model] {}: {} query heads are not a multiple of {} KV heads",
                  file_.name(),
                  spec_.n_heads,
                  spec_.n_kv_heads);
    }
    const int64_t implied = std::max(spec_.n_embd / spec_.n_heads, 1);
    const auto head_dim = dimension("attention.key_length", kMaxHeadDim, implied);
    if (!head_dim) return propagate(head_dim);
    const bool is_implied = metadata_.find(key("attention.key_length")) == nullptr;
    if (*head_dim % 2 != 0 || (is_implied && spec_.n_embd % spec_.n_heads != 0)) {
      return fail(ErrorCode::kCorrupt,
                  "[model] {}: {} dims over {} heads give heads of {}, expected an even size",
                  file_.name(),
                  spec_.n_embd,
                  spec_.n_heads,
                  *head_dim);
    }
    spec_.head_dim = static_cast<int>(*head_dim);
    for (const char* suffix : {"attention.value_length", "rope.dimension_count"}) {
      const auto value = dimension(suffix, kMaxHeadDim, *head_dim);
      if (!value) return propagate(value);
      if (*value != *head_dim) {
        return fail(ErrorCode::kUnsupported,
                    "[model] {}: {} is {}, but heads have {} dims; they must be equal",
                    file_.name(),
                    key(suffix),
                    *value,
                    *head_dim);
      }
    }
    if (int64_t{spec_.n_heads} * spec_.head_dim > kMaxDimension) {
      return fail(ErrorCode::kCorrupt,
                  "[model] {}: {} heads of {} dims are more than {}",
                  file_.name(),
                  spec_.n_heads,
                  spec_.head_dim,
                  kMaxDimension);
    }
    return {};
  }

  // A finite value of at least `minimum`.
  Result<double> number(std::string_view suffix, double fallback, double minimum) const {
    const auto value = metadata_.get_or<double>(key(suffix), fallback);
    if (!value) return propagate(value);
    if (!std::isfinite(*value) || *value < minimum) {
      return fail(ErrorCode::kCorrupt,
                  "[model] {}: {} is {}, expected at least {}",
                  file_.name(),
                  key(suffix),
                  *value,
                  minimum);
    }
    return *value;
  }

  Result<void> read_rope() {
    RopeSpec& rope = spec_.rope;
    const auto base = number("rope.freq_base", rope.base, 1.0 + 1e-6);
    if (!base) return propagate(base);
    rope.base = *base;
    // A factor without a type is linear: files from before the type had a key.
    const auto type = metadata_.get_or<std::string_view>(key("rope.scaling.type"), "linear");
    if (!type) return propagate(type);
    const bool has_factor = metadata_.find(key("rope.scaling.factor")) != nullptr;
    const auto factor = number(has_factor ? "rope.scaling.factor" : "rope.scale_linear", 1.0, 0.0);
    if (!factor) return propagate(factor);
    rope.factor = *factor == 0 ? 1.0 : *factor;  // 0 is written for "none"
    if (*type == "none") {
      rope.factor = 1.0;
    } else if (*type == "linear") {
      rope.scaling = rope.factor == 1.0 ? RopeScalingType::kNone : RopeScalingType::kLinear;
    } else if (*type == "yarn") {
      return read_yarn();
    } else {
      return fail(ErrorCode::kUnsupported,
                  "[model] {}: unknown rope scaling '{}'; known are none, linear, yarn",
                  file_.name(),
                  *type);
    }
    return {};
  }

  Result<void> read_yarn() {
    RopeSpec& rope = spec_.rope;
    rope.scaling = RopeScalingType::kYarn;
    const auto original =
        dimension("rope.scaling.original_context_length", kMaxContext, spec_.context_length);
    if (!original) return propagate(original);
    rope.original_context_length = *original;
    const auto attention = number("rope.scaling.attn_factor", 1.0, 0.0);
    if (!attention) return propagate(attention);
    // The magnitude that the YaRN paper fits: 0.1 ln(factor) + 1.
    rope.attention_factor =
        *attention * (rope.factor > 1.0 ? 0.1 * std::log(rope.factor) + 1.0 : 1.0);
    const auto fast = number("rope.scaling.yarn_beta_fast", rope.beta_fast, 1e-6);
    if (!fast) return propagate(fast);
    rope.beta_fast = *fast;
    const auto slow = number("rope.scaling.yarn_beta_slow", rope.beta_slow, 1e-6);
    if (!slow) return propagate(slow);
    rope.beta_slow = *slow;
    return {};
  }

  Result<void> read_vocabulary() {
    const TensorView* embedding = file_.find("token_embd.weight");
    if (embedding == nullptr) {
      return fail(ErrorCode::kCorrupt,
                  "[model] {}: no tensor {}",
                  file_.name(),
                  file_.name_in_file("token_embd.weight"));
    }
    const int64_t n_vocab = embedding->shape[1];
    if (n_vocab < 1 || n_vocab > kMaxVocab) {
      return fail(ErrorCode::kCorrupt,
                  "[model] {}: {} has {} rows, expected 1 to {}",
                  file_.name(),
                  file_.name_in_file("token_embd.weight"),
                  n_vocab,
                  kMaxVocab);
    }
    spec_.n_vocab = static_cast<int>(n_vocab);
    const GgufValue* tokens = metadata_.find("tokenizer.ggml.tokens");
    const uint64_t n_tokens = tokens == nullptr ? 0 : tokens->count;
    if (n_tokens > static_cast<uint64_t>(n_vocab)) {
      return fail(ErrorCode::kCorrupt,
                  "[model] {}: the tokenizer has {} tokens, token_embd.weight {} rows",
                  file_.name(),
                  n_tokens,
                  n_vocab);
    }
    spec_.tokenizer_vocab = static_cast<int>(n_tokens);
    return {};
  }

  bool is_present(Presence presence, std::string_view tensor) const {
    return presence == Presence::kAlways ||
           (presence == Presence::kOptional && file_.find(tensor) != nullptr);
  }

  void read_optional_parts() {
    spec_.is_tied = file_.find("output.weight") == nullptr;
    spec_.has_qkv_bias = is_present(traits_->qkv_bias, "blk.0.attn_q.bias");
    spec_.has_output_bias = is_present(traits_->output_bias, "blk.0.attn_output.bias");
    spec_.has_qk_norm = is_present(traits_->qk_norm, "blk.0.attn_q_norm.weight");
    spec_.rope.has_factors = is_present(traits_->rope_factors, "rope_freqs.weight");
  }

  Result<void> refuse_features() const {
    for (const RefusedKey& row : kRefusedKeys) {
      const GgufValue* value = metadata_.find(key(row.suffix));
      if (value == nullptr) continue;
      double number = 0;
      if (value->type == GgufType::kBool) {
        const auto flag = metadata_.get<bool>(key(row.suffix));
        if (!flag) return propagate(flag);
        number = *flag ? 1 : 0;
      } else {
        const auto read = metadata_.get<double>(key(row.suffix));
        if (!read) return propagate(read);
        number = *read;
      }
      // Writers put 0 for "not used" too.
      if (number != row.neutral && number != 0) return refuse(row.suffix, number, row.feature);
      if (number == 0 && row.suffix == std::string_view("attention.causal")) {
        return refuse(row.suffix, number, row.feature);
      }
    }
    const auto window = metadata_.get_or<int64_t>(key("attention.sliding_window"), 0);
    if (!window) return propagate(window);
    if (*window > 0 && *window < spec_.context_length) {
      return refuse("attention.sliding_window",
                    static_cast<double>(*window),
                    "a sliding window shorter than the context");
    }
    return {};
  }

  tl::unexpected<Error> refuse(const char* suffix, double value, const char* feature) const {
    return fail(ErrorCode::kUnsupported,
                "[model] {}: {} is {}: {} is not supported",
                file_.name(),
                key(suffix),
                value,
                feature);
  }

  Result<void> check_tensors() const {
    std::set<std::string, std::less<>> names;
    for (ExpectedTensor& expected : expected_tensors(spec_)) {
      const TensorView* tensor = file_.find(expected.name);
      if (tensor == nullptr) {
        return fail(ErrorCode::kCorrupt,
                    "[model] {}: no tensor {}, expected [{}, {}]",
                    file_.name(),
                    file_.name_in_file(expected.name),
                    expected.n_in,
                    expected.n_out);
      }
      const std::array<int64_t, 4> shape{expected.n_in, expected.n_out, 1, 1};
      if (tensor->shape != shape) {
        return fail(ErrorCode::kCorrupt,
                    "[model] {}: tensor {} is [{}], expected [{}, {}]",
                    file_.name(),
                    file_.name_in_file(expected.name),
                    fmt::join(std::span(tensor->shape).first(size_t(tensor->n_dims)), ", "),
                    expected.n_in,
                    expected.n_out);
      }
      names.insert(std::move(expected.name));
    }
    for (const TensorView& tensor : file_.tensors()) {
      if (names.find(tensor.name) == names.end()) {
        return fail(ErrorCode::kUnsupported,
                    "[model] {}: tensor {} [{}] is not used by the {} decoder with {} layers",
                    file_.name(),
                    file_.name_in_file(tensor.name),
                    fmt::join(std::span(tensor.shape).first(size_t(tensor.n_dims)), ", "),
                    spec_.architecture,
                    spec_.n_layers);
      }
    }
    return {};
  }

  const Checkpoint& file_;
  const GgufMetadata& metadata_;
  const Traits* traits_ = nullptr;
  ModelSpec spec_;
};

}  // namespace

std::vector<std::string> known_architectures() {
  std::vector<std::string> names;
  for (const Traits& row : kTraits) names.emplace_back(row.architecture);
  return names;
}

std::vector<ExpectedTensor> expected_tensors(const ModelSpec& spec) {
  std::vector<ExpectedTensor> tensors;
  const auto add = [&](std::string name, int64_t n_in, int64_t n_out = 1) {
    tensors.push_back({std::move(name), n_in, n_out});
  };
  add("token_embd.weight", spec.n_embd, spec.n_vocab);
  if (spec.rope.has_factors) add("rope_freqs.weight", spec.head_dim / 2);
  for (int layer = 0; layer < spec.n_layers; ++layer) {
    const std::string block = fmt::format("blk.{}.", layer);
    add(block + "attn_norm.weight", spec.n_embd);
    add(block + "attn_q.weight", spec.n_embd, spec.n_query());
    add(block + "attn_k.weight", spec.n_embd, spec.n_key());
    add(block + "attn_v.weight", spec.n_embd, spec.n_key());
    if (spec.has_qkv_bias) {
      add(block + "attn_q.bias", spec.n_query());
      add(block + "attn_k.bias", spec.n_key());
      add(block + "attn_v.bias", spec.n_key());
    }
    if (spec.has_qk_norm) {
      add(block + "attn_q_norm.weight", spec.head_dim);
      add(block + "attn_k_norm.weight", spec.head_dim);
    }
    add(block + "attn_output.weight", spec.n_query(), spec.n_embd);
    if (spec.has_output_bias) add(block + "attn_output.bias", spec.n_embd);
    add(block + "ffn_norm.weight", spec.n_embd);
    add(block + "ffn_gate.weight", spec.n_embd, spec.n_ff);
    add(block + "ffn_up.weight", spec.n_embd, spec.n_ff);
    add(block + "ffn_down.weight", spec.n_ff, spec.n_embd);
  }
  add("output_norm.weight", spec.n_embd);
  if (!spec.is_tied) add("output.weight", spec.n_embd, spec.n_vocab);
  return tensors;
}

Result<ModelSpec> read_model_spec(const Checkpoint& file) {
  return SpecReader(file).read();
}

}  // namespace millrace
