// Folders with quantised weights against folders with the numbers that these stand for.

#include "model/coded_weights.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/worker_pool.h"
#include "formats/gguf.h"
#include "formats/hugging_face.h"
#include "formats/hugging_face_testing.h"
#include "model/golden_testing.h"
#include "model/memory_need.h"
#include "model/model.h"
#include "tensor/half.h"

namespace millrace {
namespace {

using testing::HasSubstr;
using testing_support::config_of;
using testing_support::folder_tensors;
using testing_support::FolderTensor;
using testing_support::json_of;
using testing_support::safetensors_bytes;
using testing_support::Settings;
using testing_support::TempFolder;
using testing_support::write_text;

template <class T>
std::vector<std::byte> raw(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

std::vector<float> floats(const FolderTensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

std::string module_of(const FolderTensor& tensor) {
  return tensor.name.substr(0, tensor.name.rfind('.'));
}

// A matrix as a folder holds it, and the numbers that it stands for.
struct Coded {
  std::vector<FolderTensor> parts;
  std::vector<float> values;
};

// By OCP's definition.
float e4m3(uint8_t code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  const float magnitude = exponent == 0 ? std::ldexp(float(mantissa), -9)
                                        : std::ldexp(float(8 + mantissa), exponent - 10);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

// rows x columns share a scale; 0: all.
Coded to_fp8(const FolderTensor& matrix, int64_t rows, int64_t columns, const char* part) {
  const int64_t n_out = matrix.shape[0], n_in = matrix.shape[1];
  rows = rows == 0 ? n_out : rows;
  columns = columns == 0 ? n_in : columns;
  const std::vector<float> values = floats(matrix);
  const int64_t n_across = (n_in + columns - 1) / columns;
  std::vector<float> scales(size_t((n_out + rows - 1) / rows * n_across));
  const auto scale_of = [&](int64_t n, int64_t k) -> float& {
    return scales[size_t(n / rows * n_across + k / columns)];
  };
  for (int64_t n = 0; n < n_out; ++n) {
    for (int64_t k = 0; k < n_in; ++k) {
      float& scale = scale_of(n, k);
      scale = std::max(scale, std::abs(values[size_t(n * n_in + k)]) / 448);
    }
  }
  std::vector<uint8_t> codes(values.size());
  Coded coded;
  for (int64_t n = 0; n < n_out; ++n) {
    for (int64_t k = 0; k < n_in; ++k) {
      const auto i = size_t(n * n_in + k);
      codes[i] = f32_to_e4m3(values[i] / scale_of(n, k));
      coded.values.push_back(e4m3(codes[i]) * scale_of(n, k));
    }
  }
  const bool is_channel = rows == 1;
  std::vector<int64_t> shape = {(n_out + rows - 1) / rows, n_across};
  if (!is_channel && rows == n_out && columns == n_in) shape = {};
  coded.parts = {{matrix.name, "F8_E4M3", matrix.shape, raw(codes)},
                 {module_of(matrix) + "." + part, "F32", shape, raw(scales)},
                 {module_of(matrix) + ".input_scale", "F32", {}, raw(std::vector<float>{1})}};
  return coded;
}

struct Int4Style {
  bool is_awq = true;
  int group = 128;
  uint32_t offset = 0;  // what the words of zero points are stored less
};

// Eight codes to a word, those of AWQ in the order 0 2 4 6 1 3 5 7.
template <class Get>
uint32_t word_of(bool is_awq, const Get& get) {
  static constexpr int kOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};
  uint32_t word = 0;
  for (int i = 0; i < 8; ++i) word |= uint32_t(get(is_awq ? kOrder[i] : i)) << (4 * i);
  return word;
}

Coded to_int4(const FolderTensor& matrix, const Int4Style& style) {
  const int64_t n_out = matrix.shape[0], n_in = matrix.shape[1], n_groups = n_in / style.group;
  const std::vector<float> values = floats(matrix);
  std::vector<uint16_t> scales(size_t(n_groups * n_out));  // [group][output]
  std::vector<int> zeros(scales.size()), codes(values.size());
  Coded coded;
  coded.values.resize(values.size());
  for (int64_t n = 0; n < n_out; ++n) {
    for (int64_t g = 0; g < n_groups; ++g) {
      const float* group = values.data() + n * n_in + g * style.group;
      const auto [low, high] = std::minmax_element(group, group + style.group);
      const uint16_t half = f32_to_f16((*high - *low) / 15);
      const float scale = f16_to_f32(half);
      // Less the offset, a zero point of 0 borrows from the next of its word.
      const bool borrows = style.offset != 0 && n % 5 == 0;
      const int zero = borrows ? 0 : std::clamp(int(std::lround(-*low / scale)), 0, 15);
      scales[size_t(g * n_out + n)] = half;
      zeros[size_t(g * n_out + n)] = zero;
      for (int64_t k = g * style.group; k < (g + 1) * style.group; ++k) {
        const auto i = size_t(n * n_in + k);
        codes[i] = std::clamp(int(std::lround(values[i] / scale)) + zero, 0, 15);
        coded.values[i] = scale * float(codes[i] - zero);
      }
    }
  }
  const auto code = [&](int64_t n, int64_t k) { return codes[size_t(n * n_in + k)]; };
  std::vector<uint32_t> words, zero_words;
  if (style.is_awq) {
    for (int64_t k = 0; k < n_in; ++k) {
      for (int64_t n = 0; n < n_out; n += 8) {
        words.push_back(word_of(true, [&](int i) { return code(n + i, k); }));
      }
    }
  } else {
    for (int64_t k = 0; k < n_in; k += 8) {
      for (int64_t n = 0; n < n_out; ++n) {
        words.push_back(word_of(false, [&](int i) { return code(n, k + i); }));
      }
    }
  }
  for (int64_t g = 0; g < n_groups; ++g) {
    for (int64_t n = 0; n < n_out; n += 8) {
      zero_words.push_back(
          word_of(style.is_awq, [&](int i) { return zeros[size_t(g * n_out + n + i)]; }) -
          style.offset);
    }
  }
  const std::string module = module_of(matrix) + ".";
  const std::vector<int64_t> shape =
      style.is_awq ? std::vector<int64_t>{n_in, n_out / 8} : std::vector<int64_t>{n_in / 8, n_out};
  coded.parts = {{module + "qweight", "I32", shape, raw(words)},
                 {module + "qzeros", "I32", {n_groups, n_out / 8}, raw(zero_words)},
                 {module + "scales", "F16", {n_groups, n_out}, raw(scales)}};
  if (!style.is_awq) {
    std::vector<int32_t> index(static_cast<size_t>(n_in));
    for (int64_t k = 0; k < n_in; ++k) index[size_t(k)] = int32_t(k / style.group);
    coded.parts.push_back({module + "g_idx", "I32", {n_in}, raw(index)});
  }
  return coded;
}

std::vector<float> logits_of(const std::string& path, const std::vector<TokenId>& tokens) {
  const auto folder = open_hugging_face(path);
  EXPECT_TRUE(folder) << folder.error().message;
  if (!folder) return {};
  WorkerPool pool(3);
  const auto model = Model::load(*folder, {.pool = &pool, .kv_type = KvType::kF32});
  EXPECT_TRUE(model) << model.error().message;
  if (!model) return {};
  const ModelSpec& spec = (*model)->spec();
  const PageFormat format = (*model)->page_format();
  EXPECT_EQ((*model)->weight_bytes(),
            memory_need(*folder, spec, format, 512, (*model)->isa()).weight_bytes);
  std::vector<BlockId> blocks(tokens.size() / PageFormat::kTokens + 1);
  std::iota(blocks.begin(), blocks.end(), 0);
  auto kv = KvMemory::create(format, spec.n_layers, spec.n_kv_heads, int64_t(blocks.size()));
  std::vector<float> logits(tokens.size() * size_t(spec.n_vocab));
  const Span span{tokens, 0, blocks, int(tokens.size())};
  (*model)->forward({{&span, 1}}, *kv, logits);
  return logits;
}

using Encode = std::function<Coded(const FolderTensor&)>;

struct Case {
  const char* name;
  const char* golden;  // decoded to F32
  const char* architecture;
  const char* model_type;
  const char* settings;  // quantization_config
  Encode encode;
  // Largest error by the deviation of the logits, and the mean square of it: of f32, and of
  // activations of 8 bits (golden_test.cpp).
  double largest = 1e-4;
  double mean_square = 1e-9;
};

Case fp8_case(const char* name, const char* settings, Encode encode) {
  return {name, "llama_q8_0", "LlamaForCausalLM", "llama", settings, std::move(encode)};
}

Case int4_case(const char* name, const char* golden, const char* settings, const Int4Style& style) {
  const bool is_qwen = std::string_view(golden).starts_with("qwen2");
  return {name,
          golden,
          is_qwen ? "Qwen2ForCausalLM" : "LlamaForCausalLM",
          is_qwen ? "qwen2" : "llama",
          settings,
          [style](const FolderTensor& matrix) { return to_int4(matrix, style); },
          0.06,
          2e-4};
}

std::vector<Case> cases() {
  const auto blocks = [](const FolderTensor& m) { return to_fp8(m, 128, 128, "weight_scale_inv"); };
  const auto rows = [](const FolderTensor& m) { return to_fp8(m, 1, 0, "weight_scale"); };
  const auto whole = [](const FolderTensor& m) { return to_fp8(m, 0, 0, "weight_scale"); };
  return {
      fp8_case("fp8_blocks",
               R"({"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",)"
               R"( "weight_block_size": [128, 128]})",
               blocks),
      fp8_case("fp8_tensor", R"({"quant_method": "fp8", "activation_scheme": "static"})", whole),
      fp8_case("compressed_channel",
               R"({"quant_method": "compressed-tensors", "format": "float-quantized",)"
               R"( "config_groups": {"group_0": {"targets": ["Linear"], "weights":)"
               R"( {"num_bits": 8, "type": "float", "strategy": "channel"}}}})",
               rows),
      int4_case("awq_128",
                "llama_q8_0",
                R"({"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm",)"
                R"( "zero_point": true})",
                {true, 128, 0}),
      int4_case("awq_32",
                "qwen2_q4_k",
                R"({"quant_method": "awq", "bits": 4, "group_size": 32})",
                {true, 32, 0}),
      int4_case("gptq_128",
                "qwen2_q4_k",
                R"({"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": false,)"
                R"( "sym": false})",
                {false, 128, 0x11111111}),
      int4_case("gptq_v2_64",
                "llama_q8_0",
                R"({"quant_method": "gptq", "bits": 4, "group_size": 64,)"
                R"( "checkpoint_format": "gptq_v2"})",
                {false, 64, 0}),
  };
}

// What a case starts from: F32 everywhere.
struct Source {
  explicit Source(const Case& c) {
    golden = test::read_golden(c.golden);
    for (test::GoldenTensor& tensor : golden.tensors) {
      int64_t n = 1;
      for (const int64_t length : tensor.shape) n *= length;
      std::vector<float> values(static_cast<size_t>(n));
      dtype_info(tensor.dtype).decode(tensor.bytes.data(), values.data(), n);
      tensor.bytes = raw(values);
      tensor.dtype = DType::kF32;
    }
    const Buffer bytes = golden.gguf();
    const Checkpoint gguf = *parse_gguf(bytes.bytes(), c.golden);
    config = config_of(gguf, c.architecture, c.model_type);
    tensors = folder_tensors(gguf);
  }
  test::GoldenModel golden;
  Settings config;
  std::vector<FolderTensor> tensors;
};

bool is_quantised(const FolderTensor& tensor) {
  return tensor.name.ends_with("_proj.weight");
}

void write_folder(const TempFolder& folder,
                  Settings config,
                  const std::string& settings,
                  const std::vector<FolderTensor>& tensors) {
  if (!settings.empty()) config["quantization_config"] = settings;
  write_text(folder, "config.json", json_of(config));
  folder.write("model.safetensors", safetensors_bytes(tensors));
}

class CodedWeights : public testing::TestWithParam<Case> {};

TEST_P(CodedWeights, give_the_logits_of_the_numbers_that_they_stand_for) {
  const Source source(GetParam());
  std::vector<FolderTensor> coded, plain;
  for (const FolderTensor& tensor : source.tensors) {
    plain.push_back(tensor);
    if (!is_quantised(tensor)) {
      coded.push_back(tensor);
      continue;
    }
    const Coded made = GetParam().encode(tensor);
    coded.insert(coded.end(), made.parts.begin(), made.parts.end());
    plain.back().bytes = raw(made.values);
  }
  const TempFolder coded_folder, plain_folder;
  write_folder(coded_folder, source.config, GetParam().settings, coded);
  write_folder(plain_folder, source.config, "", plain);
  const auto got = logits_of(coded_folder.path(""), source.golden.tokens);
  const auto want = logits_of(plain_folder.path(""), source.golden.tokens);
  ASSERT_EQ(got.size(), want.size());
  ASSERT_FALSE(got.empty());
  double squares = 0, errors = 0, largest = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double error = std::abs(double(got[i]) - want[i]);
    ASSERT_TRUE(std::isfinite(error));
    squares += double(want[i]) * want[i];
    errors += error * error;
    largest = std::max(largest, error);
  }
  const double deviation = std::sqrt(squares / double(want.size()));
  std::printf("    largest error %.2e of the deviation, NMSE %.1e\n",
              largest / deviation,
              errors / squares);
  EXPECT_LT(largest, GetParam().largest * deviation);
  EXPECT_LT(errors / squares, GetParam().mean_square);
}

INSTANTIATE_TEST_SUITE_P(Codings, CodedWeights, testing::ValuesIn(cases()), [](const auto& info) {
  return std::string(info.param.name);
});

// The matrices of a case, of which a test breaks something.
class CodedFolder : public testing::Test {
 protected:
  std::string error(const char* case_name,
                    const std::string& settings = "",
                    const std::function<void(std::vector<FolderTensor>&)>& change = {}) {
    const std::vector<Case> all = cases();
    const Case& c = *std::ranges::find(all, std::string_view(case_name), [](const Case& one) {
      return std::string_view(one.name);
    });
    const Source source(c);
    std::vector<FolderTensor> tensors;
    for (const FolderTensor& tensor : source.tensors) {
      const Coded made = is_quantised(tensor) ? c.encode(tensor) : Coded{{tensor}, {}};
      tensors.insert(tensors.end(), made.parts.begin(), made.parts.end());
    }
    if (change) change(tensors);
    write_folder(folder_, source.config, settings.empty() ? c.settings : settings, tensors);
    const auto opened = open_hugging_face(folder_.path(""));
    if (!opened) return opened.error().message;
    const auto spec = read_model_spec(*opened);
    return spec ? "no error" : spec.error().message;
  }

  TempFolder folder_;
};

FolderTensor& find(std::vector<FolderTensor>& tensors, const std::string& name) {
  return *std::ranges::find(tensors, name, &FolderTensor::name);
}

TEST_F(CodedFolder, settings_that_are_not_known_are_refused_by_name) {
  const std::pair<const char*, const char*> settings[] = {
      {R"({"quant_method": "bitsandbytes"})", "quant_method is bitsandbytes"},
      {R"({"bits": 4})", "quant_method is missing"},
      {R"({"quant_method": "fp8", "fmt": "e5m2"})", "fmt is e5m2"},
      {R"({"quant_method": "fp8", "weight_block_size": [64, 128]})",
       "weight_block_size is [64,128]"},
      {R"({"quant_method": "compressed-tensors", "format": "pack-quantized"})",
       "format is pack-quantized"},
      {R"({"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups":)"
       R"( {"g": {"weights": {"type": "int", "num_bits": 8}}}})",
       "config_groups.g.weights.type is int"},
      {R"({"quant_method": "awq", "bits": 8, "group_size": 128})", "bits is 8"},
      {R"({"quant_method": "awq", "bits": 4, "group_size": -1})", "group_size is -1"},
      {R"({"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemv"})",
       "version is gemv"},
      {R"({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": false})",
       "zero_point is false"},
      {R"({"quant_method": "gptq", "bits": 4, "group_size": 16})", "group_size is 16"},
      {R"({"quant_method": "gptq", "bits": 4, "group_size": 128, "checkpoint_format": "marlin"})",
       "checkpoint_format is marlin"},
  };
  for (const auto& [text, words] : settings) {
    EXPECT_THAT(error("fp8_blocks", text), HasSubstr(words)) << text;
  }
}

TEST_F(CodedFolder, parts_that_do_not_fit_are_named) {
  const std::string up = "model.layers.0.mlp.up_proj";
  EXPECT_EQ(error("gptq_128"), "no error");
  const auto without = [&](const std::string& name) {
    return [name](auto& tensors) {
      std::erase_if(tensors, [&](const FolderTensor& t) { return t.name == name; });
    };
  };
  EXPECT_THAT(error("awq_32", "", without(up + ".scales")), HasSubstr("no '" + up + ".scales'"));
  EXPECT_THAT(error("awq_32", "", without(up + ".qzeros")), HasSubstr("no '" + up + ".qzeros'"));
  EXPECT_THAT(error("awq_32", "", without(up + ".qweight")), HasSubstr("'" + up));
  EXPECT_THAT(error("fp8_blocks", "", without(up + ".weight_scale_inv")),
              HasSubstr("'" + up + ".weight' has no"));
  EXPECT_THAT(error("fp8_blocks",
                    "",
                    [&](auto& tensors) {
                      FolderTensor other = find(tensors, up + ".weight_scale_inv");
                      other.name = up + ".weight_scale";
                      tensors.push_back(other);
                    }),
              HasSubstr("both '" + up + ".weight_scale_inv' and '" + up + ".weight_scale'"));
  EXPECT_THAT(error("fp8_blocks",
                    "",
                    [&](auto& tensors) {
                      find(tensors, up + ".weight_scale_inv").shape = {8, 1};
                    }),
              HasSubstr(up + ".weight_scale_inv' is F32 [8, 1]"));
  EXPECT_THAT(
      error("gptq_128", "", [&](auto& tensors) { find(tensors, up + ".scales").dtype = "BF16"; }),
      HasSubstr(up + ".scales' is BF16"));
  EXPECT_THAT(error("gptq_128",
                    "",
                    [&](auto& tensors) { find(tensors, up + ".g_idx").bytes[0] = std::byte{1}; }),
              HasSubstr("desc_act"));
  // Said to be in another order, without the order; and with one that changes nothing.
  const char* ordered =
      R"({"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": true})";
  EXPECT_THAT(error("gptq_128", ordered, without(up + ".g_idx")),
              HasSubstr("no '" + up + ".g_idx'"));
  EXPECT_EQ(error("gptq_128", ordered), "no error");
}

TEST_F(CodedFolder, a_matrix_that_is_there_twice_is_refused) {
  const std::string name = "model.layers.0.mlp.up_proj.weight";
  const auto plain_too = [&](auto& tensors) {
    tensors.push_back({name, "F16", {512, 256}, std::vector<std::byte>(512 * 256 * 2)});
  };
  EXPECT_THAT(error("gptq_128", "", plain_too), HasSubstr("second that holds blk.0.ffn_up.weight"));
}

TEST_F(CodedFolder, a_bias_of_zeros_is_none_and_another_one_is_refused) {
  const std::string name = "model.layers.0.mlp.up_proj.bias";
  const auto bias = [&](std::byte value) {
    return [name, value](auto& tensors) {
      tensors.push_back({name, "F16", {512}, std::vector<std::byte>(1024, value)});
    };
  };
  EXPECT_EQ(error("gptq_128", "", bias(std::byte{0})), "no error");
  EXPECT_THAT(error("gptq_128", "", bias(std::byte{60})), HasSubstr(name));
  // Those of q, k and v too, where attention_bias is false.
  const auto add_to_q = [](auto& tensors) {
    tensors.push_back(
        {"model.layers.0.self_attn.q_proj.bias", "F16", {256}, raw(std::vector<uint16_t>(256))});
  };
  EXPECT_EQ(error("gptq_v2_64", "", add_to_q), "no error");
}

}  // namespace
}  // namespace millrace
