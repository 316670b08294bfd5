#include "engine/token_stream.h"

#include <array>
#include <utility>

namespace millrace {

// A piece of the queue. The writer fills it once and links the next one; the reader hands it back
// through spare_, so a long stream lives on two or three segments.
struct TokenStream::Segment {
  static constexpr uint32_t kEvents = 16;
  std::array<StreamEvent, kEvents> events;
  std::atomic<uint32_t> n_written{0};
  std::atomic<Segment*> next{nullptr};
};

TokenStream::TokenStream(std::function<void()> on_ready)
    : read_segment_(new Segment), write_segment_(read_segment_), on_ready_(std::move(on_ready)) {}

TokenStream::~TokenStream() {
  delete spare_.load();
  while (read_segment_ != nullptr) {
    delete std::exchange(read_segment_, read_segment_->next.load());
  }
}

bool TokenStream::try_next(StreamEvent& event) {
  if (read_index_ == Segment::kEvents) {
    Segment* next = read_segment_->next.load(std::memory_order_acquire);
    if (next != nullptr) {
      Segment* used = std::exchange(read_segment_, next);
      read_index_ = 0;
      used->n_written.store(0, std::memory_order_relaxed);
      used->next.store(nullptr, std::memory_order_relaxed);
      delete spare_.exchange(used, std::memory_order_acq_rel);
    }
  }
  const auto is_empty = [&] {
    return read_index_ == Segment::kEvents || read_index_ == read_segment_->n_written.load();
  };
  if (is_empty()) {
    if (read_index_ == Segment::kEvents) {
      // The next segment is linked just before its first event: look there once more, so that the
      // test after announcing idleness covers it too.
      is_reader_idle_.store(true);
      return read_segment_->next.load() != nullptr && try_next(event);
    }
    // Announce first, then look again: an event pushed in between either is seen here or makes
    // notify() see the announcement (both sides are sequentially consistent).
    is_reader_idle_.store(true);
    if (is_empty()) {
      return false;
    }
  }
  event = std::move(read_segment_->events[read_index_++]);
  const FinishEvent* finish = std::get_if<FinishEvent>(&event.body);
  reader_finished_ = finish != nullptr && finish->is_last;
  return true;
}

bool TokenStream::wait_next(StreamEvent& event) {
  while (!reader_finished_) {
    const uint32_t version = version_.load(std::memory_order_acquire);
    if (try_next(event)) {
      return true;
    }
    version_.wait(version, std::memory_order_acquire);
  }
  return false;
}

void TokenStream::push(StreamEvent event) {
  if (write_index_ == Segment::kEvents) {
    Segment* fresh = spare_.exchange(nullptr, std::memory_order_acq_rel);
    fresh = fresh != nullptr ? fresh : new Segment;
    write_segment_->next.store(fresh);
    write_segment_ = fresh;
    write_index_ = 0;
  }
  write_segment_->events[write_index_++] = std::move(event);
  write_segment_->n_written.store(write_index_);
}

void TokenStream::notify() {
  version_.fetch_add(1, std::memory_order_release);
  version_.notify_one();
  if (is_reader_idle_.exchange(false) && on_ready_) {
    on_ready_();
  }
}

}  // namespace millrace
