// What is planned from a file is what loading it allocates.

#include "model/memory_need.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "formats/gguf.h"
#include "formats/synth.h"
#include "model/model.h"
#include "model/weights.h"

namespace millrace {
namespace {

class MemoryNeedTest : public testing::Test {
 protected:
  MemoryNeedTest()
      : path_(std::filesystem::temp_directory_path() /
              ("millrace_memory_need_" + std::to_string(getpid()) + ".gguf")) {}
  ~MemoryNeedTest() override { std::filesystem::remove(path_); }

  void expect_equal(const ModelShape& shape, int n_workers, int max_tokens) {
    SCOPED_TRACE(shape.architecture + " " + dtype_info(shape.dtype).name);
    ASSERT_TRUE(write_random_model(path_.string(), shape, 1));
    const auto file = open_gguf(path_.string());
    ASSERT_TRUE(file) << file.error().message;
    const auto spec = read_model_spec(*file);
    ASSERT_TRUE(spec) << spec.error().message;
    const PageFormat format{default_kv_type(*file), spec->head_dim};
    WorkerPool pool(n_workers);
    for (const kernels::Isa isa : {kernels::Isa::kScalar, kernels::detect_isa()}) {
      const MemoryNeed need = memory_need(*file, *spec, format, max_tokens, isa);
      const auto model =
          Model::load(*file, {.isa = isa, .pool = &pool, .max_batch_tokens = max_tokens});
      ASSERT_TRUE(model) << model.error().message;
      EXPECT_EQ(need.weight_bytes, (*model)->weight_bytes());
      EXPECT_EQ(need.scratch.total(n_workers), (*model)->scratch_bytes());
      EXPECT_EQ((*model)->page_format(), format);
    }
  }

  const std::filesystem::path path_;
};

TEST_F(MemoryNeedTest, is_what_loading_allocates_for_every_type) {
  for (const DTypeInfo& info : all_dtypes()) {
    ModelShape shape;
    shape.n_embd = 256;
    shape.n_ff = 512;
    shape.dtype = info.dtype;
    if (info.encode != nullptr) {
      expect_equal(shape, 2, 100);
    }
  }
}

TEST_F(MemoryNeedTest, is_what_loading_allocates_for_every_family) {
  for (const auto& [architecture, is_tied] : std::vector<std::pair<const char*, bool>>{
           {"llama", true}, {"qwen2", false}, {"qwen3", true}}) {
    ModelShape shape;
    shape.architecture = architecture;
    shape.is_tied = is_tied;
    shape.has_qkv_bias = shape.architecture == "qwen2";
    shape.has_qk_norm = shape.architecture == "qwen3";
    shape.n_ff = 2048;  // wider than the heads
    shape.n_vocab = 333;
    shape.dtype = DType::kQ8_0;
    expect_equal(shape, 3, 17);
  }
}

// Rows in multiples of 32, vectors as F32, and nothing else.
TEST_F(MemoryNeedTest, weights_take_what_they_take_in_the_file) {
  for (const DType dtype : {DType::kQ2_K, DType::kQ4_K, DType::kQ5_1, DType::kBF16}) {
    ModelShape shape;
    shape.n_embd = 256;
    shape.n_ff = 512;
    shape.dtype = dtype;
    ASSERT_TRUE(write_random_model(path_.string(), shape, 1));
    const auto file = open_gguf(path_.string());
    ASSERT_TRUE(file);
    const auto spec = read_model_spec(*file);
    size_t file_bytes = 0;
    for (const TensorView& tensor : file->tensors()) {
      file_bytes += tensor.data.size();
    }
    EXPECT_EQ(memory_need(*file, *spec, {KvType::kBF16, 16}, 1, kernels::Isa::kScalar).weight_bytes,
              file_bytes)
        << dtype_info(dtype).name;
  }
}

}  // namespace
}  // namespace millrace
