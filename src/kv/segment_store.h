#pragma once
// The files of a disk tier: a folder of append-only segments, each a row of block records. Opening
// reads the heads of all records and takes the folder for this process alone. After that the
// writing thread has the store; any thread may read records.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/result.h"
#include "kv/block_record.h"

namespace millrace {

// An open file, closed with it. Any thread may read.
class SegmentFile {
 public:
  struct Status {
    int64_t n_bytes = 0;
    bool has_one_name = false;  // nobody means this file by another one
  };

  SegmentFile(int descriptor, int64_t number) : descriptor_(descriptor), number_(number) {}
  ~SegmentFile();
  SegmentFile(const SegmentFile&) = delete;
  SegmentFile& operator=(const SegmentFile&) = delete;

  int64_t number() const { return number_; }
  // False: not so many bytes there, or the system says no.
  bool read(int64_t offset, std::span<std::byte> bytes) const;
  // kResourceExhausted: no space is left; kIo: anything else.
  Result<void> write(int64_t offset, std::span<const std::byte> bytes) const;
  // To so many bytes. False: the system says no.
  bool cut(int64_t size) const;
  // kIo: not a file, but a folder, a pipe or a device.
  Result<Status> status() const;
  // Whether that path leads to this very file.
  bool is_at(const std::string& path) const;

 private:
  const int descriptor_;
  const int64_t number_;
};

using SegmentPtr = std::shared_ptr<const SegmentFile>;

struct RecordPlace {
  SegmentPtr segment;
  int64_t offset = 0;
};

// Reads a record's content into memory and verifies it: head, name and every byte. False: it is
// not there as it was written, and the memory holds anything.
bool read_record(const RecordPlace& place,
                 const BlockName& name,
                 const BlockBytes& memory,
                 Sha256& sha);

// Records have no index beside them: their heads, each with its own checksum, are the index. What
// follows a head that is damaged, cut off or of another version is out of reach; the last segment
// is cut there, so that it can be appended to. There is no sync: what a machine that loses power
// had not written yet is a miss.
class SegmentStore {
 public:
  // A folder that does not exist is made. Older segments go when there are more than max_bytes.
  // on_record: for every record, the oldest first. Errors name the folder: kIo when it cannot be
  // used, or has links, folders or devices for segments; kUnavailable when another store has it.
  // Files of other names are left alone; one with several names is read, but not written.
  static Result<SegmentStore> open(
      const std::string& folder,
      int64_t max_bytes,
      const std::function<void(const RecordHead&, const RecordPlace&)>& on_record);
  SegmentStore(SegmentStore&&) noexcept = default;
  SegmentStore& operator=(SegmentStore&&) noexcept = default;
  ~SegmentStore();

  // payload: head.payload_bytes of them. kInvalidArgument: the record is larger than max_bytes;
  // else as SegmentFile::write. Makes room by dropping the oldest segments. After an error the
  // store is as before, but for those. A disk without space (kResourceExhausted) costs the oldest
  // segment too, unless it is the one being written: a later call finds the space, once nobody
  // reads that segment any more. A folder that was replaced since, or whose lock was, may be
  // another store's: in there nothing is made (kIo) or removed.
  Result<RecordPlace> append(const RecordHead& head, std::span<const std::byte> payload);
  // Dropped since the last call; who reads them still can.
  std::vector<SegmentPtr> take_dropped() { return std::exchange(dropped_, {}); }

  int64_t n_bytes() const { return n_bytes_; }
  int64_t n_damaged() const {
    return n_damaged_;
  }  // segments that open() could not read to the end
 private:
  struct Segment {
    SegmentPtr file;
    int64_t n_bytes = 0;
    bool has_one_name = true;
  };

  SegmentStore(std::string folder, int64_t max_bytes);
  std::string path_of(int64_t number) const;
  std::string lock_path() const { return folder_ + "/lock"; }
  Result<void> lock();
  Result<std::vector<int64_t>> list() const;
  Result<Segment> open_segment(int64_t number) const;
  int64_t scan(const SegmentPtr& file,
               int64_t n_bytes,
               const std::function<void(const RecordHead&, const RecordPlace&)>& on_record);
  Result<void> begin_segment();
  Result<RecordPlace> write(const RecordHead& head, std::span<const std::byte> payload);
  void yield_space(const Error& error);
  Result<void> make_room(int64_t n_bytes);
  void drop_oldest();

  std::string folder_;
  int64_t max_bytes_;
  std::unique_ptr<SegmentFile> lock_;  // held open: the folder is ours
  std::deque<Segment> segments_;       // oldest first
  bool is_open_ = false;               // the last one may be appended to
  int64_t next_number_ = 1;
  int64_t n_bytes_ = 0;
  int64_t n_damaged_ = 0;
  std::vector<SegmentPtr> dropped_;
  Sha256 sha_;
};

}  // namespace millrace
