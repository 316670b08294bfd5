#pragma once
// Helpers of tests: the folder that transformers would have written for the model of a GGUF file,
// put together apart from the reader. One thread.

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/checkpoint.h"
#include "formats/gguf_testing.h"

namespace millrace::testing_support {

struct FolderTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;  // outermost first
  std::vector<std::byte> bytes;
};

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// The length of the header, the header, and n_data bytes 0, 1, 2, ...
inline std::vector<std::byte> safetensors_of(std::string_view header, size_t n_data) {
  const uint64_t length = header.size();
  std::vector<std::byte> file(sizeof(length));
  std::memcpy(file.data(), &length, sizeof(length));
  const auto text = bytes_of(header);
  file.insert(file.end(), text.begin(), text.end());
  for (size_t i = 0; i < n_data; ++i) file.push_back(static_cast<std::byte>(i & 0xff));
  return file;
}

// As the reference writes it: the header is padded with spaces to 8 bytes. Old writers did not do
// that, and data may lie anywhere: misalignment more bytes in front of it.
inline std::vector<std::byte> safetensors_bytes(const std::vector<FolderTensor>& tensors,
                                                size_t misalignment = 0) {
  std::string header = R"({"__metadata__":{"format":"pt"})";
  size_t end = 0;
  for (const FolderTensor& tensor : tensors) {
    std::string shape;
    for (const int64_t length : tensor.shape) {
      shape += (shape.empty() ? "" : ",") + std::to_string(length);
    }
    header += fmt::format(R"(,"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                          tensor.name,
                          tensor.dtype,
                          shape,
                          end,
                          end + tensor.bytes.size());
    end += tensor.bytes.size();
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8 + misalignment, ' ');
  std::vector<std::byte> file = safetensors_of(header, 0);
  for (const FolderTensor& tensor : tensors) {
    file.insert(file.end(), tensor.bytes.begin(), tensor.bytes.end());
  }
  return file;
}

inline std::string folder_tensor_name(std::string name) {
  static constexpr std::pair<const char*, const char*> kParts[] = {
      {"token_embd", "model.embed_tokens"},
      {"output_norm", "model.norm"},
      {"attn_q_norm", "self_attn.q_norm"},
      {"attn_k_norm", "self_attn.k_norm"},
      {"attn_norm", "input_layernorm"},
      {"attn_output", "self_attn.o_proj"},
      {"attn_q", "self_attn.q_proj"},
      {"attn_k", "self_attn.k_proj"},
      {"attn_v", "self_attn.v_proj"},
      {"ffn_norm", "post_attention_layernorm"},
      {"ffn_gate", "mlp.gate_proj"},
      {"ffn_up", "mlp.up_proj"},
      {"ffn_down", "mlp.down_proj"},
      {"output", "lm_head"},
      {"blk.", "model.layers."},
  };
  std::string result = std::move(name);
  bool has_part = false;
  for (const auto& [gguf, part] : kParts) {
    const size_t at = result.find(gguf);
    if (at == std::string::npos || (has_part && std::string_view(gguf) != "blk.")) continue;
    result.replace(at, std::strlen(gguf), part);
    has_part = true;
  }
  return result;
}

// The tensors of a model of F32, F16 and BF16, but for rope_freqs, which folders lack. Rows of the
// Llama family's q and k go back to where the converter took them from.
inline std::vector<FolderTensor> folder_tensors(const Checkpoint& gguf) {
  const auto architecture = *gguf.metadata().get<std::string_view>("general.architecture");
  const auto number = [&](const char* key) {
    return gguf.metadata().get<int64_t>(fmt::format("{}.{}", architecture, key));
  };
  const int64_t head_dim =
      number("attention.key_length")
          .value_or(*number("embedding_length") / *number("attention.head_count"));
  std::vector<FolderTensor> tensors;
  for (const TensorView& tensor : gguf.tensors()) {
    if (tensor.name == "rope_freqs.weight") continue;
    FolderTensor out{folder_tensor_name(std::string(tensor.name)),
                     dtype_info(tensor.dtype).name,
                     {},
                     {tensor.data.begin(), tensor.data.end()}};
    for (int d = tensor.n_dims - 1; d >= 0; --d) {
      out.shape.push_back(tensor.shape[static_cast<size_t>(d)]);
    }
    const bool is_turned = tensor.name.find("attn_q.") != tensor.name.npos ||
                           tensor.name.find("attn_k.") != tensor.name.npos;
    if (architecture == "llama" && is_turned) {
      const int64_t n_rows = out.shape[0];
      const size_t row_bytes = tensor.data.size() / static_cast<size_t>(n_rows);
      for (int64_t r = 0; r < n_rows; ++r) {
        const int64_t pair = r % head_dim / 2, side = r % 2;
        const int64_t target = r - r % head_dim + side * (head_dim / 2) + pair;
        std::memcpy(out.bytes.data() + static_cast<size_t>(target) * row_bytes,
                    tensor.data.data() + static_cast<size_t>(r) * row_bytes,
                    row_bytes);
      }
    }
    tensors.push_back(std::move(out));
  }
  return tensors;
}

using Settings = std::map<std::string, std::string>;  // values as JSON

inline std::string json_of(const Settings& fields) {
  std::string text;
  for (const auto& [key, value] : fields) {
    text += fmt::format("{}\n  \"{}\": {}", text.empty() ? "{" : ",", key, value);
  }
  return text + "\n}\n";
}

// config.json of the model, without a rope scaling of type llama3, of which GGUF has the result
// only. architecture: as "LlamaForCausalLM"; model_type: as "llama".
inline Settings config_of(const Checkpoint& gguf,
                          const std::string& architecture,
                          const std::string& model_type) {
  const GgufMetadata& metadata = gguf.metadata();
  const std::string prefix(*metadata.get<std::string_view>("general.architecture"));
  const auto key = [&](const char* suffix) { return prefix + "." + suffix; };
  const auto whole = [&](const char* suffix) {
    return fmt::format("{}", *metadata.get<int64_t>(key(suffix)));
  };
  const auto real = [&](const char* suffix) {
    return fmt::format("{}", *metadata.get<float>(key(suffix)));
  };
  const auto has = [&](const char* suffix) { return metadata.find(key(suffix)) != nullptr; };
  Settings config = {
      {"architectures", "[\"" + architecture + "\"]"},
      {"model_type", "\"" + model_type + "\""},
      {"hidden_act", "\"silu\""},
      {"hidden_size", whole("embedding_length")},
      {"intermediate_size", whole("feed_forward_length")},
      {"max_position_embeddings", whole("context_length")},
      {"num_attention_heads", whole("attention.head_count")},
      {"num_hidden_layers", whole("block_count")},
      {"num_key_value_heads", whole("attention.head_count_kv")},
      {"rms_norm_eps", real("attention.layer_norm_rms_epsilon")},
      {"rope_scaling", "null"},
      {"tie_word_embeddings", gguf.find("output.weight") == nullptr ? "true" : "false"},
      {"torch_dtype", "\"bfloat16\""},
      {"vocab_size", fmt::format("{}", gguf.find("token_embd.weight")->shape[1])},
  };
  if (has("attention.key_length")) config["head_dim"] = whole("attention.key_length");
  if (has("rope.freq_base")) config["rope_theta"] = real("rope.freq_base");
  if (model_type == "mistral") config["sliding_window"] = "null";
  if (model_type == "llama") {
    config["attention_bias"] = gguf.find("blk.0.attn_q.bias") != nullptr ? "true" : "false";
  }
  if (has("rope.scaling.type")) {
    Settings scaling = {
        {"rope_type",
         fmt::format("\"{}\"", *metadata.get<std::string_view>(key("rope.scaling.type")))},
        {"factor", real("rope.scaling.factor")}};
    if (has("rope.scaling.original_context_length")) {
      scaling["original_max_position_embeddings"] = whole("rope.scaling.original_context_length");
    }
    config["rope_scaling"] = json_of(scaling);
  }
  return config;
}

inline void write_text(const TempFolder& folder, const std::string& name, std::string_view text) {
  folder.write(name, bytes_of(text));
}

}  // namespace millrace::testing_support
