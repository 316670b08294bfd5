// `gguf_dump FILE` prints metadata and tensors of a GGUF file line by line, to be compared with
// what other readers print. `gguf_dump --write FILE` first writes a random model there.

#include <fmt/core.h>

#include <cstdio>
#include <string>

#include "formats/gguf.h"
#include "formats/synth.h"

namespace millrace {
namespace {

std::string hex(std::string_view text) {
  std::string out;
  for (const char c : text) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

template <class T>
std::string join(const std::vector<T>& values) {
  std::string out = fmt::format("{}:", values.size());
  for (const T& value : values) {
    if constexpr (std::is_same_v<T, std::string_view>) {
      out += " " + hex(value);
    } else {
      out += fmt::format(" {}", value);
    }
  }
  return out;
}

std::string value_text(const GgufMetadata& metadata, const GgufEntry& entry) {
  const bool is_array = entry.value.is_array();
  switch (entry.value.element_type) {
    case GgufType::kString:
      return is_array ? join(*metadata.get<std::vector<std::string_view>>(entry.key))
                      : hex(*metadata.get<std::string_view>(entry.key));
    case GgufType::kBool:
      return is_array ? join(*metadata.get<std::vector<bool>>(entry.key))
                      : fmt::format("{}", *metadata.get<bool>(entry.key));
    case GgufType::kFloat32:
    case GgufType::kFloat64:
      return is_array ? fmt::format("{} floats", entry.value.count)
                      : fmt::format("{:.6e}", *metadata.get<double>(entry.key));
    default:
      return is_array ? join(*metadata.get<std::vector<int64_t>>(entry.key))
                      : fmt::format("{}", *metadata.get<int64_t>(entry.key));
  }
}

int dump(const std::string& path) {
  const auto file = open_gguf(path);
  if (!file) {
    fmt::print(stderr, "{}\n", file.error().message);
    return 1;
  }
  fmt::print("version {}\n", file->version());
  for (const GgufEntry& entry : file->metadata().entries()) {
    fmt::print("{} {}\n", entry.key, value_text(file->metadata(), entry));
  }
  for (const TensorView& tensor : file->tensors()) {
    fmt::print("{} {}", tensor.name, dtype_info(tensor.dtype).ggml_id);
    for (int d = 0; d < tensor.n_dims; ++d) fmt::print(" {}", tensor.shape[d]);
    fmt::print(" at {}\n", tensor.data.data() - file->tensors().front().data.data());
  }
  return 0;
}

int write_and_dump(const std::string& path) {
  ModelShape shape;
  shape.architecture = "qwen3";
  shape.has_qk_norm = true;
  shape.rope_scaling = RopeScaling::kYarn;
  shape.rope_factor = 4.0f;
  shape.rope_original_context = 512;
  shape.dtype = DType::kQ8_0;
  const auto written = write_random_model(path, shape, 1);
  if (!written) {
    fmt::print(stderr, "{}\n", written.error().message);
    return 1;
  }
  return dump(path);
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  const std::string first = argc > 1 ? argv[1] : "";
  if (argc == 3 && first == "--write") return millrace::write_and_dump(argv[2]);
  if (argc == 2) return millrace::dump(first);
  std::fputs("usage: gguf_dump [--write] FILE\n", stderr);
  return 1;
}
