#include "formats/hugging_face.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "formats/gguf.h"
#include "formats/hugging_face_names.h"
#include "formats/hugging_face_testing.h"
#include "formats/synth.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing_support::config_of;
using testing_support::folder_tensors;
using testing_support::FolderTensor;
using testing_support::json_of;
using testing_support::safetensors_bytes;
using testing_support::Settings;
using testing_support::TempFolder;
using testing_support::write_text;

// A random model in GGUF and its folder, which tests change.
class HuggingFace : public testing::Test {
 protected:
  HuggingFace() {
    ModelShape shape;
    shape.n_layers = 1;
    shape.has_tokenizer = false;
    shape.has_qkv_bias = true;
    shape.has_output_bias = true;
    shape.n_embd = 16;
    shape.head_dim = 8;
    shape.n_ff = 8;
    shape.n_vocab = 12;
    shape.matrix_std = 1;
    EXPECT_TRUE(write_random_model(folder_.path("model.gguf"), shape, 3));
    gguf_ = *open_gguf(folder_.path("model.gguf"));
    tensors_ = folder_tensors(gguf_);
    config_ = config_of(gguf_, "LlamaForCausalLM", "llama");
  }

  FolderTensor& tensor(const std::string& name) {
    return *std::ranges::find(tensors_, name, &FolderTensor::name);
  }
  void write_config() { write_text(folder_, "config.json", json_of(config_)); }
  void write_single() { folder_.write("model.safetensors", safetensors_bytes(tensors_)); }
  Result<Checkpoint> open() {
    write_config();
    write_single();
    return open_hugging_face(folder_.path(""));
  }

  // Two shards, and an index that says where the tensors are.
  void write_shards(const Settings& changes = {}) {
    fs::remove(folder_.path("model.safetensors"));
    write_config();
    Settings map;
    for (int no = 0; no < 2; ++no) {
      const std::string file = fmt::format("model-0000{}-of-00002.safetensors", no + 1);
      const auto half = tensors_.begin() + static_cast<long>(tensors_.size() / 2);
      const std::vector<FolderTensor> part(no == 0 ? tensors_.begin() : half,
                                           no == 0 ? half : tensors_.end());
      folder_.write(file, safetensors_bytes(part));
      for (const FolderTensor& tensor : part) map[tensor.name] = "\"" + file + "\"";
    }
    for (const auto& [name, file] : changes) {
      map[name] = file;
      if (file.empty()) map.erase(name);
    }
    write_text(folder_,
               "model.safetensors.index.json",
               R"({"metadata": {"total_size": 1}, "weight_map": )" + json_of(map) + "}");
  }

  void expect_error(const Result<Checkpoint>& result,
                    ErrorCode code,
                    const testing::Matcher<const std::string&>& message) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, code) << result.error().message;
    EXPECT_THAT(result.error().message, AllOf(HasSubstr(folder_.path("")), message));
  }

  TempFolder folder_;
  Checkpoint gguf_;
  std::vector<FolderTensor> tensors_;
  Settings config_;
};

// Bit for bit, by name, with rows where they belong.
void expect_same_tensors(const Checkpoint& folder, const Checkpoint& gguf) {
  ASSERT_EQ(folder.tensors().size(), gguf.tensors().size());
  for (const TensorView& want : gguf.tensors()) {
    const TensorView* got = folder.find(want.name);
    ASSERT_NE(got, nullptr) << want.name;
    EXPECT_EQ(got->dtype, want.dtype) << want.name;
    EXPECT_EQ(got->shape, want.shape) << want.name;
    EXPECT_EQ(got->n_dims, want.n_dims) << want.name;
    ASSERT_EQ(got->data.size(), want.data.size()) << want.name;
    for (int64_t r = 0; r < want.n_rows(); ++r) {
      EXPECT_EQ(std::memcmp(got->row(r), want.row(r), static_cast<size_t>(want.row_bytes())), 0)
          << want.name << " row " << r;
    }
  }
}

TEST_F(HuggingFace, tensors_are_those_of_the_gguf_file) {
  const auto folder = open();
  ASSERT_TRUE(folder) << folder.error().message;
  expect_same_tensors(*folder, gguf_);
  EXPECT_EQ(folder->find("blk.0.attn_q.weight")->split_head_rows, 8);
  EXPECT_NE(std::memcmp(folder->find("blk.0.attn_q.weight")->data.data(),
                        gguf_.find("blk.0.attn_q.weight")->data.data(),
                        16 * 4 * 8),
            0);
  EXPECT_EQ(folder->find("blk.0.attn_v.weight")->split_head_rows, 0);
  EXPECT_EQ(folder->format(), CheckpointFormat::kSafetensors);
  EXPECT_EQ(folder->n_shards(), 1);
  EXPECT_EQ(folder->file_bytes(),
            fs::file_size(folder_.path("config.json")) +
                fs::file_size(folder_.path("model.safetensors")));
  EXPECT_EQ(folder->name_in_file("blk.0.attn_q.bias"), "model.layers.0.self_attn.q_proj.bias");
  folder->drop_pages();
  expect_same_tensors(*folder, gguf_);
}

TEST_F(HuggingFace, the_configuration_may_be_named_instead_of_the_folder) {
  ASSERT_TRUE(open());
  EXPECT_TRUE(open_hugging_face(folder_.path("config.json")));
  EXPECT_TRUE(is_hugging_face_path(folder_.path("config.json")));
  EXPECT_TRUE(is_hugging_face_path(folder_.path("")));
  EXPECT_FALSE(is_hugging_face_path(folder_.path("model.gguf")));
  EXPECT_FALSE(is_hugging_face_path(folder_.path("nothing")));
}

TEST_F(HuggingFace, shards_give_what_one_file_gives) {
  write_shards();
  const auto folder = open_hugging_face(folder_.path(""));
  ASSERT_TRUE(folder) << folder.error().message;
  EXPECT_EQ(folder->n_shards(), 2);
  expect_same_tensors(*folder, gguf_);
  // One file comes first, as for transformers.
  write_single();
  EXPECT_EQ(open_hugging_face(folder_.path(""))->n_shards(), 1);
}

TEST_F(HuggingFace, an_index_that_does_not_fit_its_shards_is_refused) {
  const std::string first = tensors_.front().name, last = tensors_.back().name;
  const std::string shard1 = "\"model-00001-of-00002.safetensors\"";
  const auto index_error = [&](const Settings& changes, ErrorCode code, const std::string& words) {
    write_shards(changes);
    expect_error(open_hugging_face(folder_.path("")), code, HasSubstr(words));
  };
  using enum ErrorCode;
  index_error({{last, shard1}}, kCorrupt, fmt::format("'{}' should lie in", last));
  index_error({{last, ""}}, kCorrupt, fmt::format("'{}' is not in model.safetensors.index", last));
  index_error({{"x", shard1}}, kCorrupt, "tensor 'x' is not there, though");
  index_error({{"x", "\"a.safetensors\""}}, kNotFound, "1 of 3 shards are missing: a.safetensors");
  for (const char* file :
       {"\"../a.safetensors\"", "\"/a.safetensors\"", "\"a.bin\"", "7", "null"}) {
    index_error({{"x", file}}, kCorrupt, "tensor 'x' is listed with no name");
  }
  // A tensor that two shards have.
  tensors_.push_back(tensors_.front());
  write_shards();
  expect_error(open_hugging_face(folder_.path("")),
               kCorrupt,
               HasSubstr(fmt::format("'{}' should lie in", first)));
  for (const auto& [index, words] :
       {std::pair("{", "is not JSON"),
        std::pair("{}", "no weight_map"),
        std::pair(R"({"weight_map": []})", "no weight_map"),
        std::pair(R"({"weight_map": {"a": "x.safetensors", "a": "x.safetensors"}})",
                  "'a' twice")}) {
    write_text(folder_, "model.safetensors.index.json", index);
    expect_error(open_hugging_face(folder_.path("")),
                 kCorrupt,
                 AllOf(HasSubstr("index.json"), HasSubstr(words)));
  }
}

TEST_F(HuggingFace, what_a_folder_lacks_is_named) {
  const std::string nowhere = folder_.path("nowhere");
  const auto nothing = open_hugging_face(nowhere + "/config.json");
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(nothing.error().message, HasSubstr(nowhere));
  expect_error(open_hugging_face(folder_.path("")),
               ErrorCode::kInvalidArgument,
               HasSubstr("name a GGUF file in it, as " + folder_.path("model.gguf")));
  fs::rename(folder_.path("model.gguf"), folder_.path("pytorch_model.bin"));
  expect_error(open_hugging_face(folder_.path("")),
               ErrorCode::kInvalidArgument,
               HasSubstr("a folder without config.json"));
  write_config();
  expect_error(open_hugging_face(folder_.path("")),
               ErrorCode::kUnsupported,
               AllOf(HasSubstr("neither model.safetensors nor"), HasSubstr("save_pretrained")));
  write_text(folder_, "config.json", "version https://git-lfs.github.com/spec/v1\n");
  expect_error(open_hugging_face(folder_.path("")),
               ErrorCode::kCorrupt,
               HasSubstr("config.json is a Git LFS pointer"));
}

TEST_F(HuggingFace, a_link_to_nothing_is_not_taken_for_no_file) {
  for (const char* name :
       {"generation_config.json", "tokenizer_config.json", "model.safetensors"}) {
    ASSERT_TRUE(open()) << name;
    fs::remove(folder_.path(name));
    fs::create_symlink("../../blobs/0123", folder_.path(name));
    expect_error(open_hugging_face(folder_.path("")),
                 ErrorCode::kCorrupt,
                 AllOf(HasSubstr(name), HasSubstr("link to ../../blobs/0123, which is not there")));
    fs::remove(folder_.path(name));
  }
}

TEST_F(HuggingFace, a_tied_head_is_left_out_and_a_missing_one_is_not) {
  config_["tie_word_embeddings"] = "true";  // and yet lm_head.weight is there
  const auto tied = open();
  ASSERT_TRUE(tied) << tied.error().message;
  EXPECT_EQ(tied->find("output.weight"), nullptr);
  std::erase_if(tensors_, [](const FolderTensor& t) { return t.name == "lm_head.weight"; });
  EXPECT_TRUE(open());
  config_["tie_word_embeddings"] = "false";
  expect_error(open(),
               ErrorCode::kCorrupt,
               HasSubstr("tie_word_embeddings is false, but there is no tensor lm_head.weight"));
  config_.erase("tie_word_embeddings");
  EXPECT_TRUE(open());
}

TEST_F(HuggingFace, settings_that_the_tensors_contradict_are_refused) {
  config_["attention_bias"] = "false";
  expect_error(open(),
               ErrorCode::kCorrupt,
               HasSubstr("attention_bias is false, but there is a tensor model.layers.0"));
  std::erase_if(tensors_, [](const FolderTensor& t) { return t.name.ends_with(".bias"); });
  EXPECT_TRUE(open());
  config_["attention_bias"] = "true";
  expect_error(open(),
               ErrorCode::kCorrupt,
               HasSubstr("attention_bias is true, but there is no tensor model.layers.0"));
  config_.erase("attention_bias");
  config_["vocab_size"] = "13";
  expect_error(open(),
               ErrorCode::kCorrupt,
               HasSubstr("vocab_size is 13, but model.embed_tokens.weight has 12 rows"));
}

TEST_F(HuggingFace, tensors_that_are_no_part_of_the_decoder_are_refused_by_name) {
  tensors_.push_back(
      {"model.layers.0.self_attn.rotary_emb.inv_freq", "F32", {1}, std::vector<std::byte>(4)});
  EXPECT_TRUE(open());
  const auto with_tensor = [&](const FolderTensor& tensor) {
    tensors_.push_back(tensor);
    auto result = open();
    tensors_.pop_back();
    return result;
  };
  using enum ErrorCode;
  for (const char* name : {"score.weight",
                           "model.layers.0.mlp.experts.0.w1.weight",
                           "model.layers.00.mlp.up_proj.weight",
                           "model.layers.x.mlp.up_proj.weight",
                           "model.layers.1",
                           "model.layers.1.mlp.up_proj.qweight"}) {
    expect_error(with_tensor({name, "F32", {1}, std::vector<std::byte>(4)}),
                 kUnsupported,
                 AllOf(HasSubstr(name), HasSubstr("none of a dense decoder's")));
  }
  tensor("model.norm.weight").dtype = "I32";
  expect_error(open(), kUnsupported, HasSubstr("'model.norm.weight' has type I32, expected F32"));
  tensor("model.norm.weight").dtype = "F32";
  tensor("model.norm.weight").shape = {1, 1, 1, 1, 16};
  expect_error(open(), kCorrupt, HasSubstr("'model.norm.weight' has the shape [1, 1, 1, 1, 16]"));
  tensor("model.norm.weight").shape = {};
  tensor("model.norm.weight").bytes.resize(4);
  expect_error(open(), kCorrupt, HasSubstr("'model.norm.weight' has the shape []"));
  tensor("model.norm.weight").shape = {0};
  tensor("model.norm.weight").bytes.clear();
  expect_error(open(), kCorrupt, HasSubstr("'model.norm.weight' has the shape [0]"));
}

TEST_F(HuggingFace, other_files_of_the_folder_come_along) {
  write_text(folder_, "tokenizer.json", "{\"a\": 1}");
  write_text(folder_, "generation_config.json", "");
  const auto folder = open();
  ASSERT_TRUE(folder);
  EXPECT_EQ(folder->side_file("tokenizer.json"), "{\"a\": 1}");
  EXPECT_EQ(folder->side_file("generation_config.json"), "");
  EXPECT_EQ(folder->side_file("config.json"), json_of(config_));
  EXPECT_EQ(folder->side_file("chat_template.jinja"), std::nullopt);
  EXPECT_EQ(folder->side_file("model.gguf"), std::nullopt);
  EXPECT_EQ(folder->contents().size(), 4u);  // these three, and the tensors
  EXPECT_EQ(gguf_.side_file("tokenizer.json"), std::nullopt);
}

TEST(HuggingFaceNames, go_there_and_back) {
  for (const char* name : {"token_embd.weight",
                           "output_norm.weight",
                           "output.weight",
                           "blk.0.attn_norm.weight",
                           "blk.17.attn_q.bias",
                           "blk.17.attn_k_norm.weight",
                           "blk.100.ffn_down.weight"}) {
    const std::string there = hugging_face_tensor_name(name);
    EXPECT_NE(there, name);
    EXPECT_EQ(there, testing_support::folder_tensor_name(name));
    EXPECT_EQ(gguf_tensor_name(there), name);
  }
  EXPECT_EQ(hugging_face_tensor_name("rope_freqs.weight"), "rope_freqs.weight");
  EXPECT_EQ(gguf_tensor_name("blk.0.attn_norm.weight"), std::nullopt);
}

TEST(HuggingFaceNames, a_model_is_called_as_its_folder) {
  EXPECT_EQ(hugging_face_model_name("/models/Qwen3-0.6B"), "Qwen3-0.6B");
  EXPECT_EQ(hugging_face_model_name("/models/Qwen3-0.6B/"), "Qwen3-0.6B");
  EXPECT_EQ(hugging_face_model_name("/models/Qwen3-0.6B/config.json"), "Qwen3-0.6B");
  EXPECT_EQ(hugging_face_model_name("."), fs::current_path().filename().string());
  EXPECT_EQ(hugging_face_model_name("config.json"), fs::current_path().filename().string());
  EXPECT_EQ(hugging_face_model_name("/hub/models--Qwen--Qwen3-0.6B/snapshots/c1899de289a0"),
            "Qwen3-0.6B");
  EXPECT_EQ(hugging_face_model_name("/hub/models--Qwen--/snapshots/c1899de289a0"), "c1899de289a0");
}

// A change of any file gives an error that names the folder, or a consistent checkpoint.
TEST_F(HuggingFace, changed_bytes_never_do_more_than_fail) {
  write_text(folder_, "generation_config.json", R"({"eos_token_id": 2})");
  write_shards();
  const std::vector<std::string> names = {
      "config.json", "model.safetensors.index.json", "model-00001-of-00002.safetensors"};
  std::map<std::string, std::vector<std::byte>> originals;
  for (const std::string& name : names) {
    std::ifstream file(folder_.path(name), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const auto bytes = testing_support::bytes_of(text);
    originals[name].assign(bytes.begin(), bytes.end());
  }
  std::mt19937 random(1);
  int n_refused = 0, n_opened = 0;
  for (int round = 0; round < 2000; ++round) {
    const std::string& name = names[random() % names.size()];
    std::vector<std::byte> bytes = originals[name];
    static constexpr char kEdges[] = {0, 0x7f, '"', ',', ']', '}', '{', '0', '9', '-', '.', '\\'};
    // Mostly where the header is.
    const size_t n_hot = random() % 8 == 0 ? bytes.size() : std::min<size_t>(bytes.size(), 1500);
    for (int n = static_cast<int>(random() % 3); n >= 0; --n) {
      bytes[random() % n_hot] = random() % 2 == 0
                                    ? static_cast<std::byte>(kEdges[random() % sizeof(kEdges)])
                                    : static_cast<std::byte>(random());
    }
    if (round % 8 == 7) bytes.resize(random() % bytes.size());
    folder_.write(name, bytes);
    const auto folder = open_hugging_face(folder_.path(""));
    folder_.write(name, originals[name]);
    if (!folder) {
      ++n_refused;
      EXPECT_THAT(folder.error().message, HasSubstr(folder_.path("")));
      continue;
    }
    ++n_opened;
    for (const TensorView& tensor : folder->tensors()) {
      EXPECT_EQ(folder->find(tensor.name), &tensor);
      ASSERT_EQ(static_cast<int64_t>(tensor.data.size()), tensor.n_rows() * tensor.row_bytes());
      for (int64_t r = 0; r < tensor.n_rows(); ++r) {
        ASSERT_GE(tensor.row(r), tensor.data.data());
        ASSERT_LE(tensor.row(r) + tensor.row_bytes(), tensor.data.data() + tensor.data.size());
      }
    }
  }
  EXPECT_GT(n_refused, 500);
  EXPECT_GT(n_opened, 100);
}

}  // namespace
}  // namespace millrace
