#include "formats/hugging_face.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "formats/gguf_parse.h"
#include "formats/hugging_face_coding.h"
#include "formats/hugging_face_config.h"
#include "formats/hugging_face_names.h"
#include "formats/json_document.h"
#include "formats/safetensors.h"

namespace millrace {
namespace {

namespace dom = simdjson::dom;
namespace fs = std::filesystem;

constexpr const char* kConfig = "config.json";
constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr size_t kMaxTextBytes = size_t{256} << 20;  // of a file without tensors

// config.json first: it alone has to be there.
constexpr const char* kSideFiles[] = {kConfig,
                                      "generation_config.json",
                                      "tokenizer.json",
                                      "tokenizer_config.json",
                                      "chat_template.jinja"};

struct ShardTensor {
  SafetensorsTensor tensor;
  std::string file;  // with the folder
};

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The first file with the ending, by name; empty: none.
std::string file_with_ending(const fs::path& folder, std::string_view ending) {
  std::string first;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.ends_with(ending) && (first.empty() || name < first)) first = name;
  }
  return first;
}

class Opener {
 public:
  explicit Opener(fs::path folder) : folder_(std::move(folder)) { parts_.name = folder_.string(); }

  Result<Checkpoint> open() {
    parts_.format = CheckpointFormat::kSafetensors;
    parts_.name_in_file = hugging_face_tensor_name;
    if (auto done = open_side_files(); !done) return propagate(done);
    auto config = read_hugging_face_config(parts_.side_files[0].text, path_of(kConfig));
    if (!config) return propagate(config);
    config_ = std::move(*config);
    if (auto done = read_metadata(); !done) return propagate(done);
    if (auto done = open_tensors(); !done) return propagate(done);
    for (const ShardTensor& shard : tensors_) by_name_[shard.tensor.name] = &shard.tensor;
    if (auto done = check_config(); !done) return propagate(done);
    for (const ShardTensor& tensor : tensors_) {
      if (auto done = add_tensor(tensor); !done) return propagate(done);
    }
    add_rope_factors();
    return Checkpoint(std::move(parts_));
  }

 private:
  std::string path_of(std::string_view file) const { return (folder_ / file).string(); }

  tl::unexpected<Error> corrupt(const std::string& file, const std::string& message) const {
    return fail(ErrorCode::kCorrupt, "[safetensors] {}: {}", file, message);
  }

  static tl::unexpected<Error> in_file(const Error& error, const std::string& file) {
    return fail(error.code, "[safetensors] {}: {}", file, error.message);
  }

  // A link to nothing, as half a cache of the hub has them, is not the same as no file.
  Result<MappedFile> open_file(const std::string& file) const {
    auto mapped = MappedFile::open(path_of(file));
    std::error_code ignored;
    const fs::path target = fs::read_symlink(folder_ / file, ignored);
    if (mapped || mapped.error().code != ErrorCode::kNotFound || target.empty()) return mapped;
    return fail(ErrorCode::kCorrupt,
                "{} is a link to {}, which is not there",
                path_of(file),
                target.string());
  }

  bool has_file(const char* file) const {
    std::error_code ignored;
    return fs::exists(fs::symlink_status(folder_ / file, ignored));
  }

  // Its bytes, which stay.
  Result<std::string_view> map_text(const std::string& file) {
    auto mapped = open_file(file);
    if (!mapped) return propagate(mapped);
    const std::string_view text = as_text(mapped->bytes());
    if (text.size() > kMaxTextBytes) {
      return fail(ErrorCode::kCorrupt,
                  "{}: expected at most {} bytes, it has {}",
                  path_of(file),
                  kMaxTextBytes,
                  text.size());
    }
    if (text.starts_with("version https://git-lfs")) {
      return fail(ErrorCode::kCorrupt,
                  "{} is a Git LFS pointer, not the file itself: fetch it with 'git lfs pull'",
                  path_of(file));
    }
    parts_.contents.push_back(mapped->bytes());
    parts_.files.push_back(std::move(*mapped));
    return text;
  }

  Result<void> open_side_files() {
    for (const char* name : kSideFiles) {
      const auto text = map_text(name);
      if (text) {
        parts_.side_files.push_back({name, *text});
      } else if (text.error().code != ErrorCode::kNotFound) {
        return propagate(text);
      } else if (name == std::string_view(kConfig)) {
        return no_config();
      }
    }
    return {};
  }

  Result<void> no_config() const {
    std::error_code ignored;
    if (!fs::exists(folder_, ignored)) {
      return fail(ErrorCode::kNotFound, "{}: No such file or directory", parts_.name);
    }
    const std::string gguf = file_with_ending(folder_, ".gguf");
    return fail(ErrorCode::kInvalidArgument,
                "{} is a folder without config.json: {}",
                parts_.name,
                gguf.empty() ? "expected a GGUF file, or a Hugging Face folder with config.json, "
                               "safetensors and tokenizer.json"
                             : "name a GGUF file in it, as " + path_of(gguf));
  }

  Result<void> read_metadata() {
    parts_.owned.push_back(std::move(config_.metadata));
    auto parsed = parse_gguf_file(parts_.owned.back(), path_of(kConfig));
    if (!parsed) return propagate(parsed);
    parts_.metadata = GgufMetadata(path_of(kConfig), std::move(parsed->entries));
    return {};
  }

  // As transformers does: one file, if it is there, before an index.
  Result<void> open_tensors() {
    if (has_file(kSingle)) return open_shard(kSingle);
    const auto index = map_text(kIndex);
    if (index) return open_indexed(*index);
    if (index.error().code != ErrorCode::kNotFound) return propagate(index);
    const bool has_torch = !file_with_ending(folder_, ".bin").empty();
    return fail(ErrorCode::kUnsupported,
                "[safetensors] {} has neither {} nor {}{}",
                parts_.name,
                kSingle,
                kIndex,
                has_torch ? ": save the PyTorch weights again with "
                            "model.save_pretrained(FOLDER, safe_serialization=True)"
                          : "");
  }

  Result<void> open_shard(const std::string& file) {
    auto mapped = open_file(file);
    if (!mapped) return propagate(mapped);
    auto tensors = parse_safetensors(mapped->bytes(), path_of(file));
    if (!tensors) return propagate(tensors);
    for (SafetensorsTensor& tensor : *tensors) {
      tensors_.push_back({std::move(tensor), path_of(file)});
    }
    parts_.contents.push_back(mapped->bytes());
    parts_.files.push_back(std::move(*mapped));
    return {};
  }

  Result<void> open_indexed(std::string_view text) {
    const auto index = parse_json_object(text, "[safetensors] " + path_of(kIndex));
    if (!index) return propagate(index);
    dom::object map;
    if (index->root["weight_map"].get(map) != simdjson::SUCCESS) {
      return corrupt(path_of(kIndex), "it has no weight_map of tensors and files");
    }
    if (const auto twin = repeated_key(map)) {
      return corrupt(path_of(kIndex), fmt::format("it lists tensor '{}' twice", *twin));
    }
    std::map<std::string, std::string, std::less<>> file_of;  // by tensor
    std::set<std::string, std::less<>> files;
    for (const auto& [tensor, value] : map) {
      std::string_view file;
      // A name alone: files elsewhere are none of this model.
      if (value.get(file) != simdjson::SUCCESS || !file.ends_with(".safetensors") ||
          file.find('/') != file.npos || file.find('\0') != file.npos) {
        return corrupt(
            path_of(kIndex),
            fmt::format("tensor '{}' is listed with no name of a safetensors file", tensor));
      }
      file_of.emplace(tensor, file);
      files.emplace(file);
    }
    if (auto done = check_presence(files); !done) return done;
    for (const std::string& file : files) {
      if (auto done = open_shard(file); !done) return done;
    }
    parts_.n_shards = static_cast<int>(files.size());
    return check_index(file_of);
  }

  Result<void> check_presence(const std::set<std::string, std::less<>>& files) const {
    constexpr size_t kMostListed = 10;
    std::vector<std::string> missing;
    std::error_code ignored;
    for (const std::string& file : files) {
      if (!fs::exists(folder_ / file, ignored)) missing.push_back(file);
    }
    if (missing.empty()) return {};
    std::string list;
    for (size_t i = 0; i < std::min(missing.size(), kMostListed); ++i) {
      list += (i > 0 ? ", " : "") + missing[i];
    }
    return fail(ErrorCode::kNotFound,
                "[safetensors] {}: {} of {} shards are missing: {}{}",
                parts_.name,
                missing.size(),
                files.size(),
                list,
                missing.size() > kMostListed ? ", ..." : "");
  }

  // Every tensor lies where the index says and nowhere else.
  Result<void> check_index(const std::map<std::string, std::string, std::less<>>& file_of) const {
    std::set<std::string_view> found;
    for (const ShardTensor& shard : tensors_) {
      const std::string& name = shard.tensor.name;
      const auto listed = file_of.find(name);
      if (listed == file_of.end()) {
        return corrupt(shard.file, fmt::format("tensor '{}' is not in {}", name, kIndex));
      }
      if (path_of(listed->second) != shard.file) {
        return corrupt(
            shard.file,
            fmt::format("tensor '{}' should lie in {} by {}", name, listed->second, kIndex));
      }
      found.insert(name);
    }
    for (const auto& [name, file] : file_of) {
      if (found.find(name) == found.end()) {
        return corrupt(path_of(file),
                       fmt::format("tensor '{}' is not there, though {} says so", name, kIndex));
      }
    }
    return {};
  }

  const SafetensorsTensor* find(std::string_view name) const {
    const auto at = by_name_.find(name);
    return at == by_name_.end() ? nullptr : at->second;
  }
  bool has(std::string_view name) const { return find(name) != nullptr; }

  // What the tensors tell about themselves agrees with the settings.
  Result<void> check_config() const {
    const auto disagree = [this](std::string_view setting, std::string_view tensor, bool is_there) {
      return fail(ErrorCode::kCorrupt,
                  "[config] {}: {}, but there is {} tensor {}",
                  path_of(kConfig),
                  setting,
                  is_there ? "a" : "no",
                  tensor);
    };
    if (config_.is_tied == false && !has("lm_head.weight") && !has("lm_head.qweight")) {
      return disagree("tie_word_embeddings is false", "lm_head.weight", false);
    }
    constexpr std::string_view kBias = "model.layers.0.self_attn.q_proj.bias";
    const bool is_int4 = config_.coding.group_size != 0;  // whose writers add biases of zeros
    if (config_.has_attention_bias && !is_int4 && *config_.has_attention_bias != has(kBias)) {
      return disagree(
          *config_.has_attention_bias ? "attention_bias is true" : "attention_bias is false",
          kBias,
          has(kBias));
    }
    return {};
  }

  Result<void> add_tensor(const ShardTensor& shard) {
    const SafetensorsTensor& tensor = shard.tensor;
    if (tensor.name.ends_with(".rotary_emb.inv_freq")) return {};
    if (config_.is_tied == true && tensor.name == "lm_head.weight") return {};
    const auto lookup = [this](const std::string& wanted) { return find(wanted); };
    const TensorRole role = tensor_role(config_.coding, tensor, lookup);
    if (role == TensorRole::kPart) return {};
    const bool is_coded = role == TensorRole::kCodes;
    const auto name = gguf_tensor_name(is_coded ? module_of(tensor.name) + ".weight" : tensor.name);
    if (!name) {
      return fail(ErrorCode::kUnsupported,
                  "[safetensors] {}: tensor '{}' [{}] is none of a dense decoder's",
                  shard.file,
                  tensor.name,
                  fmt::join(tensor.shape, ", "));
    }
    auto view =
        is_coded ? coded_matrix(config_.coding, tensor, lookup, parts_.coded) : plain_view(shard);
    if (!view) {
      return is_coded ? in_file(view.error(), shard.file) : propagate(view);
    }
    // What is looked up, or is no matrix, is read value by value.
    if (is_coded && (*name == "token_embd.weight" || name->ends_with("norm.weight"))) {
      return fail(ErrorCode::kUnsupported,
                  "[safetensors] {}: tensor '{}' of type {}: only matrices that are multiplied may "
                  "be quantised",
                  shard.file,
                  tensor.name,
                  tensor.dtype);
    }
    view->name = parts_.names.emplace_back(*name);
    if (!names_.insert(view->name).second) {
      return corrupt(shard.file,
                     fmt::format("tensor '{}' is the second that holds {}", tensor.name, *name));
    }
    if (view->name == "token_embd.weight" && view->shape[1] != config_.vocab_size) {
      return fail(ErrorCode::kCorrupt,
                  "[config] {}: vocab_size is {}, but {} has {} rows",
                  path_of(kConfig),
                  config_.vocab_size,
                  tensor.name,
                  view->shape[1]);
    }
    mark_split_heads(*view);
    parts_.tensors.push_back(*view);
    return {};
  }

  // Without its name.
  Result<TensorView> plain_view(const ShardTensor& shard) const {
    const SafetensorsTensor& tensor = shard.tensor;
    const auto dtype = plain_type(tensor);
    if (!dtype) return in_file(dtype.error(), shard.file);
    TensorView view;
    view.dtype = *dtype;
    const size_t n_dims = tensor.shape.size();
    if (n_dims < 1 || n_dims > view.shape.size() || std::ranges::count(tensor.shape, 0) > 0) {
      return corrupt(shard.file,
                     fmt::format("tensor '{}' has the shape [{}], expected 1 to 4 lengths above 0",
                                 tensor.name,
                                 fmt::join(tensor.shape, ", ")));
    }
    view.n_dims = static_cast<int>(n_dims);
    std::reverse_copy(tensor.shape.begin(), tensor.shape.end(), view.shape.begin());
    view.data = tensor.data;
    return view;
  }

  // q and k of the Llama family. Biases are small: they are put in order here.
  void mark_split_heads(TensorView& view) {
    const int64_t head_rows = config_.split_head_rows;
    const bool is_turned =
        view.name.ends_with(".attn_q.weight") || view.name.ends_with(".attn_k.weight") ||
        view.name.ends_with(".attn_q.bias") || view.name.ends_with(".attn_k.bias");
    if (head_rows == 0 || !is_turned) return;
    if (view.n_dims == 2 && view.shape[1] % head_rows == 0) view.split_head_rows = head_rows;
    if (view.n_dims != 1 || view.shape[0] % head_rows != 0)
      return;  // misshaped ones are found later
    TensorView column = view;
    column.shape = {1, view.shape[0], 1, 1};
    column.split_head_rows = head_rows;
    std::vector<std::byte>& ordered = parts_.owned.emplace_back(view.data.size());
    const int64_t value_bytes = column.row_bytes();
    for (int64_t i = 0; i < view.shape[0]; ++i) {
      std::memcpy(
          ordered.data() + i * value_bytes, column.row(i), static_cast<size_t>(value_bytes));
    }
    view.data = ordered;
  }

  void add_rope_factors() {
    const std::vector<float>& factors = config_.rope_factors;
    if (factors.empty()) return;
    std::vector<std::byte>& bytes = parts_.owned.emplace_back(factors.size() * sizeof(float));
    std::memcpy(bytes.data(), factors.data(), bytes.size());
    TensorView view;
    view.name = "rope_freqs.weight";
    view.shape[0] = static_cast<int64_t>(factors.size());
    view.data = bytes;
    parts_.tensors.push_back(view);
  }

  fs::path folder_;
  CheckpointParts parts_;
  HuggingFaceConfig config_;
  std::vector<ShardTensor> tensors_;
  std::map<std::string_view, const SafetensorsTensor*> by_name_;
  std::set<std::string_view> names_;  // of tensors that have been added
};

fs::path folder_of(const std::string& path) {
  fs::path folder(path);
  if (folder.filename() == kConfig) folder = folder.has_parent_path() ? folder.parent_path() : ".";
  return folder;
}

}  // namespace

bool is_hugging_face_path(const std::string& path) {
  std::error_code ignored;
  return fs::path(path).filename() == kConfig || fs::is_directory(path, ignored);
}

std::string hugging_face_model_name(const std::string& path) {
  // models--OWNER--NAME/snapshots/COMMIT
  constexpr std::string_view kCached = "models--";
  std::error_code error;
  fs::path folder = fs::absolute(folder_of(path), error).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // a slash at the end
  const fs::path snapshots = folder.parent_path();
  const std::string model = snapshots.parent_path().filename().string();
  if (snapshots.filename() == "snapshots" && model.starts_with(kCached)) {
    const std::string name = model.substr(model.rfind("--") + 2);
    if (!name.empty()) return name;
  }
  return folder.filename().string();
}

Result<Checkpoint> open_hugging_face(const std::string& path) {
  return Opener(folder_of(path)).open();
}

}  // namespace millrace
