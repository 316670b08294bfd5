#include "formats/hugging_face_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace millrace {
namespace {

struct NamePair {
  std::string_view hugging_face;
  std::string_view gguf;
};

constexpr NamePair kOutside[] = {
    {"model.embed_tokens.", "token_embd."},
    {"model.norm.", "output_norm."},
    {"lm_head.", "output."},
};

constexpr NamePair kInLayer[] = {
    {"input_layernorm.", "attn_norm."},
    {"self_attn.q_proj.", "attn_q."},
    {"self_attn.k_proj.", "attn_k."},
    {"self_attn.v_proj.", "attn_v."},
    {"self_attn.o_proj.", "attn_output."},
    {"self_attn.q_norm.", "attn_q_norm."},
    {"self_attn.k_norm.", "attn_k_norm."},
    {"post_attention_layernorm.", "ffn_norm."},
    {"mlp.gate_proj.", "ffn_gate."},
    {"mlp.up_proj.", "ffn_up."},
    {"mlp.down_proj.", "ffn_down."},
};

constexpr NamePair kLayers = {"model.layers.", "blk."};

using Side = std::string_view NamePair::*;

// What stands behind the part before the last full stop, by the table.
std::optional<std::string> translate(std::span<const NamePair> table,
                                     std::string_view name,
                                     Side from,
                                     Side to) {
  const auto row = std::find_if(table.begin(), table.end(), [&](const NamePair& pair) {
    const std::string_view kind = name.substr(std::min(name.size(), (pair.*from).size()));
    return name.starts_with(pair.*from) && (kind == "weight" || kind == "bias");
  });
  if (row == table.end()) return std::nullopt;
  return fmt::format("{}{}", (*row).*to, name.substr(((*row).*from).size()));
}

std::optional<std::string> translate(std::string_view name, Side from, Side to) {
  if (!name.starts_with(kLayers.*from)) return translate(kOutside, name, from, to);
  name.remove_prefix((kLayers.*from).size());
  const size_t n_digits = std::min(name.find_first_not_of("0123456789"), name.size());
  const std::string_view number = name.substr(0, n_digits);
  const bool is_number = !number.empty() && (number == "0" || number[0] != '0');
  if (!is_number || n_digits == name.size() || name[n_digits] != '.') return std::nullopt;
  const auto inside = translate(kInLayer, name.substr(n_digits + 1), from, to);
  if (!inside) return std::nullopt;
  return fmt::format("{}{}.{}", kLayers.*to, number, *inside);
}

}  // namespace

std::optional<std::string> gguf_tensor_name(std::string_view hugging_face) {
  return translate(hugging_face, &NamePair::hugging_face, &NamePair::gguf);
}

std::string hugging_face_tensor_name(std::string_view gguf) {
  return translate(gguf, &NamePair::gguf, &NamePair::hugging_face).value_or(std::string(gguf));
}

}  // namespace millrace
