#include "formats/gguf_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <system_error>

#include "base/check.h"

namespace millrace {
namespace {

constexpr uint32_t kMagic = 0x46554747u;
constexpr uint32_t kVersion = 3;

void append_bytes(std::vector<std::byte>& out, const void* data, size_t n) {
  const size_t begin = out.size();
  out.resize(begin + n);
  if (n > 0) {
    std::memcpy(out.data() + begin, data, n);
  }
}

template <class T>
void append(std::vector<std::byte>& out, T value) {
  append_bytes(out, &value, sizeof(T));
}

void append_string(std::vector<std::byte>& out, std::string_view text) {
  append(out, static_cast<uint64_t>(text.size()));
  append_bytes(out, text.data(), text.size());
}

uint64_t align_up(uint64_t position, uint64_t alignment) {
  return (position + alignment - 1) / alignment * alignment;
}

std::string system_text(int error) {
  return std::generic_category().message(error);
}

// Only a regular file is replaced: a device, a pipe or a folder cannot be renamed over.
Result<void> check_target(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    return fail(ErrorCode::kInvalidArgument,
                "[gguf] {} is {}: name a file to write",
                path,
                S_ISDIR(status.st_mode) ? "a folder" : "not a regular file");
  }
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  if (::stat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    return fail(ErrorCode::kIo, "[gguf] cannot write {}: there is no folder {}", path, folder);
  }
  if (path.empty() || path.ends_with('/')) {
    return fail(ErrorCode::kInvalidArgument, "[gguf] '{}' does not name a file", path);
  }
  return {};
}

}  // namespace

GgufBuilder::GgufBuilder(uint32_t alignment) : alignment_(alignment) {
  MR_CHECK(alignment >= 8 && (alignment & (alignment - 1)) == 0, "alignment {}", alignment);
  if (alignment != 32) add("general.alignment", alignment);
}

void GgufBuilder::begin_entry(std::string_view key, GgufType type) {
  MR_CHECK(!key.empty());
  MR_CHECK(std::find(keys_.begin(), keys_.end(), key) == keys_.end(), "key {} twice", key);
  keys_.emplace_back(key);
  ++n_entries_;
  append_string(entries_, key);
  append(entries_, static_cast<uint32_t>(type));
}

template <class T>
void GgufBuilder::add_scalar(std::string_view key, GgufType type, T value) {
  begin_entry(key, type);
  append(entries_, value);
}

template <class T>
void GgufBuilder::add_array(std::string_view key, GgufType type, std::span<const T> values) {
  begin_entry(key, GgufType::kArray);
  append(entries_, static_cast<uint32_t>(type));
  append(entries_, static_cast<uint64_t>(values.size()));
  append_bytes(entries_, values.data(), values.size_bytes());
}

template <class Strings>
void GgufBuilder::add_strings(std::string_view key, const Strings& values) {
  begin_entry(key, GgufType::kArray);
  append(entries_, static_cast<uint32_t>(GgufType::kString));
  append(entries_, static_cast<uint64_t>(values.size()));
  for (const std::string_view value : values) append_string(entries_, value);
}

void GgufBuilder::add(std::string_view key, bool value) {
  add_scalar(key, GgufType::kBool, static_cast<uint8_t>(value));
}
void GgufBuilder::add(std::string_view key, uint16_t value) {
  add_scalar(key, GgufType::kUint16, value);
}
void GgufBuilder::add(std::string_view key, int32_t value) {
  add_scalar(key, GgufType::kInt32, value);
}
void GgufBuilder::add(std::string_view key, uint32_t value) {
  add_scalar(key, GgufType::kUint32, value);
}
void GgufBuilder::add(std::string_view key, int64_t value) {
  add_scalar(key, GgufType::kInt64, value);
}
void GgufBuilder::add(std::string_view key, uint64_t value) {
  add_scalar(key, GgufType::kUint64, value);
}
void GgufBuilder::add(std::string_view key, float value) {
  add_scalar(key, GgufType::kFloat32, value);
}
void GgufBuilder::add(std::string_view key, double value) {
  add_scalar(key, GgufType::kFloat64, value);
}
void GgufBuilder::add(std::string_view key, std::string_view value) {
  begin_entry(key, GgufType::kString);
  append_string(entries_, value);
}
void GgufBuilder::add(std::string_view key, std::span<const std::string> values) {
  add_strings(key, values);
}
void GgufBuilder::add(std::string_view key, std::span<const std::string_view> values) {
  add_strings(key, values);
}
void GgufBuilder::add(std::string_view key, std::span<const uint8_t> values) {
  add_array(key, GgufType::kUint8, values);
}
void GgufBuilder::add(std::string_view key, std::span<const int32_t> values) {
  add_array(key, GgufType::kInt32, values);
}
void GgufBuilder::add(std::string_view key, std::span<const uint32_t> values) {
  add_array(key, GgufType::kUint32, values);
}
void GgufBuilder::add(std::string_view key, std::span<const float> values) {
  add_array(key, GgufType::kFloat32, values);
}
void GgufBuilder::add(std::string_view key, const GgufValue& value) {
  begin_entry(key, value.type);
  if (value.is_array()) {
    append(entries_, static_cast<uint32_t>(value.element_type));
    append(entries_, value.count);
  }
  append_bytes(entries_, value.bytes.data(), value.bytes.size());
}

void GgufBuilder::add_tensor(std::string_view name, DType dtype, std::span<const int64_t> shape) {
  MR_CHECK(!name.empty());
  MR_CHECK(tensor_names_.insert(std::string(name)).second, "tensor {} twice", name);
  MR_CHECK(!shape.empty() && shape.size() <= 4, "{} dims", shape.size());
  const DTypeInfo& info = dtype_info(dtype);
  MR_CHECK(shape[0] % info.block_size == 0, "{}: {} values of {}", name, shape[0], info.name);
  append_string(infos_, name);
  append(infos_, static_cast<uint32_t>(shape.size()));
  int64_t n_bytes = info.row_bytes(shape[0]);
  for (size_t d = 0; d < shape.size(); ++d) {
    MR_CHECK(shape[d] >= 1, "{}: dim {} is {}", name, d, shape[d]);
    append(infos_, static_cast<uint64_t>(shape[d]));
    if (d > 0) MR_CHECK(!__builtin_mul_overflow(n_bytes, shape[d], &n_bytes), "{}", name);
  }
  append(infos_, info.ggml_id);
  append(infos_, static_cast<uint64_t>(data_bytes_));
  tensor_bytes_.push_back(n_bytes);
  data_bytes_ = static_cast<int64_t>(
      align_up(static_cast<uint64_t>(data_bytes_) + static_cast<uint64_t>(n_bytes), alignment_));
}

std::vector<std::byte> GgufBuilder::header() const {
  std::vector<std::byte> out;
  out.reserve(static_cast<size_t>(header_bytes()));
  append(out, kMagic);
  append(out, kVersion);
  append(out, static_cast<uint64_t>(tensor_bytes_.size()));
  append(out, n_entries_);
  out.insert(out.end(), entries_.begin(), entries_.end());
  out.insert(out.end(), infos_.begin(), infos_.end());
  out.resize(static_cast<size_t>(header_bytes()));
  return out;
}

int64_t GgufBuilder::header_bytes() const {
  constexpr size_t kFixedBytes = 24;  // magic, version, two counts
  return static_cast<int64_t>(align_up(kFixedBytes + entries_.size() + infos_.size(), alignment_));
}

struct GgufWriter::State {
  std::string path;
  std::string part_path;
  int descriptor = -1;
  uint32_t alignment = 0;
  std::vector<int64_t> tensor_bytes;
  size_t tensor = 0;      // the one being written
  int64_t n_written = 0;  // of it
  bool is_finished = false;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (descriptor >= 0) ::close(descriptor);
    if (!is_finished && !part_path.empty()) ::unlink(part_path.c_str());
  }

  Result<void> write_all(const std::byte* data, size_t n) const {
    while (n > 0) {
      const ssize_t written = ::write(descriptor, data, n);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) {
        return fail(ErrorCode::kIo, "[gguf] cannot write {}: {}", part_path, system_text(errno));
      }
      data += written;
      n -= static_cast<size_t>(written);
    }
    return {};
  }

  // Zeros up to the alignment after a finished tensor.
  Result<void> pad() {
    const auto n = static_cast<uint64_t>(tensor_bytes[tensor]);
    const std::vector<std::byte> zeros(align_up(n, alignment) - n);
    ++tensor;
    n_written = 0;
    return write_all(zeros.data(), zeros.size());
  }
};

GgufWriter::GgufWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
GgufWriter::GgufWriter(GgufWriter&&) noexcept = default;
GgufWriter& GgufWriter::operator=(GgufWriter&&) noexcept = default;
GgufWriter::~GgufWriter() = default;

Result<GgufWriter> GgufWriter::create(const std::string& path, const GgufBuilder& builder) {
  if (auto checked = check_target(path); !checked) return propagate(checked);
  auto state = std::make_unique<State>();
  state->path = path;
  state->alignment = builder.alignment();
  for (int64_t i = 0; i < builder.n_tensors(); ++i) {
    state->tensor_bytes.push_back(builder.tensor_bytes(i));
  }
  const std::string part_path = path + ".part";
  state->descriptor = ::open(part_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (state->descriptor < 0) {
    return fail(ErrorCode::kIo, "[gguf] cannot write {}: {}", part_path, system_text(errno));
  }
  state->part_path = part_path;
  const std::vector<std::byte> header = builder.header();
  if (auto done = state->write_all(header.data(), header.size()); !done) return propagate(done);
  return GgufWriter(std::move(state));
}

Result<void> GgufWriter::write(std::span<const std::byte> bytes) {
  State& state = *state_;
  if (bytes.empty()) return {};
  MR_CHECK(state.tensor < state.tensor_bytes.size(), "all tensors are written");
  const int64_t n_left = state.tensor_bytes[state.tensor] - state.n_written;
  MR_CHECK(static_cast<int64_t>(bytes.size()) <= n_left, "{} of {}", bytes.size(), n_left);
  if (auto done = state.write_all(bytes.data(), bytes.size()); !done) return done;
  state.n_written += static_cast<int64_t>(bytes.size());
  if (state.n_written == state.tensor_bytes[state.tensor]) return state.pad();
  return {};
}

Result<void> GgufWriter::finish() {
  State& state = *state_;
  MR_CHECK(state.tensor == state.tensor_bytes.size(), "tensor {} is not whole", state.tensor);
  const int closed = ::close(state.descriptor);
  state.descriptor = -1;
  if (closed != 0) {
    return fail(ErrorCode::kIo, "[gguf] cannot write {}: {}", state.part_path, system_text(errno));
  }
  if (std::rename(state.part_path.c_str(), state.path.c_str()) != 0) {
    return fail(ErrorCode::kIo, "[gguf] cannot write {}: {}", state.path, system_text(errno));
  }
  state.is_finished = true;
  return {};
}

}  // namespace millrace
