#pragma once
// One computation and everybody who waits for its answer. Any thread; the engine thread only wakes
// readers and takes no mutex for it.

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/result.h"
#include "server/answer_feed.h"
#include "server/http.h"
#include "server/response_cache/memory_store.h"

namespace millrace {

// Starts a computation whose news is told by on_ready, from the engine thread.
using Compute = std::function<Result<std::unique_ptr<AnswerFeed>>(const Waker& on_ready)>;

// Whom to wake. Grows on any thread while it is used, without a mutex; one thread at a time wakes,
// and forgets those who have gone.
class WakeList {
 public:
  struct Node {
    Waker wake;
    std::atomic<bool> is_gone{false};  // the last that its reader does with it
    Node* next = nullptr;              // the waking thread's once the node is in the list
  };

  WakeList() = default;
  ~WakeList();
  WakeList(const WakeList&) = delete;
  WakeList& operator=(const WakeList&) = delete;

  Node& add(Waker wake);
  void wake_all();

 private:
  std::atomic<Node*> head_{nullptr};
};

// Where a computation waits for its turn: among those of a client (all are one where it does not
// matter), by priority, lower first.
struct QueuePlace {
  int client = 0;
  int priority = 0;
};

// Whichever reader is woken first moves the engine's news into the record; all read from there. The
// computation ends when the last reader leaves, not when the first one does.
class Flight {
 public:
  struct Reader {
    size_t offset = 0;  // of the record, read so far
    WakeList::Node* node = nullptr;
  };
  enum class State { kRunning, kWhole, kFailed };
  struct Progress {
    State state = State::kRunning;
    // The record has just become too large to be kept, or the computation has just ended: told to
    // one reader, who sees to what follows from it.
    bool is_news = false;
  };

  // A record above max_record_bytes is not kept; what all readers have read of it is dropped.
  Flight(const Digest256& key, size_t max_record_bytes, QueuePlace place);

  const Digest256& key() const { return key_; }
  // Whether the other one may have its turn before this one, of whose answer nothing has been seen
  // yet. Among clients that depends on all that each waits for, and not on these two.
  bool would_delay(const Flight& other) const {
    return !has_begun_.load() &&
           (other.place_.client != place_.client || other.place_.priority < place_.priority);
  }

  // Holds up joiners until start() has been called.
  std::unique_lock<std::mutex> hold() { return std::unique_lock(mutex_); }
  // While held: becomes the first reader and starts.
  Result<Reader*> start(const Compute& compute, Waker wake);

  // Null: too late, the computation has failed or was given up, or its beginning is gone.
  Reader* join(Waker wake);
  // Puts what the reader has not seen into `news`.
  Progress read(Reader& reader, std::string& news);
  // True when it was the last one of a computation, which is thereby given up.
  bool leave(Reader& reader);

  // Once whole, and not too large: what to keep. Else null.
  SharedRecord record() const;
  // Once failed: the event that says why.
  FinishEvent failure() const;

 private:
  Reader* add_reader(Waker wake);
  bool pump();
  void trim();

  const Digest256 key_;
  const size_t max_record_bytes_;
  const QueuePlace place_;
  std::atomic<bool> has_begun_{false};
  const std::shared_ptr<WakeList> wakes_ = std::make_shared<WakeList>();
  mutable std::mutex mutex_;  // of what follows
  std::vector<std::unique_ptr<Reader>> readers_;
  std::unique_ptr<AnswerFeed> feed_;  // while running
  std::shared_ptr<std::string> record_ = std::make_shared<std::string>();
  size_t n_dropped_ = 0;  // bytes in front of record_
  bool is_too_large_ = false;
  State state_ = State::kRunning;
  FinishEvent failure_;
};

}  // namespace millrace
