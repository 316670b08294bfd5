#pragma once
// From the MODEL argument to everything a model file holds: tensors, tokenizer, chat template,
// shape. Immutable once opened; any thread.

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "formats/checkpoint.h"
#include "model/model_spec.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace millrace {

struct ModelFiles {
  std::string name;  // general.name of the file, or its file name; a folder's name
  std::unique_ptr<const Checkpoint> checkpoint;
  std::unique_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<const ChatTemplate> chat_template;  // null: the file has none
  std::string chat_template_error;                    // why it was refused, if it was
  ModelSpec spec;
};

// path: a GGUF file (any shard of a set), or a Hugging Face folder or its config.json.
Result<ModelFiles> open_model_files(const std::string& path);

// A file's name without its folder and ending, or a folder's name.
std::string model_path_name(const std::string& path);

// The bytes of a GGUF file that stay alive as long as the result: the embedded model.
Result<ModelFiles> parse_model_files(std::span<const std::byte> bytes, std::string name);

// Can the draft model guess for the target? Their tokenizers must agree, token for token; a wider
// embedding or head does not matter. kInvalidArgument names the first token that differs.
Result<void> check_draft_files(const ModelFiles& target, const ModelFiles& draft);

}  // namespace millrace
