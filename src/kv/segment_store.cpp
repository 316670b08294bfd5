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
// Prompts are in there.
constexpr mode_t kOwnerOnly = S_IRUSR | S_IWUSR;

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
    if (n <= 0) {
      return fail(ErrorCode::kIo, "{}", n == 0 ? "nothing was written" : std::strerror(errno));
    }
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += n;
  }
  return {};
}

bool SegmentFile::cut(int64_t size) const {
  return ::ftruncate(descriptor_, size) == 0;
}

void SegmentFile::sync() const {
  ::fdatasync(descriptor_);  // what is not there later is a miss
}

int64_t SegmentFile::size() const {
  struct stat status {};
  return ::fstat(descriptor_, &status) == 0 ? status.st_size : -1;
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
  const std::string path = folder_ + "/lock";
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kOwnerOnly);
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
std::vector<int64_t> SegmentStore::list() const {
  std::vector<int64_t> numbers;
  std::error_code error;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    int64_t number = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), number);
    if (parsed.ec == std::errc() && number > 0 && at->path() == fs::path(path_of(number))) {
      numbers.push_back(number);
    }
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
  int64_t n_whole = 0;  // bytes of the last segment's records
  for (const int64_t number : store.list()) {
    store.next_number_ = number + 1;
    const int descriptor = ::open(store.path_of(number).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (descriptor < 0) {
      return fail(ErrorCode::kIo, "{}: {}", store.path_of(number), std::strerror(errno));
    }
    auto file = std::make_shared<const SegmentFile>(descriptor, number);
    const int64_t n_bytes = std::max<int64_t>(file->size(), 0);
    n_whole = store.scan(file, n_bytes, on_record);
    store.n_damaged_ += n_whole < n_bytes ? 1 : 0;
    store.n_bytes_ += n_bytes;
    store.segments_.push_back({std::move(file), n_bytes});
  }
  if (!store.segments_.empty()) {
    Segment& last = store.segments_.back();
    store.is_open_ = last.file->cut(n_whole);
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
  std::error_code ignored;
  fs::remove(path_of(oldest.file->number()), ignored);
  n_bytes_ -= oldest.n_bytes;
  dropped_.push_back(std::move(oldest.file));
  segments_.pop_front();
  is_open_ = is_open_ && !segments_.empty();
}

Result<void> SegmentStore::begin_segment() {
  const std::string path = path_of(next_number_);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kOwnerOnly);
  if (descriptor < 0) {
    return fail(ErrorCode::kIo, "{}: {}", path, std::strerror(errno));
  }
  segments_.push_back({std::make_shared<const SegmentFile>(descriptor, next_number_), 0});
  ++next_number_;
  is_open_ = true;
  return {};
}

// So that the last segment can take n_bytes more.
Result<void> SegmentStore::make_room(int64_t n_bytes) {
  if (n_bytes > max_bytes_) {
    return fail(ErrorCode::kResourceExhausted, "{} bytes are more than the whole tier", n_bytes);
  }
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
  if (auto made = make_room(static_cast<int64_t>(head.record_bytes())); !made) {
    return propagate(made);
  }
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

void SegmentStore::sync() const {
  if (is_open_) {
    segments_.back().file->sync();
  }
}

}  // namespace millrace
