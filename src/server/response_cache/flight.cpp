#include "server/response_cache/flight.h"

#include <algorithm>
#include <utility>

#include "server/response_cache/answer_record.h"

namespace millrace {
namespace {

constexpr size_t kTrimBytes = 64 << 10;  // dropped at once, so that little is moved

}  // namespace

WakeList::~WakeList() {
  for (Node* node = head_.load(); node != nullptr;) {
    delete std::exchange(node, node->next);
  }
}

WakeList::Node& WakeList::add(Waker wake) {
  auto* const node = new Node{std::move(wake)};
  node->next = head_.load();
  while (!head_.compare_exchange_weak(node->next, node)) {
  }
  return *node;
}

// The newest one stays even when it is gone: new ones come in front of it.
void WakeList::wake_all() {
  Node* last = nullptr;
  for (Node* node = head_.load(); node != nullptr;) {
    Node* const next = node->next;
    if (!node->is_gone.load(std::memory_order_acquire)) {
      node->wake();
      last = node;
    } else if (last != nullptr) {
      last->next = next;
      delete node;
    } else {
      last = node;
    }
    node = next;
  }
}

Flight::Flight(const Digest256& key, size_t max_record_bytes, QueuePlace place)
    : key_(key), max_record_bytes_(max_record_bytes), place_(place) {}

Result<Flight::Reader*> Flight::start(const Compute& compute, Waker wake) {
  Reader* const reader = add_reader(std::move(wake));
  auto feed = compute([wakes = wakes_] { wakes->wake_all(); });
  if (!feed) {
    state_ = State::kFailed;
    return propagate(feed);
  }
  feed_ = std::move(*feed);
  return reader;
}

Flight::Reader* Flight::join(Waker wake) {
  const std::lock_guard lock(mutex_);
  return state_ == State::kFailed || is_too_large_ ? nullptr : add_reader(std::move(wake));
}

Flight::Reader* Flight::add_reader(Waker wake) {
  readers_.push_back(std::make_unique<Reader>());
  readers_.back()->node = &wakes_->add(std::move(wake));
  return readers_.back().get();
}

Flight::Progress Flight::read(Reader& reader, std::string& news) {
  const std::lock_guard lock(mutex_);
  const bool is_news = pump();
  news.assign(*record_, reader.offset - n_dropped_);
  reader.offset = n_dropped_ + record_->size();
  if (is_too_large_) {
    trim();
  }
  return {state_, is_news};
}

// True when the record has become too large, or the computation has ended.
bool Flight::pump() {
  StreamEvent event;
  bool is_news = false;
  while (state_ == State::kRunning && feed_->try_next(event)) {
    const auto* finish = std::get_if<FinishEvent>(&event.body);
    if (finish != nullptr && finish->reason != FinishReason::kStop &&
        finish->reason != FinishReason::kLength) {
      failure_ = *finish;
      state_ = State::kFailed;
      break;
    }
    append_event(*record_, event);
    has_begun_.store(true);
    if (!is_too_large_ && record_->size() > max_record_bytes_) {
      is_too_large_ = true;
      is_news = true;
    }
  }
  if (state_ == State::kRunning && feed_->is_finished()) {
    record_->shrink_to_fit();
    state_ = State::kWhole;
  }
  if (state_ != State::kRunning && feed_ != nullptr) {
    feed_.reset();
    is_news = true;
  }
  return is_news;
}

void Flight::trim() {
  size_t offset = n_dropped_ + record_->size();
  for (const auto& reader : readers_) {
    offset = std::min(offset, reader->offset);
  }
  if (offset - n_dropped_ >= kTrimBytes) {
    record_->erase(0, offset - n_dropped_);
    n_dropped_ = offset;
  }
}

bool Flight::leave(Reader& reader) {
  const std::lock_guard lock(mutex_);
  reader.node->is_gone.store(true, std::memory_order_release);
  std::erase_if(readers_, [&](const auto& one) { return one.get() == &reader; });
  const bool is_abandoned = readers_.empty() && state_ == State::kRunning;
  if (is_abandoned) {
    state_ = State::kFailed;
    feed_.reset();  // cancels
  }
  return is_abandoned;
}

SharedRecord Flight::record() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::kWhole && !is_too_large_ ? record_ : nullptr;
}

FinishEvent Flight::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace millrace
