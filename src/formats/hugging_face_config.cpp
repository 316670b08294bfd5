#include "formats/hugging_face_config.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "formats/gguf_writer.h"
#include "formats/json_document.h"
#include "formats/json_fields.h"
#include "formats/rope_factors.h"

namespace millrace {
namespace {

namespace dom = simdjson::dom;

constexpr int64_t kMaxHeadRows = 512;  // a sane bound; read_model_spec has the real one

// One row an architecture; what a key means when it is absent is what transformers takes for it.
struct Family {
  std::string_view architecture;  // of "architectures"
  std::string_view model_type;
  const char* gguf;  // general.architecture
  // GGUF has the values that one rotation turns side by side, see TensorView::split_head_rows.
  bool has_adjacent_pairs = false;
  int64_t head_dim = 0;          // 0: hidden_size / num_attention_heads
  int64_t sliding_window = 0;    // where windows are in use; 0: none
  bool has_window_flag = false;  // use_sliding_window, false unless it is there
  bool has_bias_flag = false;    // attention_bias decides about biases of q, k, v and the output
  bool has_qkv_bias = true;      // those of q, k and v are known, unless that says otherwise
};
constexpr Family kFamilies[] = {
    {.architecture = "LlamaForCausalLM",
     .model_type = "llama",
     .gguf = "llama",
     .has_adjacent_pairs = true,
     .has_bias_flag = true},
    {.architecture = "MistralForCausalLM",
     .model_type = "mistral",
     .gguf = "llama",
     .has_adjacent_pairs = true,
     .sliding_window = 4096},
    {.architecture = "Qwen2ForCausalLM",
     .model_type = "qwen2",
     .gguf = "qwen2",
     .sliding_window = 4096,
     .has_window_flag = true},
    {.architecture = "Qwen3ForCausalLM",
     .model_type = "qwen3",
     .gguf = "qwen3",
     .head_dim = 128,
     .sliding_window = 4096,
     .has_window_flag = true,
     .has_bias_flag = true,
     .has_qkv_bias = false},
};

std::string known_families() {
  std::string names;
  for (const Family& family : kFamilies) {
    names += (names.empty() ? "" : ", ") + std::string(family.architecture);
  }
  return names;
}

// Settings that are refused when they are true.
struct RefusedFlag {
  const char* key;
  const char* feature;
};
constexpr RefusedFlag kRefusedFlags[] = {
    {"mlp_bias", "a bias in the feed-forward layers"},
    {"use_mrope", "rotation by positions in images"},
};

class ConfigReader {
 public:
  ConfigReader(dom::object root, std::string where)
      : fields_(root, std::move(where), "", &result_) {}

  Result<HuggingFaceConfig> read() {
    const Family* family = find_family();
    if (family == nullptr) return propagate(result_);
    family_ = family;
    refuse_features();
    config_.coding = read_weight_coding(fields_);
    add_text("general.architecture", family_->gguf);
    read_shape();
    read_window();
    read_rope();
    config_.is_tied = fields_.flag("tie_word_embeddings");
    if (family_->has_bias_flag) config_.has_attention_bias = fields_.flag("attention_bias");
    config_.coding.may_have_qkv_bias = family_->has_qkv_bias && config_.has_attention_bias != false;
    if (!result_) return propagate(result_);
    config_.metadata = builder_.header();
    return std::move(config_);
  }

 private:
  const Family* find_family() {
    std::string_view architecture;
    if (const auto list = fields_.find("architectures")) {
      dom::array names;
      if (list->get(names) != simdjson::SUCCESS || names.size() != 1 ||
          names.at(0).get(architecture) != simdjson::SUCCESS) {
        fields_.refuse_value("architectures", *list, "a list of one name");
        return nullptr;
      }
    }
    const std::string_view model_type = fields_.text("model_type");
    const bool by_type = architecture.empty();
    if (by_type && model_type.empty()) {
      fields_.stop(ErrorCode::kCorrupt, "architectures and model_type are missing");
      return nullptr;
    }
    const auto* row =
        std::find_if(std::begin(kFamilies), std::end(kFamilies), [&](const Family& family) {
          return by_type ? family.model_type == model_type : family.architecture == architecture;
        });
    if (row == std::end(kFamilies)) {
      fields_.stop(ErrorCode::kUnsupported,
                   fmt::format("unknown architecture '{}'; known are {}",
                               by_type ? model_type : architecture,
                               known_families()));
      return nullptr;
    }
    if (!model_type.empty() && row->model_type != model_type) {
      fields_.stop(ErrorCode::kUnsupported,
                   fmt::format("architectures says {}, but model_type is '{}', expected '{}'",
                               architecture,
                               model_type,
                               row->model_type));
      return nullptr;
    }
    return result_ ? row : nullptr;
  }

  void refuse_features() {
    for (const RefusedFlag& row : kRefusedFlags) {
      if (fields_.flag(row.key).value_or(false)) {
        fields_.refuse_feature(row.key, "true", row.feature);
      }
    }
    const std::string_view activation = fields_.text("hidden_act");
    if (!activation.empty() && activation != "silu" && activation != "swish") {
      fields_.refuse_feature("hidden_act", activation, "an activation other than silu");
    }
  }

  void read_shape() {
    add_dimension("block_count", fields_.dimension("num_hidden_layers"));
    const int64_t n_embd = fields_.dimension("hidden_size");
    const int64_t n_heads = fields_.dimension("num_attention_heads");
    add_dimension("embedding_length", n_embd);
    add_dimension("attention.head_count", n_heads);
    add_dimension("attention.head_count_kv", fields_.dimension("num_key_value_heads", n_heads));
    add_dimension("feed_forward_length", fields_.dimension("intermediate_size"));
    config_.vocab_size = fields_.dimension("vocab_size");
    add_dimension("vocab_size", config_.vocab_size);
    builder_.add(key("attention.layer_norm_rms_epsilon"),
                 static_cast<float>(fields_.number("rms_norm_eps")));
    const int64_t implied = family_->head_dim != 0 ? family_->head_dim : n_embd / n_heads;
    head_dim_ = fields_.dimension("head_dim", std::max<int64_t>(implied, 1));
    // Heads that do not divide the width are read_model_spec's to refuse.
    if (fields_.has("head_dim") || family_->head_dim != 0) {
      add_dimension("attention.key_length", head_dim_);
      add_dimension("attention.value_length", head_dim_);
    }
    if (family_->has_adjacent_pairs && head_dim_ % 2 == 0 && head_dim_ <= kMaxHeadRows) {
      config_.split_head_rows = head_dim_;
    }
  }

  void read_window() {
    context_length_ = fields_.dimension("max_position_embeddings");
    if (const auto types = fields_.find("layer_types")) {
      dom::array names;
      if (types->get(names) != simdjson::SUCCESS) {
        return fields_.refuse_value("layer_types", *types, "a list of names");
      }
      for (const dom::element& element : names) {
        std::string_view name;
        if (element.get(name) != simdjson::SUCCESS || name != "full_attention") {
          fields_.refuse_feature("layer_types", simdjson::to_string(element), "such a layer");
        }
      }
    }
    if (family_->has_window_flag && !fields_.flag("use_sliding_window").value_or(false)) return;
    // Null is "none"; an absent key is the family's usual window.
    if (fields_.is_null("sliding_window")) return;
    const int64_t window = fields_.dimension("sliding_window", family_->sliding_window);
    if (window > 0) add_dimension("attention.sliding_window", window);
  }

  void read_rope() {
    // Newer files keep the base with the scaling.
    auto scaling = fields_.object_of("rope_parameters");
    if (!scaling) scaling = fields_.object_of("rope_scaling");
    JsonFields& base_fields = scaling && scaling->has("rope_theta") ? *scaling : fields_;
    base_ = base_fields.number("rope_theta", 10000.0);
    builder_.add(key("rope.freq_base"), static_cast<float>(base_));
    for (JsonFields* part : {&fields_, scaling ? &*scaling : &fields_}) {
      if (part->number("partial_rotary_factor", 1.0) != 1.0) {
        part->refuse_feature(
            "partial_rotary_factor", "not 1", "the rotation of a part of each head");
      }
    }
    if (scaling && scaling->has_objects()) {
      scaling->stop(ErrorCode::kUnsupported,
                    "rope parameters that differ by layer are not supported");
    } else if (scaling) {
      read_scaling(*scaling);
    }
    add_dimension("context_length", context_length_);
  }

  void read_scaling(JsonFields& scaling) {
    std::string_view type = scaling.text("rope_type");
    if (type.empty()) type = scaling.text("type");
    if (type.empty()) {
      // Of rope_parameters that have nothing but the base.
      if (scaling.has("factor"))
        scaling.stop(ErrorCode::kCorrupt, "a rope factor without rope_type");
    } else if (type == "linear") {
      builder_.add(key("rope.scaling.type"), "linear");
      builder_.add(key("rope.scaling.factor"), static_cast<float>(scaling.number("factor")));
    } else if (type == "llama3") {
      read_llama3(scaling);
    } else if (type == "yarn") {
      read_yarn(scaling);
    } else if (type != "default" && type != "none") {
      scaling.refuse_feature(
          "rope_type", type, "a rope scaling other than default, linear, llama3 and yarn");
    }
  }

  void read_llama3(JsonFields& scaling) {
    const Llama3Scaling values = {
        .factor = scaling.number("factor"),
        .low_freq_factor = scaling.number("low_freq_factor"),
        .high_freq_factor = scaling.number("high_freq_factor"),
        .original_context =
            static_cast<double>(scaling.dimension("original_max_position_embeddings")),
    };
    if (!result_) return;
    if (values.high_freq_factor <= values.low_freq_factor) {
      return scaling.stop(ErrorCode::kCorrupt,
                          fmt::format("high_freq_factor {} of the rope scaling is not above "
                                      "low_freq_factor {}",
                                      values.high_freq_factor,
                                      values.low_freq_factor));
    }
    if (head_dim_ > kMaxHeadRows) return;  // read_model_spec refuses such heads
    config_.rope_factors =
        llama3_rope_factors(values, static_cast<float>(base_), static_cast<int>(head_dim_));
  }

  void read_yarn(JsonFields& scaling) {
    const auto factor = static_cast<float>(scaling.number("factor"));
    const int64_t original = scaling.dimension("original_max_position_embeddings", context_length_);
    if (scaling.flag("truncate") == false) {
      scaling.refuse_feature("truncate", "false", "YaRN whose ramp is not rounded to whole pairs");
    }
    builder_.add(key("rope.scaling.type"), "yarn");
    builder_.add(key("rope.scaling.factor"), factor);
    add_dimension("rope.scaling.original_context_length", original);
    for (const auto& [name, suffix] : {std::pair("beta_fast", "rope.scaling.yarn_beta_fast"),
                                       std::pair("beta_slow", "rope.scaling.yarn_beta_slow")}) {
      if (scaling.has(name)) builder_.add(key(suffix), static_cast<float>(scaling.number(name)));
    }
    add_yarn_gain(scaling, factor);
    // The window that the scaling is for, though files often keep that of before.
    const double stretched = std::round(static_cast<double>(original) * factor);
    if (stretched > static_cast<double>(context_length_) && stretched < 1 << 30) {
      context_length_ = static_cast<int64_t>(stretched);
    }
  }

  // What multiplies cosines and sines: GGUF has it relative to that of the YaRN paper.
  void add_yarn_gain(JsonFields& scaling, double factor) {
    const auto gain_of = [factor](double scale) {
      return factor <= 1.0 ? 1.0 : 0.1 * scale * std::log(factor) + 1.0;
    };
    double gain = gain_of(1.0);
    if (scaling.has("attention_factor")) {
      gain = scaling.number("attention_factor");
    } else if (scaling.has("mscale") && scaling.has("mscale_all_dim")) {
      gain = gain_of(scaling.number("mscale")) / gain_of(scaling.number("mscale_all_dim"));
    }
    if (gain != gain_of(1.0)) {
      builder_.add(key("rope.scaling.attn_factor"), static_cast<float>(gain / gain_of(1.0)));
    }
  }

  std::string key(std::string_view suffix) const {
    return fmt::format("{}.{}", family_->gguf, suffix);
  }
  void add_text(std::string_view name, const char* text) { builder_.add(name, text); }
  void add_dimension(std::string_view suffix, int64_t value) {
    builder_.add(key(suffix), static_cast<uint32_t>(value));
  }

  Result<void> result_;
  JsonFields fields_;
  const Family* family_ = nullptr;
  GgufBuilder builder_;
  HuggingFaceConfig config_;
  int64_t head_dim_ = 0;
  int64_t context_length_ = 0;
  double base_ = 10000.0;
};

}  // namespace

Result<HuggingFaceConfig> read_hugging_face_config(std::string_view json, const std::string& name) {
  const std::string where = fmt::format("[config] {}", name);
  const auto document = parse_json_object(json, where);
  if (!document) return propagate(document);
  if (const auto twin = repeated_key(document->root)) {
    return fail(ErrorCode::kCorrupt, "{}: '{}' appears twice", where, *twin);
  }
  return ConfigReader(document->root, where).read();
}

}  // namespace millrace
