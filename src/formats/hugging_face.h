#pragma once
// Opens the folder of a dense decoder as Hugging Face's transformers writes it: config.json,
// safetensors in one file or in shards, and the tokenizer's files. Hostile input as GGUF files are.
// Any thread.

#include <string>

#include "base/result.h"
#include "formats/checkpoint.h"

namespace millrace {

// A folder, or the config.json in one.
bool is_hugging_face_path(const std::string& path);

// The folder's name; of a snapshot in the cache of Hugging Face's hub the model's.
std::string hugging_face_model_name(const std::string& path);

// Tensors get GGUF's names (hugging_face_names.h) and the settings its keys; q and k of the Llama
// family are marked with split_head_rows. Tensors that are not used are left out: tables of the
// rotation, and a head besides tied embeddings. side_file() has config.json,
// generation_config.json, tokenizer.json, tokenizer_config.json and chat_template.jinja, as far as
// they are there. Errors name the folder or file: kInvalidArgument (no such model in the folder),
// kNotFound (the folder, or shards, listed), kIo, kCorrupt, kUnsupported.
Result<Checkpoint> open_hugging_face(const std::string& path);

}  // namespace millrace
