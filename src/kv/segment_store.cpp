#include "kv/segment_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/check.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

// A segment's share of all: so much is forgotten at once.
constexpr int64_t kSegments = 16;
constexpr const char* kEnding = ".kv";
// Nobody comes so far; a larger number is a foreign file's.
constexpr int64_t kMaxNumber = 10'000'000'000;
// Prompts are in there.
constexpr mode_t kOwnerOnly = S_IRUSR | S_IWUSR;

// Of the system's last error.
Error last_error(std::string_view path = {}) {
  const bool is_full = errno == ENOSPC || errno == EDQUOT;
  return {is_full ? ErrorCode::kResourceExhausted : ErrorCode::kIo,
          fmt::format("{}{}{}", path, path.empty() ? "" : ": ", std::strerror(errno))};
}

}  // namespace

SegmentFile::~SegmentFile() {
  ::close(descriptor_);
}

bool SegmentFile::read(int64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t n = ::pread(descriptor_, bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      return false;
    }
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += n;
  }
  return true;
}

Result<void> SegmentFile::write(int64_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(descriptor_, bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n == 0) {
      return fail(ErrorCode::kIo, "nothing was written");
    }
    if (n < 0) {
      return tl::unexpected(last_error());
    }
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += n;
  }
  return {};
}

bool SegmentFile::cut(int64_t size) const {
  return ::ftruncate(descriptor_, size) == 0;
}

Result<SegmentFile::Status> SegmentFile::status() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) {
    return tl::unexpected(last_error());
  }
  if (!S_ISREG(status.st_mode)) {
    return fail(ErrorCode::kIo, "not a file");
  }
  return Status{.n_bytes = status.st_size, .has_one_name = status.st_nlink == 1};
}

bool SegmentFile::is_at(const std::string& path) const {
  struct stat mine {};
  struct stat there {};
  return ::fstat(descriptor_, &mine) == 0 && ::lstat(path.c_str(), &there) == 0 &&
         mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
}

bool read_record(const RecordPlace& place,
                 const BlockName& name,
                 const BlockBytes& memory,
                 Sha256& sha) {
  std::vector<std::byte> bytes(RecordHead::bytes(name.tokens.size()));
  if (!place.segment->read(place.offset, bytes)) {
    return false;
  }
  const auto head = decode(bytes, sha);
  if (!head || !head->is(name) || head->payload_bytes != memory.size()) {
    return false;
  }
  const int64_t payload = place.offset + std::ssize(bytes);
  return place.segment->read(payload, memory.target) &&
         place.segment->read(payload + std::ssize(memory.target), memory.draft) &&
         payload_digest(memory, sha) == head->payload_digest;
}

SegmentStore::SegmentStore(std::string folder, int64_t max_bytes)
    : folder_(std::move(folder)), max_bytes_(max_bytes) {}

SegmentStore::~SegmentStore() = default;

std::string SegmentStore::path_of(int64_t number) const {
  return fmt::format("{}/{:010}{}", folder_, number, kEnding);
}

Result<void> SegmentStore::lock() {
  const std::string path = lock_path();
  const int descriptor =
      ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kOwnerOnly);
  if (descriptor < 0) {
    return fail(ErrorCode::kIo, "{}: {}", path, std::strerror(errno));
  }
  lock_ = std::make_unique<SegmentFile>(descriptor, 0);
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    return errno == EWOULDBLOCK
               ? fail(ErrorCode::kUnavailable, "{} is in use by another server", folder_)
               : fail(ErrorCode::kIo, "{}: {}", path, std::strerror(errno));
  }
  return {};
}

// Numbers of the segments in the folder, ascending.
Result<std::vector<int64_t>> SegmentStore::list() const {
  std::vector<int64_t> numbers;
  std::error_code error;
  fs::directory_iterator at(folder_, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    const std::string name = at->path().filename().string();
    int64_t number = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), number);
    if (parsed.ec == std::errc() && number > 0 && number <= kMaxNumber &&
        at->path() == fs::path(path_of(number))) {
      numbers.push_back(number);
    }
  }
  if (error) {
    return fail(ErrorCode::kIo, "{}: {}", folder_, error.message());
  }
  std::ranges::sort(numbers);
  return numbers;
}

// Bytes of the records that the file begins with.
int64_t SegmentStore::scan(
    const SegmentPtr& file,
    int64_t n_bytes,
    const std::function<void(const RecordHead&, const RecordPlace&)>& on_record) {
  std::vector<std::byte> bytes;
  int64_t offset = 0;
  while (offset < n_bytes) {
    bytes.resize(std::min<size_t>(RecordHead::bytes(RecordHead::kMaxTokens),
                                  static_cast<size_t>(n_bytes - offset)));
    const auto head = file->read(offset, bytes) ? decode(bytes, sha_) : std::nullopt;
    if (!head || head->record_bytes() > static_cast<uint64_t>(n_bytes - offset)) {
      break;
    }
    on_record(*head, {.segment = file, .offset = offset});
    offset += static_cast<int64_t>(head->record_bytes());
  }
  return offset;
}

Result<SegmentStore::Segment> SegmentStore::open_segment(int64_t number) const {
  const std::string path = path_of(number);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) {
    return fail(ErrorCode::kIo, "{}: {}", path, std::strerror(errno));
  }
  auto file = std::make_shared<const SegmentFile>(descriptor, number);
  const auto status = file->status();
  if (!status) {
    return fail(ErrorCode::kIo, "{}: {}", path, status.error().message);
  }
  return Segment{
      .file = std::move(file), .n_bytes = status->n_bytes, .has_one_name = status->has_one_name};
}

Result<SegmentStore> SegmentStore::open(
    const std::string& folder,
    int64_t max_bytes,
    const std::function<void(const RecordHead&, const RecordPlace&)>& on_record) {
  std::error_code error;
  fs::create_directory(folder, error);
  if (!fs::is_directory(folder, error)) {
    return fail(ErrorCode::kIo, "{}: no folder, and none can be made there", folder);
  }
  SegmentStore store(folder, max_bytes);
  if (auto locked = store.lock(); !locked) {
    return propagate(locked);
  }
  const auto numbers = store.list();
  if (!numbers) {
    return propagate(numbers);
  }
  int64_t n_whole = 0;  // bytes of the last segment's records
  for (const int64_t number : *numbers) {
    store.next_number_ = number + 1;
    auto segment = store.open_segment(number);
    if (!segment) {
      return propagate(segment);
    }
    n_whole = store.scan(segment->file, segment->n_bytes, on_record);
    store.n_damaged_ += n_whole < segment->n_bytes ? 1 : 0;
    store.n_bytes_ += segment->n_bytes;
    store.segments_.push_back(*std::move(segment));
  }
  if (!store.segments_.empty()) {
    Segment& last = store.segments_.back();
    store.is_open_ = last.has_one_name && last.file->cut(n_whole);
    store.n_bytes_ -= store.is_open_ ? last.n_bytes - n_whole : 0;
    last.n_bytes = store.is_open_ ? n_whole : last.n_bytes;
  }
  while (store.n_bytes_ > max_bytes) {
    store.drop_oldest();
  }
  return store;
}

void SegmentStore::drop_oldest() {
  Segment& oldest = segments_.front();
  if (lock_->is_at(lock_path())) {
    std::error_code ignored;
    fs::remove(path_of(oldest.file->number()), ignored);
  }
  n_bytes_ -= oldest.n_bytes;
  dropped_.push_back(std::move(oldest.file));
  segments_.pop_front();
  is_open_ = is_open_ && !segments_.empty();
}

Result<void> SegmentStore::begin_segment() {
  const std::string path = path_of(next_number_);
  if (next_number_ > kMaxNumber) {
    return fail(ErrorCode::kIo, "{}: no number is left for a file", folder_);
  }
  if (!lock_->is_at(lock_path())) {
    return fail(ErrorCode::kIo, "{} is no longer the one that was locked", lock_path());
  }
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kOwnerOnly);
  if (descriptor < 0) {
    return tl::unexpected(last_error(path));
  }
  segments_.push_back({.file = std::make_shared<const SegmentFile>(descriptor, next_number_)});
  ++next_number_;
  is_open_ = true;
  return {};
}

// So that the last segment can take n_bytes more.
Result<void> SegmentStore::make_room(int64_t n_bytes) {
  const int64_t segment_bytes = std::max(max_bytes_ / kSegments, n_bytes);
  if (is_open_ && segments_.back().n_bytes + n_bytes > segment_bytes) {
    is_open_ = false;
  }
  while (n_bytes_ + n_bytes > max_bytes_) {
    drop_oldest();
  }
  return is_open_ ? Result<void>() : begin_segment();
}

Result<RecordPlace> SegmentStore::append(const RecordHead& head,
                                         std::span<const std::byte> payload) {
  MR_CHECK(payload.size() == head.payload_bytes, "{} bytes", payload.size());
  const auto n_bytes = static_cast<int64_t>(head.record_bytes());
  if (n_bytes > max_bytes_) {
    return fail(ErrorCode::kInvalidArgument, "{} bytes are more than the whole tier", n_bytes);
  }
  const auto made = make_room(n_bytes);
  auto place = made ? write(head, payload) : Result<RecordPlace>(propagate(made));
  if (!place) {
    yield_space(place.error());
  }
  return place;
}

// Behind the last segment's records.
Result<RecordPlace> SegmentStore::write(const RecordHead& head,
                                        std::span<const std::byte> payload) {
  Segment& segment = segments_.back();
  const std::vector<std::byte> bytes = encode(head, sha_);
  auto written = segment.file->write(segment.n_bytes, bytes);
  if (written) {
    written = segment.file->write(segment.n_bytes + std::ssize(bytes), payload);
  }
  if (!written) {
    is_open_ = segment.file->cut(segment.n_bytes);
    return fail(
        written.error().code, "{}: {}", path_of(segment.file->number()), written.error().message);
  }
  RecordPlace place{.segment = segment.file, .offset = segment.n_bytes};
  segment.n_bytes += static_cast<int64_t>(head.record_bytes());
  n_bytes_ += static_cast<int64_t>(head.record_bytes());
  return place;
}

// After a failed write. What keeps a file from growing need not keep the next one from it; and
// whatever made the disk full, the oldest blocks are worth less than those to come.
void SegmentStore::yield_space(const Error& error) {
  const size_t n_closed = segments_.size() - (is_open_ ? 1 : 0);
  if (error.code == ErrorCode::kResourceExhausted && n_closed > 0) {
    drop_oldest();
  } else if (is_open_ && segments_.back().n_bytes > 0) {
    is_open_ = false;
  }
}

}  // namespace millrace
