#include "formats/hugging_face_coding.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "formats/json_fields.h"

namespace millrace {
namespace {

namespace dom = simdjson::dom;

constexpr int64_t kBlock = 128;    // of FP8 block scales, both ways
constexpr int64_t kWordCodes = 8;  // of 4 bits
// The older format stores words of eight zero points less one each, subtracted from the whole word:
// a zero point of 0 borrows from the next, and the sum gives it back (GPTQModel's
// convert_gptq_v1_to_v2_format, which transformers calls).
constexpr uint32_t kGptqZeroOffset = 0x11111111;
constexpr const char* kMethod = "quant_method";

void refuse_unless(bool is_known,
                   JsonFields& fields,
                   std::string_view key,
                   std::string_view value,
                   std::string_view feature) {
  if (!is_known) fields.refuse_feature(key, value, feature);
}

// [128, 128].
bool is_block_size(const dom::element& value) {
  dom::array sizes;
  if (value.get(sizes) != simdjson::SUCCESS || sizes.size() != 2) return false;
  for (const dom::element& element : sizes) {
    int64_t size = 0;
    if (element.get(size) != simdjson::SUCCESS || size != kBlock) return false;
  }
  return true;
}

WeightCoding read_fp8(JsonFields& fields) {
  WeightCoding coding{.kind = WeightCoding::Kind::kFp8};
  const std::string_view format = fields.text("fmt");
  refuse_unless(format.empty() || format == "e4m3" || format == "float8_e4m3fn",
                fields,
                "fmt",
                format,
                "a format other than e4m3");
  if (const auto size = fields.find("weight_block_size")) {
    refuse_unless(is_block_size(*size),
                  fields,
                  "weight_block_size",
                  simdjson::to_string(*size),
                  "a block size other than [128,128]");
    coding.has_blocks = true;
  }
  return coding;
}

// One of config_groups.
void check_compressed_group(JsonFields& group, WeightCoding& coding) {
  auto weights = group.object_of("weights");
  if (!weights) return group.stop(ErrorCode::kCorrupt, "a quantisation group without weights");
  const std::string_view type = weights->text("type");
  const int64_t bits = weights->dimension("num_bits", 8);
  const std::string_view strategy = weights->text("strategy");
  refuse_unless(type == "float", *weights, "type", type, "weights other than float");
  refuse_unless(bits == 8, *weights, "num_bits", std::to_string(bits), "another width than 8");
  const bool is_block = strategy == "block";
  refuse_unless(is_block || strategy == "tensor" || strategy == "channel" || strategy.empty(),
                *weights,
                "strategy",
                strategy,
                "a strategy other than tensor, channel and block");
  if (!is_block) return;
  const auto size = weights->find("block_structure");
  refuse_unless(size && is_block_size(*size),
                *weights,
                "block_structure",
                size ? simdjson::to_string(*size) : "missing",
                "a block size other than [128,128]");
  coding.has_blocks = true;
}

WeightCoding read_compressed_tensors(JsonFields& fields) {
  WeightCoding coding{.kind = WeightCoding::Kind::kFp8};
  const std::string_view format = fields.text("format");
  refuse_unless(format == "float-quantized",
                fields,
                "format",
                format.empty() ? "missing" : format,
                "a format of compressed-tensors other than float-quantized");
  if (auto sparsity = fields.object_of("sparsity_config")) {
    const std::string_view kind = sparsity->text("format");
    refuse_unless(kind.empty() || kind == "dense", *sparsity, "format", kind, "sparsity");
  }
  auto groups = fields.object_of("config_groups");
  if (!groups) return coding;
  for (const auto& [name, value] : groups->object()) {
    static_cast<void>(value);
    if (auto group = groups->object_of(name)) check_compressed_group(*group, coding);
  }
  return coding;
}

WeightCoding read_int4(JsonFields& fields, WeightCoding::Kind kind) {
  WeightCoding coding{.kind = kind};
  const int64_t bits = fields.has("bits") ? fields.dimension("bits") : fields.dimension("w_bit");
  refuse_unless(bits == 4, fields, "bits", std::to_string(bits), "another width than 4");
  const char* group_key = fields.has("group_size") ? "group_size" : "q_group_size";
  int64_t group = -1;
  const auto value = fields.find(group_key);
  if (!value || value->get(group) != simdjson::SUCCESS ||
      (group != 32 && group != 64 && group != 128)) {
    fields.refuse_feature(group_key,
                          value ? simdjson::to_string(*value) : "missing",
                          "a group size other than 32, 64 and 128");
    return coding;
  }
  coding.group_size = static_cast<int>(group);
  return coding;
}

WeightCoding read_awq(JsonFields& fields) {
  const WeightCoding coding = read_int4(fields, WeightCoding::Kind::kAwq);
  const std::string_view version = fields.text("version");
  refuse_unless(version.empty() || version == "gemm" || version == "GEMM",
                fields,
                "version",
                version,
                "a version of AWQ other than gemm");
  refuse_unless(fields.flag("zero_point").value_or(true),
                fields,
                "zero_point",
                "false",
                "AWQ without zero points");
  return coding;
}

WeightCoding read_gptq(JsonFields& fields) {
  WeightCoding coding = read_int4(fields, WeightCoding::Kind::kGptq);
  const std::string_view format = fields.text("checkpoint_format");
  refuse_unless(format.empty() || format == "gptq" || format == "gptq_v2",
                fields,
                "checkpoint_format",
                format,
                "a format of GPTQ other than gptq and gptq_v2");
  coding.zero_offset = format == "gptq_v2" ? 0 : kGptqZeroOffset;
  coding.has_order = fields.flag("desc_act").value_or(false);
  return coding;
}

std::string shape_text(const SafetensorsTensor& tensor) {
  return fmt::format("{} [{}]", tensor.dtype, fmt::join(tensor.shape, ", "));
}

// A part of the matrix, which has to be there with this type and shape.
Result<const SafetensorsTensor*> part_of(const SafetensorsTensor& codes,
                                         const char* part,
                                         std::string_view dtype,
                                         const std::vector<int64_t>& shape,
                                         const FindTensor& find) {
  const std::string name = fmt::format("{}.{}", module_of(codes.name), part);
  const SafetensorsTensor* tensor = find(name);
  if (tensor == nullptr) {
    return fail(ErrorCode::kCorrupt, "tensor '{}' has no '{}' beside it", codes.name, name);
  }
  if (tensor->dtype != dtype || tensor->shape != shape) {
    return fail(ErrorCode::kCorrupt,
                "tensor '{}' is {}, expected {} [{}]",
                name,
                shape_text(*tensor),
                dtype,
                fmt::join(shape, ", "));
  }
  return tensor;
}

Result<void> read_fp8_scales(const WeightCoding& coding,
                             const SafetensorsTensor& codes,
                             const FindTensor& find,
                             CodedMatrix& matrix) {
  const std::string module = module_of(codes.name);
  const SafetensorsTensor* scales = find(module + ".weight_scale_inv");
  const SafetensorsTensor* others = find(module + ".weight_scale");
  if (scales != nullptr && others != nullptr) {
    return fail(ErrorCode::kCorrupt,
                "tensor '{}' has both '{}' and '{}' beside it, expected one of them",
                codes.name,
                scales->name,
                others->name);
  }
  if (scales == nullptr) scales = others;
  if (scales == nullptr) {
    return fail(
        ErrorCode::kCorrupt, "tensor '{}' has no '{}.weight_scale' beside it", codes.name, module);
  }
  const int64_t n_out = codes.shape[0], n_in = codes.shape[1];
  const std::vector<int64_t> blocks = {(n_out + kBlock - 1) / kBlock, (n_in + kBlock - 1) / kBlock};
  const std::vector<int64_t>& shape = scales->shape;
  const bool is_single = std::all_of(shape.begin(), shape.end(), [](int64_t n) { return n == 1; });
  if (coding.has_blocks && shape == blocks) {
    matrix.scale_rows = matrix.scale_columns = kBlock;
  } else if (!coding.has_blocks && is_single) {
    matrix.scale_rows = n_out;
    matrix.scale_columns = n_in;
  } else if (!coding.has_blocks &&
             (shape == std::vector{n_out, int64_t{1}} || shape == std::vector{n_out})) {
    matrix.scale_rows = 1;
    matrix.scale_columns = n_in;
  } else {
    return fail(ErrorCode::kCorrupt,
                "tensor '{}' is {}, expected scales for {} of '{}' [{}, {}]",
                scales->name,
                shape_text(*scales),
                coding.has_blocks ? "blocks of 128 x 128" : "the rows or all",
                codes.name,
                n_out,
                n_in);
  }
  const auto dtype = plain_type(*scales);
  if (!dtype) return propagate(dtype);
  const DTypeInfo& info = dtype_info(*dtype);
  matrix.scales.resize(scales->data.size() / static_cast<size_t>(info.block_bytes));
  info.decode(
      scales->data.data(), matrix.scales.data(), static_cast<int64_t>(matrix.scales.size()));
  return {};
}

Result<TensorView> fp8_matrix(const WeightCoding& coding,
                              const SafetensorsTensor& codes,
                              const FindTensor& find,
                              std::deque<CodedMatrix>& kept) {
  if (codes.shape.size() != 2 || codes.data.empty()) {
    return fail(
        ErrorCode::kCorrupt, "tensor '{}' is {}, expected a matrix", codes.name, shape_text(codes));
  }
  CodedMatrix matrix;
  if (auto read = read_fp8_scales(coding, codes, find, matrix); !read) return propagate(read);
  TensorView view;
  view.dtype = DType::kF8_E4M3;
  view.n_dims = 2;
  view.shape = {codes.shape[1], codes.shape[0], 1, 1};
  view.data = codes.data;
  view.coded = &kept.emplace_back(std::move(matrix));
  return view;
}

// Inputs that do not lie in the order of their groups.
Result<void> check_group_index(const WeightCoding& coding,
                               const SafetensorsTensor& codes,
                               int64_t n_in,
                               const FindTensor& find) {
  const std::string name = module_of(codes.name) + ".g_idx";
  if (find(name) == nullptr && !coding.has_order) return {};
  const auto index = part_of(codes, "g_idx", "I32", {n_in}, find);
  if (!index) return propagate(index);
  for (int64_t k = 0; k < n_in; ++k) {
    int32_t group;
    std::memcpy(&group, (*index)->data.data() + k * 4, sizeof(group));
    if (group != k / coding.group_size) {
      return fail(ErrorCode::kUnsupported,
                  "tensor '{}' has input {} in group {}: an order by activations (desc_act) is not "
                  "supported",
                  name,
                  k,
                  group);
    }
  }
  return {};
}

Result<TensorView> int4_matrix(const WeightCoding& coding,
                               const SafetensorsTensor& codes,
                               const FindTensor& find,
                               std::deque<CodedMatrix>& kept) {
  const bool is_awq = coding.kind == WeightCoding::Kind::kAwq;
  const bool is_matrix = codes.dtype == "I32" && codes.shape.size() == 2 && !codes.data.empty();
  const int64_t n_in = is_matrix ? codes.shape[0] * (is_awq ? 1 : kWordCodes) : 0;
  const int64_t n_out = is_matrix ? codes.shape[1] * (is_awq ? kWordCodes : 1) : 0;
  if (!is_matrix || n_in % coding.group_size != 0 || n_out % kWordCodes != 0) {
    return fail(
        ErrorCode::kCorrupt,
        "tensor '{}' is {}, expected an I32 matrix of inputs in groups of {} and outputs in "
        "eights",
        codes.name,
        shape_text(codes),
        coding.group_size);
  }
  const int64_t n_groups = n_in / coding.group_size;
  const auto scales = part_of(codes, "scales", "F16", {n_groups, n_out}, find);
  if (!scales) return propagate(scales);
  const auto zeros = part_of(codes, "qzeros", "I32", {n_groups, n_out / kWordCodes}, find);
  if (!zeros) return propagate(zeros);
  if (auto checked = check_group_index(coding, codes, n_in, find); !checked) {
    return propagate(checked);
  }
  CodedMatrix matrix;
  matrix.layout = is_awq ? CodeLayout::kAwq : CodeLayout::kGptq;
  matrix.group_size = coding.group_size;
  matrix.group_scales = (*scales)->data;
  matrix.group_zeros = (*zeros)->data;
  matrix.zero_offset = coding.zero_offset;
  TensorView view;
  view.dtype = DType::kInt4;
  view.n_dims = 2;
  view.shape = {n_in, n_out, 1, 1};
  view.data = codes.data;
  view.coded = &kept.emplace_back(std::move(matrix));
  return view;
}

}  // namespace

WeightCoding read_weight_coding(JsonFields& config) {
  auto fields = config.object_of("quantization_config");
  if (!fields) fields = config.object_of("compression_config");  // older files
  if (!fields) return {};
  const std::string_view method = fields->text(kMethod);
  if (method == "fp8") return read_fp8(*fields);
  if (method == "compressed-tensors") return read_compressed_tensors(*fields);
  if (method == "awq") return read_awq(*fields);
  if (method == "gptq") return read_gptq(*fields);
  fields->refuse_feature(kMethod,
                         method.empty() ? "missing" : method,
                         "a quantisation other than fp8, compressed-tensors, awq and gptq");
  return {};
}

std::string module_of(std::string_view tensor) {
  return std::string(tensor.substr(0, std::min(tensor.rfind('.'), tensor.size())));
}

Result<DType> plain_type(const SafetensorsTensor& tensor) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    if (tensor.dtype == dtype_info(dtype).name) return dtype;
  }
  return fail(ErrorCode::kUnsupported,
              "tensor '{}' has type {}, expected F32, F16 or BF16",
              tensor.name,
              tensor.dtype);
}

TensorRole tensor_role(const WeightCoding& coding,
                       const SafetensorsTensor& tensor,
                       const FindTensor& find) {
  const std::string module = module_of(tensor.name);
  const std::string_view part = std::string_view(tensor.name).substr(module.size());
  switch (coding.kind) {
    case WeightCoding::Kind::kNone:
      return TensorRole::kPlain;
    case WeightCoding::Kind::kFp8: {
      if (part == ".weight" && tensor.dtype == "F8_E4M3") return TensorRole::kCodes;
      const SafetensorsTensor* codes = find(module + ".weight");
      const bool is_part = part == ".weight_scale" || part == ".weight_scale_inv" ||
                           part == ".input_scale";  // activations are not rounded to FP8
      return is_part && codes != nullptr && codes->dtype == "F8_E4M3" ? TensorRole::kPart
                                                                      : TensorRole::kPlain;
    }
    case WeightCoding::Kind::kAwq:
    case WeightCoding::Kind::kGptq: {
      if (part == ".qweight") return TensorRole::kCodes;
      const bool is_part = part == ".scales" || part == ".qzeros" || part == ".g_idx";
      if (is_part && find(module + ".qweight") != nullptr) return TensorRole::kPart;
      // Quantisers write a bias of zeros where the model has none. Those of q, k and v stay: where
      // the model may have them, one layer's may be zeros by chance and another's not.
      const bool may_have =
          coding.may_have_qkv_bias && (module.ends_with(".q_proj") || module.ends_with(".k_proj") ||
                                       module.ends_with(".v_proj"));
      if (part != ".bias" || may_have || find(module + ".qweight") == nullptr) {
        return TensorRole::kPlain;
      }
      const bool is_zero = std::all_of(
          tensor.data.begin(), tensor.data.end(), [](std::byte b) { return b == std::byte{0}; });
      return is_zero ? TensorRole::kPart : TensorRole::kPlain;
    }
  }
  return TensorRole::kPlain;
}

Result<TensorView> coded_matrix(const WeightCoding& coding,
                                const SafetensorsTensor& codes,
                                const FindTensor& find,
                                std::deque<CodedMatrix>& kept) {
  return coding.kind == WeightCoding::Kind::kFp8 ? fp8_matrix(coding, codes, find, kept)
                                                 : int4_matrix(coding, codes, find, kept);
}

}  // namespace millrace
