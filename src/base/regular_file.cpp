#include "base/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace millrace {
namespace {

const char* kind_name(mode_t mode) {
  return S_ISDIR(mode)    ? "a folder"
         : S_ISFIFO(mode) ? "a pipe"
         : S_ISSOCK(mode) ? "a socket"
                          : "a device";
}

}  // namespace

Result<RegularFile> RegularFile::open(const std::string& path) {
  // Without O_NONBLOCK a pipe that nobody writes to would be waited for.
  RegularFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK), 0);
  const int open_error = errno;
  struct stat status {};
  const bool has_status = file.descriptor_ >= 0 ? ::fstat(file.descriptor_, &status) == 0
                                                : ::stat(path.c_str(), &status) == 0;
  if (has_status && !S_ISREG(status.st_mode)) {
    return fail(
        ErrorCode::kIo, "{}: is {}, expected a regular file", path, kind_name(status.st_mode));
  }
  if (file.descriptor_ < 0 || !has_status) {
    const int error = file.descriptor_ < 0 ? open_error : errno;
    const ErrorCode code = error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
    return fail(code, "{}: {}", path, std::strerror(error));
  }
  file.size_ = static_cast<std::size_t>(status.st_size);
  return file;
}

RegularFile::~RegularFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

Result<std::string> read_regular_file(const std::string& path, std::size_t max_bytes) {
  const auto file = RegularFile::open(path);
  if (!file) {
    return propagate(file);
  }
  auto text = read_to_end(file->descriptor(), path, max_bytes);
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text && text->starts_with(kByteOrderMark)) {
    text->erase(0, kByteOrderMark.size());
  }
  return text;
}

Result<std::string> read_to_end(int descriptor, const std::string& name, std::size_t max_bytes) {
  std::string content;
  std::array<char, 64 * 1024> bytes;
  while (true) {
    const ssize_t n = ::read(descriptor, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return fail(ErrorCode::kIo, "{}: {}", name, std::strerror(errno));
    }
    if (n == 0) {
      return content;
    }
    content.append(bytes.data(), static_cast<std::size_t>(n));
    if (content.size() > max_bytes) {
      return fail(ErrorCode::kIo, "{}: expected at most {} bytes", name, max_bytes);
    }
  }
}

}  // namespace millrace
