#include "model/golden_testing.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include <nlohmann/json.hpp>

#include "formats/gguf_writer.h"
#include "tensor/half.h"

namespace millrace::test {
namespace {

using Json = nlohmann::json;

const char* const kFolder = MILLRACE_SOURCE_DIR "/tests/goldens";

// SplitMix64 from the FNV-1a hash of the name and the seed.
std::vector<uint64_t> hash_words(uint64_t seed, const std::string& name, size_t n) {
  uint64_t state = 0xcbf29ce484222325u;
  for (const char c : name) state = (state ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  state ^= seed;
  std::vector<uint64_t> words(n);
  for (uint64_t& word : words) {
    state += 0x9e3779b97f4a7c15u;
    uint64_t x = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    word = x ^ (x >> 31);
  }
  return words;
}

// Of a block of random bytes: where d lies, the deviation of a value at d = 1, where the second
// half lies (or -1) and its value relative to d.
struct BlockScale {
  int d_at;
  float deviation;
  int m_at;
  float relative;
};

BlockScale block_scale(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0:
      return {0, 4.6f, -1, 0};
    case DType::kQ4_1:
      return {0, 4.6f, 2, -7.5f};
    case DType::kQ5_0:
      return {0, 9.2f, -1, 0};
    case DType::kQ5_1:
      return {0, 9.2f, 2, -15.5f};
    case DType::kQ8_0:
      return {0, 74, -1, 0};
    case DType::kQ2_K:
      return {80, 13.5f, 82, 1.5f};
    case DType::kQ3_K:
      return {108, 42.5f, -1, 0};
    case DType::kQ4_K:
      return {0, 260, 2, 7.5f};
    case DType::kQ5_K:
      return {0, 528, 2, 15.5f};
    default:
      return {208, 1367, -1, 0};  // Q6_K
  }
}

std::vector<std::byte> tensor_bytes(uint64_t seed, const Json& tensor) {
  const std::string name = tensor["name"];
  const DTypeInfo& type = dtype_info(*dtype_from_name(tensor["type"].get<std::string>()));
  int64_t n = 1;
  for (const int64_t dim : tensor["shape"]) n *= dim;
  const float scale = tensor["scale"];
  const float center = tensor["center"];
  std::vector<std::byte> bytes(static_cast<size_t>(type.row_bytes(n)));
  if (type.block_size == 1) {
    const auto words = hash_words(seed, name, static_cast<size_t>(n));
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      const float uniform = static_cast<float>(words[i] >> 40) / 8388608.0f - 1.0f;
      float value = center + scale * uniform;
      if (tensor.contains("values")) value = tensor["values"][i];
      const uint16_t half = type.dtype == DType::kF16
                                ? f32_to_f16(value)
                                : static_cast<uint16_t>(f32_bits(value) >> 16);  // truncated
      if (type.dtype == DType::kF32) {
        std::memcpy(bytes.data() + 4 * i, &value, 4);
      } else {
        std::memcpy(bytes.data() + 2 * i, &half, 2);
      }
    }
    return bytes;
  }
  const auto words = hash_words(seed, name, (bytes.size() + 7) / 8);
  std::memcpy(bytes.data(), words.data(), bytes.size());
  const BlockScale at = block_scale(type.dtype);
  const float d = scale / at.deviation;
  const uint16_t halves[] = {f32_to_f16(d), f32_to_f16(d * at.relative)};
  for (size_t block = 0; block < bytes.size(); block += static_cast<size_t>(type.block_bytes)) {
    std::memcpy(bytes.data() + block + at.d_at, &halves[0], 2);
    if (at.m_at >= 0) std::memcpy(bytes.data() + block + at.m_at, &halves[1], 2);
  }
  return bytes;
}

std::vector<float> decode_base64_floats(const std::string& text) {
  std::vector<uint8_t> bytes;
  uint32_t bits = 0;
  int n_bits = 0;
  for (const char c : text) {
    const char* alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char* found = c == '\0' ? nullptr : std::strchr(alphabet, c);
    if (found == nullptr) continue;  // padding
    bits = bits << 6 | static_cast<uint32_t>(found - alphabet);
    n_bits += 6;
    if (n_bits >= 8) bytes.push_back(static_cast<uint8_t>(bits >> (n_bits -= 8)));
  }
  std::vector<float> floats(bytes.size() / 4);
  std::memcpy(floats.data(), bytes.data(), floats.size() * 4);
  return floats;
}

}  // namespace

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

GoldenModel read_golden(const std::string& name) {
  std::ifstream file(std::string(kFolder) + "/" + name + ".json");
  const Json json = Json::parse(file);
  GoldenModel model;
  for (const auto& [key, value] : json["metadata"].items()) {
    if (value.is_string()) {
      model.metadata[key] = value.get<std::string>();
    } else if (value.is_number_float()) {
      model.metadata[key] = value.get<float>();
    } else {
      model.metadata[key] = value.get<uint32_t>();
    }
  }
  for (const Json& tensor : json["tensors"]) {
    auto shape = tensor["shape"].get<std::vector<int64_t>>();
    std::ranges::reverse(shape);
    model.tensors.push_back({tensor["name"],
                             *dtype_from_name(tensor["type"].get<std::string>()),
                             std::move(shape),
                             tensor_bytes(json["seed"], tensor)});
  }
  model.tokens = json["tokens"].get<std::vector<TokenId>>();
  model.rows = json["rows"].get<std::vector<size_t>>();
  model.logits = decode_base64_floats(json["logits_f32_base64"]);
  return model;
}

GoldenTensor* GoldenModel::find(const std::string& name) {
  const auto found = std::ranges::find(tensors, name, &GoldenTensor::name);
  return found == tensors.end() ? nullptr : &*found;
}

Buffer GoldenModel::gguf() const {
  GgufBuilder builder;
  for (const auto& [key, value] : metadata) {
    std::visit([&, &name = key](const auto& scalar) { builder.add(name, scalar); }, value);
  }
  for (const GoldenTensor& tensor : tensors) {
    builder.add_tensor(tensor.name, tensor.dtype, tensor.shape);
  }
  const std::vector<std::byte> header = builder.header();
  Buffer file = Buffer::allocate(header.size() + static_cast<size_t>(builder.data_bytes()));
  std::memcpy(file.data(), header.data(), header.size());
  size_t at = header.size();
  for (const GoldenTensor& tensor : tensors) {
    std::memcpy(file.data() + at, tensor.bytes.data(), tensor.bytes.size());
    const size_t alignment = builder.alignment();
    at += (tensor.bytes.size() + alignment - 1) / alignment * alignment;
  }
  return file;
}

}  // namespace millrace::test
