#include "kv/disk_tier.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <thread>
#include <unordered_set>
#include <utility>
#include <variant>

#include "base/buffer.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/human_bytes.h"
#include "base/inbox.h"
#include "base/log.h"
#include "kv/record_table.h"
#include "kv/segment_store.h"

namespace millrace {
namespace {

// Copies that wait to be written: what a step of the largest size fills, for blocks of 8 MiB.
constexpr int64_t kStageBytes = int64_t{128} << 20;
constexpr int64_t kMinSlots = 8;
constexpr int64_t kMaxSlots = 256;
// After an error of writing nothing is written for so long.
constexpr double kPauseSeconds = 10;

int64_t n_slots(int64_t block_bytes) {
  return std::clamp(kStageBytes / std::max<int64_t>(block_bytes, 1), kMinSlots, kMaxSlots);
}

// From the engine thread to the writing one: a slot of the stage holds the content.
struct WriteJob {
  size_t slot = 0;
  RecordHead head;
};
// So is a file that was dropped and that nobody looks up any more: what the system does when the
// last one closes it, of a file of gigabytes, is not for the engine thread.
using WriterJob = std::variant<WriteJob, SegmentPtr>;

struct ReadJob {
  TransferId transfer = 0;
  BlockChain chain;
  std::vector<BlockBytes> memory;
  std::vector<RecordPlace> places;
  std::shared_ptr<const std::atomic<bool>> is_cancelled;
};

// From both to the engine thread.
struct Written {
  size_t slot = 0;
  BlockKey key = {};
  RecordPlace place;  // no segment: it could not be written
};
struct Dropped {
  SegmentPtr segment;
};
struct Damaged {
  BlockKey key = {};
  int64_t segment = 0;
  int64_t offset = 0;
};
using Message = std::variant<Written, Dropped, Damaged, TierEvent>;

struct DiskMetrics {
  explicit DiskMetrics(Metrics& metrics)
      : records(metrics.gauge("millrace_kv_disk_records", "KV blocks on disk")),
        bytes(metrics.gauge("millrace_kv_disk_bytes", "Bytes of the files of KV blocks")),
        written(write_counter(metrics, "written")),
        dropped(write_counter(metrics, "dropped")),
        failed(write_counter(metrics, "failed")),
        loaded(read_counter(metrics, "loaded")),
        corrupt(read_counter(metrics, "corrupt")),
        read_bytes(metrics.counter("millrace_kv_disk_read_bytes_total", "Bytes of blocks loaded")),
        written_bytes(
            metrics.counter("millrace_kv_disk_written_bytes_total", "Bytes of blocks written")) {}

  static Counter write_counter(Metrics& metrics, const char* outcome) {
    return metrics.counter("millrace_kv_disk_writes_total",
                           "KV blocks offered to the disk, by what became of them",
                           {{"outcome", outcome}});
  }
  static Counter read_counter(Metrics& metrics, const char* outcome) {
    return metrics.counter("millrace_kv_disk_reads_total",
                           "KV blocks read from disk, by what was found",
                           {{"outcome", outcome}});
  }

  Gauge records;
  Gauge bytes;
  Counter written;
  Counter dropped;
  Counter failed;
  Counter loaded;
  Counter corrupt;
  Counter read_bytes;
  Counter written_bytes;
};

}  // namespace

class DiskTier::Impl {
 public:
  Impl(const DiskTierOptions& options,
       SegmentStore segments,
       RecordTable found,
       Buffer stage,
       Metrics& metrics);
  ~Impl();

  bool put(const BlockName& name, const BlockBytes& content);
  void get(TransferId transfer, BlockChain chain, std::vector<BlockBytes> memory);
  void receive(Message& message, std::vector<TierEvent>& events);

  // Of the engine thread.
  RecordTable table;
  std::unordered_set<BlockKey, BlockKeyHash> unwritten;
  std::map<TransferId, std::shared_ptr<std::atomic<bool>>> transfers;
  Inbox<Message> news{1};  // messages are never refused
  std::vector<Message> received;
  std::atomic<int64_t> n_unwritten{0};  // any thread
  std::atomic<int64_t> n_failed{0};     // any thread

 private:
  std::span<std::byte> slot(size_t index) {
    const auto n = static_cast<size_t>(options_.block_bytes);
    return {stage_.data() + index * n, n};
  }
  void tell(Message message);
  void write_all();
  void serve(WriteJob& job);
  Written write(WriteJob& job);
  void read_all();
  void read(const ReadJob& job, Sha256& sha);

  const DiskTierOptions options_;
  DiskMetrics metrics_;
  Buffer stage_;
  std::vector<size_t> free_slots_;

  Inbox<WriterJob> writes_{1};
  Inbox<ReadJob> reads_{1};
  std::atomic<bool> is_stopping_{false};
  TimePoint stop_deadline_;  // written before is_stopping_

  // Of the writing thread.
  SegmentStore segments_;
  Sha256 sha_;
  TimePoint paused_until_{};

  std::thread writer_;
  std::thread reader_;
};

DiskTier::Impl::Impl(const DiskTierOptions& options,
                     SegmentStore segments,
                     RecordTable found,
                     Buffer stage,
                     Metrics& metrics)
    : table(std::move(found)),
      options_(options),
      metrics_(metrics),
      stage_(std::move(stage)),
      segments_(std::move(segments)) {
  for (int64_t i = n_slots(options.block_bytes); i-- > 0;) {
    free_slots_.push_back(static_cast<size_t>(i));
  }
  for (const SegmentPtr& segment : segments_.take_dropped()) {
    table.forget(segment->number());
  }
  metrics_.records.set(static_cast<double>(table.size()));
  metrics_.bytes.set(static_cast<double>(segments_.n_bytes()));
  writer_ = std::thread([this] { write_all(); });
  reader_ = std::thread([this] { read_all(); });
}

DiskTier::Impl::~Impl() {
  stop_deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(options_.max_flush_seconds));
  is_stopping_.store(true);
  writes_.wake();
  reads_.wake();
  writer_.join();
  reader_.join();
}

bool DiskTier::Impl::put(const BlockName& name, const BlockBytes& content) {
  MR_CHECK(std::ssize(content.target) + std::ssize(content.draft) == options_.block_bytes,
           "block of {} bytes",
           content.size());
  if (free_slots_.empty()) {
    metrics_.dropped.add();
    return false;
  }
  WriteJob job{.slot = free_slots_.back(),
               .head = {.key = name.key,
                        .parent = name.parent,
                        .tokens = {name.tokens.begin(), name.tokens.end()},
                        .payload_bytes = content.size()}};
  free_slots_.pop_back();
  const std::span<std::byte> copy = slot(job.slot);
  std::ranges::copy(content.target, copy.begin());
  std::ranges::copy(content.draft, copy.begin() + std::ssize(content.target));
  unwritten.insert(name.key);
  n_unwritten.fetch_add(1);
  writes_.push_always(std::move(job));
  return true;
}

void DiskTier::Impl::get(TransferId transfer, BlockChain chain, std::vector<BlockBytes> memory) {
  auto is_cancelled = std::make_shared<std::atomic<bool>>(false);
  ReadJob job;
  job.transfer = transfer;
  job.memory = std::move(memory);
  job.is_cancelled = is_cancelled;
  for (const BlockKey& key : chain.keys) {
    auto found = table.find(key);
    if (!found) {  // dropped since it was looked up
      break;
    }
    job.places.push_back(*std::move(found));
  }
  job.chain = std::move(chain);
  transfers.emplace(transfer, std::move(is_cancelled));
  reads_.push_always(std::move(job));
}

void DiskTier::Impl::receive(Message& message, std::vector<TierEvent>& events) {
  if (auto* written = std::get_if<Written>(&message)) {
    free_slots_.push_back(written->slot);
    unwritten.erase(written->key);
    if (written->place.segment != nullptr) {
      table.add(written->key, std::move(written->place));
    }
  } else if (auto* dropped = std::get_if<Dropped>(&message)) {
    table.forget(dropped->segment->number());
    writes_.push_always(std::move(dropped->segment));
  } else if (const auto* damaged = std::get_if<Damaged>(&message)) {
    // It is written again when it has been computed again.
    table.remove(damaged->key, damaged->segment, damaged->offset);
  } else {
    const TierEvent& event = std::get<TierEvent>(message);
    if (event.is_over) {
      transfers.erase(event.transfer);
    }
    events.push_back(event);
  }
  metrics_.records.set(static_cast<double>(table.size()));
}

// A file that may not grow further answers a write with a signal, unless it is blocked.
void block_file_size_signal() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

// A message to the engine thread, which may be asleep.
void DiskTier::Impl::tell(Message message) {
  news.push_always(std::move(message));
  if (options_.on_news) {
    options_.on_news();
  }
}

void DiskTier::Impl::write_all() {
  block_file_size_signal();
  std::vector<WriterJob> jobs;
  while (true) {
    jobs.clear();
    if (!writes_.drain(jobs)) {
      if (is_stopping_.load()) {
        break;
      }
      writes_.wait();
      continue;
    }
    for (WriterJob& job : jobs) {
      if (auto* dropped = std::get_if<SegmentPtr>(&job)) {
        dropped->reset();
      } else {
        serve(std::get<WriteJob>(job));
      }
    }
  }
}

void DiskTier::Impl::serve(WriteJob& job) {
  Written written = write(job);
  for (SegmentPtr& segment : segments_.take_dropped()) {
    tell(Dropped{std::move(segment)});
  }
  metrics_.bytes.set(static_cast<double>(segments_.n_bytes()));
  if (written.place.segment == nullptr) {
    metrics_.failed.add();
    n_failed.fetch_add(1);
  }
  tell(std::move(written));
  n_unwritten.fetch_sub(1);
}

Written DiskTier::Impl::write(WriteJob& job) {
  Written result{.slot = job.slot, .key = job.head.key, .place = {}};
  const TimePoint now = Clock::now();
  if (now < paused_until_ || (is_stopping_.load() && now > stop_deadline_)) {
    return result;
  }
  const std::span<std::byte> payload = slot(job.slot);
  job.head.payload_digest = payload_digest({.target = payload}, sha_);
  auto place = segments_.append(job.head, payload);
  if (!place) {
    log_warning("[kv] {}: nothing is kept on disk for {} s", place.error().message, kPauseSeconds);
    paused_until_ = now + std::chrono::seconds(static_cast<int>(kPauseSeconds));
    return result;
  }
  metrics_.written.add();
  metrics_.written_bytes.add(static_cast<double>(job.head.record_bytes()));
  result.place = *std::move(place);
  return result;
}

void DiskTier::Impl::read_all() {
  Sha256 sha;
  std::vector<ReadJob> jobs;
  while (!is_stopping_.load()) {
    if (!reads_.drain(jobs)) {
      reads_.wait();
      continue;
    }
    for (const ReadJob& job : jobs) {
      read(job, sha);
    }
    jobs.clear();  // and with them dropped files, if these were the last to read them
  }
}

void DiskTier::Impl::read(const ReadJob& job, Sha256& sha) {
  int64_t n_blocks = 0;
  for (size_t i = 0; i < job.places.size(); ++i) {
    if (job.is_cancelled->load() || is_stopping_.load()) {
      break;
    }
    if (!read_record(job.places[i], job.chain.name(i), job.memory[i], sha)) {
      metrics_.corrupt.add();
      tell(Damaged{.key = job.chain.keys[i],
                   .segment = job.places[i].segment->number(),
                   .offset = job.places[i].offset});
      break;
    }
    metrics_.loaded.add();
    metrics_.read_bytes.add(static_cast<double>(job.memory[i].size()));
    ++n_blocks;
    tell(TierEvent{.transfer = job.transfer, .n_blocks = n_blocks});
  }
  tell(TierEvent{.transfer = job.transfer, .n_blocks = n_blocks, .is_over = true});
}

DiskTier::DiskTier(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DiskTier::~DiskTier() = default;

int64_t DiskTier::stage_bytes(int64_t block_bytes) {
  return n_slots(block_bytes) * block_bytes;
}

int64_t DiskTier::table_bytes(int64_t max_bytes, int64_t block_bytes) {
  return max_bytes / std::max<int64_t>(block_bytes, 1) * RecordTable::kBytesPerRecord;
}

Result<std::unique_ptr<DiskTier>> DiskTier::open(const DiskTierOptions& options, Metrics& metrics) {
  const auto record_bytes =
      options.block_bytes + static_cast<int64_t>(RecordHead::bytes(RecordHead::kMaxTokens));
  if (options.max_bytes < 2 * record_bytes) {
    return fail(ErrorCode::kInvalidArgument,
                "--kv-disk-size must hold two blocks of {}, got {}",
                human_bytes(static_cast<uint64_t>(options.block_bytes)),
                human_bytes(static_cast<uint64_t>(options.max_bytes)));
  }
  RecordTable table;
  auto segments = SegmentStore::open(
      options.folder, options.max_bytes, [&](const RecordHead& head, const RecordPlace& place) {
        // Those of other sizes are other models'; of several with one key the youngest counts.
        if (head.payload_bytes == static_cast<uint64_t>(options.block_bytes)) {
          table.add(head.key, place);
        }
      });
  if (!segments) {
    return fail(segments.error().code, "--kv-disk {}", segments.error().message);
  }
  log_info("[kv] {}: {} of {} found, in {} of files",
           options.folder,
           counted(table.size(), "block"),
           human_bytes(static_cast<uint64_t>(options.block_bytes)),
           human_bytes(static_cast<uint64_t>(segments->n_bytes())));
  if (segments->n_damaged() > 0) {
    log_warning("[kv] {}: {} cannot be read to the end, what follows the damage is computed again",
                options.folder,
                counted(segments->n_damaged(), "file"));
  }
  auto stage = Buffer::try_allocate(static_cast<size_t>(stage_bytes(options.block_bytes)));
  if (!stage) {
    return propagate(stage);
  }
  return std::unique_ptr<DiskTier>(new DiskTier(std::make_unique<Impl>(
      options, *std::move(segments), std::move(table), *std::move(stage), metrics)));
}

int64_t DiskTier::n_stored(std::span<const BlockKey> chain) const {
  const auto end =
      std::ranges::find_if(chain, [&](const BlockKey& key) { return !impl_->table.contains(key); });
  return end - chain.begin();
}

bool DiskTier::keeps(const BlockKey& key) const {
  return impl_->table.contains(key) || impl_->unwritten.contains(key);
}

bool DiskTier::put(const BlockName& name, const BlockBytes& content) {
  return impl_->put(name, content);
}

void DiskTier::get(TransferId transfer, BlockChain chain, std::vector<BlockBytes> memory) {
  impl_->get(transfer, std::move(chain), std::move(memory));
}

void DiskTier::cancel(TransferId transfer) {
  if (const auto found = impl_->transfers.find(transfer); found != impl_->transfers.end()) {
    found->second->store(true);
  }
}

void DiskTier::poll(std::vector<TierEvent>& events) {
  impl_->received.clear();
  impl_->news.drain(impl_->received);
  for (Message& message : impl_->received) {
    impl_->receive(message, events);
  }
}

int64_t DiskTier::n_unwritten() const {
  return impl_->n_unwritten.load();
}

int64_t DiskTier::n_failed() const {
  return impl_->n_failed.load();
}

int64_t DiskTier::n_records() const {
  return impl_->table.size();
}

}  // namespace millrace
