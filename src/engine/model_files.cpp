#include "engine/model_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

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

Result<void> read_chat_template(const GgufMetadata& metadata, ModelFiles& files) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  if (metadata.find(kKey) == nullptr) {
    return {};
  }
  auto source = metadata.get<std::string_view>(kKey);
  if (!source) {
    return propagate(source);
  }
  // A template that Millrace cannot run takes the chat away, not the model.
  auto compiled = ChatTemplate::compile(std::string(*source));
  if (compiled) {
    files.chat_template = std::make_unique<const ChatTemplate>(std::move(*compiled));
  } else {
    files.chat_template_error = compiled.error().message;
  }
  return {};
}

Result<ModelFiles> read_all(GgufFile gguf, std::string fallback_name) {
  ModelFiles files;
  files.gguf = std::make_unique<GgufFile>(std::move(gguf));
  const GgufMetadata& metadata = files.gguf->metadata();
  auto spec = read_model_spec(*files.gguf);
  if (!spec) {
    return propagate(spec);
  }
  files.spec = std::move(*spec);
  auto tokenizer = read_tokenizer(metadata);
  if (!tokenizer) {
    return propagate(tokenizer);
  }
  files.tokenizer = std::make_unique<const Tokenizer>(std::move(*tokenizer));
  if (auto read = read_chat_template(metadata, files); !read) {
    return propagate(read);
  }
  files.name = files.spec.name.empty() ? std::move(fallback_name) : files.spec.name;
  return files;
}

}  // namespace

Result<ModelFiles> open_model_files(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return fail(ErrorCode::kUnsupported,
                "{} is a folder; Hugging Face folders are not supported yet, give a GGUF file",
                path);
  }
  auto gguf = GgufFile::open(path);
  if (!gguf) {
    return propagate(gguf);
  }
  return read_all(std::move(*gguf), std::filesystem::path(path).stem().string());
}

Result<ModelFiles> parse_model_files(std::span<const std::byte> bytes, std::string name) {
  auto gguf = GgufFile::parse(bytes, name);
  if (!gguf) {
    return propagate(gguf);
  }
  return read_all(std::move(*gguf), std::move(name));
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
