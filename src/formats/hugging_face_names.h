#pragma once
// Names of the tensors of dense decoders: transformers' and GGUF's. Pure functions, any thread.

#include <optional>
#include <string>
#include <string_view>

namespace millrace {

// "model.layers.3.self_attn.q_proj.weight" is "blk.3.attn_q.weight". Absent: no such name is known.
std::optional<std::string> gguf_tensor_name(std::string_view hugging_face);

// The other way round; a name that is not known comes back as it is.
std::string hugging_face_tensor_name(std::string_view gguf);

}  // namespace millrace
