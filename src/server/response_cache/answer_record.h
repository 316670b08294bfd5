#pragma once
// The events of an answer as bytes: what the response cache keeps. Pure functions and plain values.
//
// An event is a kind and a choice, then
//   token   id, text, log-probability, n, n times (id, log-probability)
//   prompt  n, n times (id, log-probability, n, n times (id, log-probability))
//   finish  reason, text, prompt, cached and completion tokens, accepted and rejected drafts
// Integers are LEB128, log-probabilities the 32 bits of a float, a text has its length in front.
// In a store that others can write to, a record is sealed: magic, version, key, length, events, and
// SHA-256 of all that.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/digest.h"
#include "engine/token_stream.h"

namespace millrace {

// What no longer matters once an answer is whole (timings, errors, the matched stop string) is not
// kept.
void append_event(std::string& record, const StreamEvent& event);

// Takes one event off the front of what append_event wrote. False at the end, and, without a crash
// whatever the bytes are, where they are no event.
bool take_event(std::string_view& record, StreamEvent& event);

// What a whole answer to a request looks like.
struct AnswerShape {
  int n_choices = 1;    // of all prompts
  int32_t n_vocab = 0;  // ids are below
};

std::string seal_record(const Digest256& key, std::string_view record);

// The record, if the bytes are whole, are of this version and this key, and hold the whole answer
// to a request of that shape.
std::optional<std::string> open_record(std::string_view sealed,
                                       const Digest256& key,
                                       const AnswerShape& shape);

inline constexpr size_t kSealBytes = 4 + 4 + 32 + 8 + 32;

}  // namespace millrace
