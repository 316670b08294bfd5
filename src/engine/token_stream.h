#pragma once
// The way back of a request: events from the engine thread to one reader. Lock-free, one writer
// (engine thread), one reader thread at a time; cancel() from any thread.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "sample/logprob.h"

namespace millrace {

// One token that belongs to the answer, and the text that became visible with it. The texts of
// all TokenEvents and of the FinishEvent joined are the answer: valid UTF-8, no stop string.
struct TokenEvent {
  TokenId token = 0;
  std::string text = {};             // may be empty: a character still incomplete, a control token
  float logprob = 0;                 // filled when Request::n_logprobs is set
  std::vector<TopLogprob> top = {};  // best first; the chosen token only if it is among them
};

// First event when Request::prompt_logprobs is set. One entry per prompt token; the first has no
// predecessor, so its logprob is NaN and its top is empty.
struct PromptEvent {
  struct Entry {
    TokenId token = 0;
    float logprob = 0;
    std::vector<TopLogprob> top = {};
  };
  std::vector<Entry> entries = {};
};

// kTimeout: the deadline came, and what was there by then is the answer.
enum class FinishReason { kStop, kLength, kTimeout, kCancelled, kError };

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;      // of the prompt, taken from the KV cache
  int64_t completion_tokens = 0;  // exactly the TokenEvents of this choice
  int64_t accepted_drafts = 0;    // tokens guessed by speculation that came true
  int64_t rejected_drafts = 0;
};

struct RequestTimings {
  double queue_seconds = 0;    // submit to first admission
  double prefill_seconds = 0;  // first admission to first sampled token
  double decode_seconds = 0;   // first sampled token to the end
};

// The last event of a choice.
struct FinishEvent {
  FinishReason reason = FinishReason::kStop;
  std::string text = {};         // what was still held back; often empty
  std::string stop_string = {};  // the stop string that matched, if one did
  Error error = {};              // when reason is kError
  Usage usage = {};
  RequestTimings timings = {};
  uint64_t seed = 0;     // of the request: sending it again gives the same answer
  bool is_last = false;  // no event follows for any choice
};

struct StreamEvent {
  int choice = 0;
  std::variant<TokenEvent, PromptEvent, FinishEvent> body;
};

class TokenStream {
 public:
  // on_ready runs on the engine thread, at most once a step, when events wait and the reader had
  // found none; it must not block (post a message and return).
  explicit TokenStream(std::function<void()> on_ready);
  ~TokenStream();
  TokenStream(const TokenStream&) = delete;
  TokenStream& operator=(const TokenStream&) = delete;

  // Reader. False: nothing there now; on_ready will call.
  bool try_next(StreamEvent& event);
  // Reader. Blocks for the next event; false once the last one has been taken.
  bool wait_next(StreamEvent& event);
  // Reader: the last event has been taken.
  bool is_finished() const { return reader_finished_; }

  // Any thread. Takes effect within one step in every state: queued, prefill, decode. The choices
  // still end with a FinishEvent. Dropping the last outside reference cancels too.
  void cancel() { cancelled_.store(true, std::memory_order_release); }

  // Engine thread only.
  void push(StreamEvent event);
  void notify();  // once a step, after the pushes
  bool is_cancelled() const { return cancelled_.load(std::memory_order_acquire); }

 private:
  struct Segment;

  Segment* read_segment_;  // reader
  uint32_t read_index_ = 0;
  bool reader_finished_ = false;
  alignas(64) Segment* write_segment_;  // engine thread
  uint32_t write_index_ = 0;
  std::function<void()> on_ready_;
  alignas(64) std::atomic<Segment*> spare_{nullptr};  // one used segment on its way back
  std::atomic<uint32_t> version_{0};                  // counts notify(); wait_next sleeps on it
  std::atomic<bool> is_reader_idle_{true};
  std::atomic<bool> cancelled_{false};
};

}  // namespace millrace
