#include "engine/model_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "formats/gguf.h"
#include "formats/hugging_face.h"
#include "text/chat_template_source.h"
#include "text/tokenizer_json.h"
#include "text/tokenizer_spec.h"

namespace millrace {
namespace {

// Reads one optional key into a field; false and the error when its type is wrong.
class MetadataReader {
 public:
  explicit MetadataReader(const GgufMetadata& metadata) : metadata_(metadata) {}

  template <class T, class Field>
  void read(std::string_view key, Field& field) {
    if (!result_ || metadata_.find(key) == nullptr) {
      return;
    }
    auto value = metadata_.get<T>(key);
    if (value) {
      field = Field(std::move(*value));
    } else {
      result_ = propagate(value);
    }
  }

  Result<void> result() const { return result_; }

 private:
  const GgufMetadata& metadata_;
  Result<void> result_;
};

Result<Tokenizer> read_tokenizer(const GgufMetadata& metadata) {
  GgufTokenizerFields fields;
  MetadataReader reader(metadata);
  reader.read<std::string_view>("tokenizer.ggml.model", fields.model);
  reader.read<std::string_view>("tokenizer.ggml.pre", fields.pre);
  reader.read<std::vector<std::string_view>>("tokenizer.ggml.tokens", fields.tokens);
  reader.read<std::vector<int32_t>>("tokenizer.ggml.token_type", fields.token_types);
  reader.read<std::vector<float>>("tokenizer.ggml.scores", fields.scores);
  reader.read<std::vector<std::string_view>>("tokenizer.ggml.merges", fields.merges);
  reader.read<int64_t>("tokenizer.ggml.bos_token_id", fields.bos);
  reader.read<int64_t>("tokenizer.ggml.eos_token_id", fields.eos);
  reader.read<int64_t>("tokenizer.ggml.eot_token_id", fields.eot);
  reader.read<int64_t>("tokenizer.ggml.eom_token_id", fields.eom);
  reader.read<int64_t>("tokenizer.ggml.unknown_token_id", fields.unknown);
  reader.read<int64_t>("tokenizer.ggml.padding_token_id", fields.padding);
  reader.read<bool>("tokenizer.ggml.add_bos_token", fields.add_bos);
  reader.read<bool>("tokenizer.ggml.add_eos_token", fields.add_eos);
  reader.read<bool>("tokenizer.ggml.add_space_prefix", fields.add_space_prefix);
  if (auto read = reader.result(); !read) {
    return propagate(read);
  }
  auto spec = tokenizer_spec_from_gguf_fields(fields);
  if (!spec) {
    return propagate(spec);
  }
  return Tokenizer::create(std::move(*spec));
}

// A template that Millrace cannot run takes the chat away, not the model.
void set_chat_template(const Result<std::optional<std::string>>& source, ModelFiles& files) {
  if (source && !*source) {
    return;
  }
  auto compiled =
      source ? ChatTemplate::compile(**source) : Result<ChatTemplate>(propagate(source));
  if (compiled) {
    files.chat_template = std::make_unique<const ChatTemplate>(std::move(*compiled));
  } else {
    files.chat_template_error = compiled.error().message;
  }
}

Result<void> read_gguf_texts(const GgufMetadata& metadata, ModelFiles& files) {
  auto tokenizer = read_tokenizer(metadata);
  if (!tokenizer) {
    return propagate(tokenizer);
  }
  files.tokenizer = std::make_unique<const Tokenizer>(std::move(*tokenizer));
  constexpr std::string_view kKey = "tokenizer.chat_template";
  if (metadata.find(kKey) == nullptr) {
    return {};
  }
  const auto source = metadata.get<std::string_view>(kKey);
  if (!source) {
    return propagate(source);
  }
  set_chat_template(std::optional(std::string(*source)), files);
  return {};
}

// The tokenizer of a Hugging Face folder, from the files that it came with.
Result<Tokenizer> read_folder_tokenizer(const Checkpoint& folder) {
  const auto text = [&](const char* file) { return folder.side_file(file).value_or(""); };
  if (!folder.side_file("tokenizer.json")) {
    return fail(ErrorCode::kUnsupported,
                "{} has no tokenizer.json, the one form of a tokenizer that is read in folders: "
                "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) of transformers "
                "writes it from the others",
                folder.name());
  }
  auto spec = parse_tokenizer_json(text("tokenizer.json"),
                                   text("tokenizer_config.json"),
                                   text("generation_config.json"),
                                   text("config.json"));
  if (!spec) {
    return fail(spec.error().code, "{}: {}", folder.name(), spec.error().message);
  }
  return Tokenizer::create(std::move(*spec));
}

Result<void> read_folder_texts(ModelFiles& files) {
  const Checkpoint& folder = *files.checkpoint;
  auto tokenizer = read_folder_tokenizer(folder);
  if (!tokenizer) {
    return propagate(tokenizer);
  }
  if (tokenizer->vocab_size() > files.spec.n_vocab) {
    return fail(ErrorCode::kCorrupt,
                "{}: tokenizer.json has {} tokens, vocab_size of config.json is {}",
                folder.name(),
                tokenizer->vocab_size(),
                files.spec.n_vocab);
  }
  files.tokenizer = std::make_unique<const Tokenizer>(std::move(*tokenizer));
  set_chat_template(chat_template_source(folder.side_file("chat_template.jinja"),
                                         folder.side_file("tokenizer_config.json")),
                    files);
  return {};
}

Result<ModelFiles> read_all(Checkpoint checkpoint, std::string fallback_name) {
  ModelFiles files;
  files.checkpoint = std::make_unique<const Checkpoint>(std::move(checkpoint));
  auto spec = read_model_spec(*files.checkpoint);
  if (!spec) {
    return propagate(spec);
  }
  files.spec = std::move(*spec);
  const bool is_gguf = files.checkpoint->format() == CheckpointFormat::kGguf;
  if (auto read =
          is_gguf ? read_gguf_texts(files.checkpoint->metadata(), files) : read_folder_texts(files);
      !read) {
    return propagate(read);
  }
  files.name = files.spec.name.empty() ? std::move(fallback_name) : files.spec.name;
  return files;
}

}  // namespace

std::string model_path_name(const std::string& path) {
  return is_hugging_face_path(path) ? hugging_face_model_name(path)
                                    : std::filesystem::path(path).stem().string();
}

Result<ModelFiles> open_model_files(const std::string& path) {
  auto checkpoint = is_hugging_face_path(path) ? open_hugging_face(path) : open_gguf(path);
  if (!checkpoint) {
    return propagate(checkpoint);
  }
  return read_all(std::move(*checkpoint), model_path_name(path));
}

Result<ModelFiles> parse_model_files(std::span<const std::byte> bytes, std::string name) {
  auto checkpoint = parse_gguf(bytes, name);
  if (!checkpoint) {
    return propagate(checkpoint);
  }
  return read_all(std::move(*checkpoint), std::move(name));
}

Result<void> check_draft_files(const ModelFiles& target, const ModelFiles& draft) {
  const Tokenizer& one = *target.tokenizer;
  const Tokenizer& other = *draft.tokenizer;
  for (TokenId id = 0; id < std::max(one.vocab_size(), other.vocab_size()); ++id) {
    const auto text_of = [&](const Tokenizer& tokenizer) {
      return id < tokenizer.vocab_size() ? fmt::format("\"{}\"", tokenizer.token_text(id))
                                         : std::string("none");
    };
    if (text_of(one) != text_of(other)) {
      return fail(ErrorCode::kInvalidArgument,
                  "the draft model {} has another tokenizer than {}: token {} is {} against {}",
                  draft.name,
                  target.name,
                  id,
                  text_of(other),
                  text_of(one));
    }
  }
  return {};
}

}  // namespace millrace
