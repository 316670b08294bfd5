#include "server/response_cache/answer_record.h"

#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/utf8.h"

namespace millrace {
namespace {

constexpr std::string_view kMagic = "MRAC";
constexpr uint32_t kVersion = 1;
constexpr uint64_t kMaxCount = uint64_t{1} << 40;  // of tokens, so that sums cannot overflow

// In the order of StreamEvent::body.
enum class Kind : uint64_t { kToken = 1, kPrompt = 2, kFinish = 3 };

void put_number(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) {
    out += static_cast<char>(value | 0x80);
  }
  out += static_cast<char>(value);
}

template <class T>
void put_bits(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void put_text(std::string& out, std::string_view text) {
  put_number(out, text.size());
  out += text;
}

void put_token(std::string& out, TokenId token) {
  put_number(out, static_cast<uint32_t>(token));
}

void put_top(std::string& out, const std::vector<TopLogprob>& top) {
  put_number(out, top.size());
  for (const TopLogprob& entry : top) {
    put_token(out, entry.token);
    put_bits(out, entry.logprob);
  }
}

void put_body(std::string& out, const TokenEvent& event) {
  put_token(out, event.token);
  put_text(out, event.text);
  put_bits(out, event.logprob);
  put_top(out, event.top);
}

void put_body(std::string& out, const PromptEvent& event) {
  put_number(out, event.entries.size());
  for (const PromptEvent::Entry& entry : event.entries) {
    put_token(out, entry.token);
    put_bits(out, entry.logprob);
    put_top(out, entry.top);
  }
}

void put_body(std::string& out, const FinishEvent& event) {
  put_number(out, static_cast<uint64_t>(event.reason));
  put_text(out, event.text);
  for (const int64_t count : {event.usage.prompt_tokens,
                              event.usage.cached_tokens,
                              event.usage.completion_tokens,
                              event.usage.accepted_drafts,
                              event.usage.rejected_drafts}) {
    put_number(out, static_cast<uint64_t>(count));
  }
}

// Reads from bytes that may be anything: after the first mistake everything is zero and empty.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  bool has_failed() const { return has_failed_; }
  std::string_view rest() const { return rest_; }

  void fail() {
    has_failed_ = true;
    rest_ = {};
  }
  std::string_view take(uint64_t n) {
    if (n > rest_.size()) {
      fail();
      return {};
    }
    const std::string_view taken = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return taken;
  }
  uint64_t number() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const std::string_view byte = take(1);
      if (byte.empty()) {
        return 0;
      }
      const auto bits = static_cast<unsigned char>(byte[0]);
      value |= uint64_t{bits & 0x7FU} << shift;
      if (bits < 0x80) {
        return value;
      }
    }
    fail();
    return 0;
  }
  int64_t count() {
    const uint64_t n = number();
    if (n > kMaxCount) {
      fail();
      return 0;
    }
    return static_cast<int64_t>(n);
  }
  // How many things follow of which each takes at least so many bytes.
  size_t number_of(size_t least_bytes) {
    const uint64_t n = number();
    if (n > rest_.size() / least_bytes) {
      fail();
      return 0;
    }
    return n;
  }
  TokenId token() { return static_cast<TokenId>(static_cast<uint32_t>(number())); }
  std::string text() { return std::string(take(number())); }
  template <class T>
  T bits() {
    T value{};
    if (const std::string_view bytes = take(sizeof(value)); !bytes.empty()) {
      std::memcpy(&value, bytes.data(), sizeof(value));
    }
    return value;
  }
  std::vector<TopLogprob> top() {
    std::vector<TopLogprob> entries(number_of(1 + sizeof(float)));
    for (TopLogprob& entry : entries) {
      entry.token = token();
      entry.logprob = bits<float>();
    }
    return entries;
  }

 private:
  std::string_view rest_;
  bool has_failed_ = false;
};

TokenEvent take_token(ByteReader& reader) {
  TokenEvent event;
  event.token = reader.token();
  event.text = reader.text();
  event.logprob = reader.bits<float>();
  event.top = reader.top();
  return event;
}

PromptEvent take_prompt(ByteReader& reader) {
  PromptEvent event;
  event.entries.resize(reader.number_of(2 + sizeof(float)));
  for (PromptEvent::Entry& entry : event.entries) {
    entry.token = reader.token();
    entry.logprob = reader.bits<float>();
    entry.top = reader.top();
  }
  return event;
}

FinishEvent take_finish(ByteReader& reader) {
  FinishEvent event;
  event.reason = static_cast<FinishReason>(reader.number());
  if (event.reason != FinishReason::kStop && event.reason != FinishReason::kLength) {
    reader.fail();
  }
  event.text = reader.text();
  event.usage.prompt_tokens = reader.count();
  event.usage.cached_tokens = reader.count();
  event.usage.completion_tokens = reader.count();
  event.usage.accepted_drafts = reader.count();
  event.usage.rejected_drafts = reader.count();
  return event;
}

bool are_known(const std::vector<TopLogprob>& top, int32_t n_vocab) {
  for (const TopLogprob& entry : top) {
    if (entry.token < 0 || entry.token >= n_vocab) {
      return false;
    }
  }
  return true;
}

bool is_sound(const StreamEvent& event, int32_t n_vocab) {
  if (const auto* token = std::get_if<TokenEvent>(&event.body)) {
    return token->token >= 0 && token->token < n_vocab && is_valid_utf8(token->text) &&
           are_known(token->top, n_vocab);
  }
  if (const auto* prompt = std::get_if<PromptEvent>(&event.body)) {
    for (const PromptEvent::Entry& entry : prompt->entries) {
      if (entry.token < 0 || entry.token >= n_vocab || !are_known(entry.top, n_vocab)) {
        return false;
      }
    }
    return true;
  }
  return is_valid_utf8(std::get<FinishEvent>(event.body).text);
}

// Every choice ends, once, and nothing comes behind.
bool is_whole_answer(std::string_view record, const AnswerShape& shape) {
  std::vector<bool> has_ended(static_cast<size_t>(shape.n_choices), false);
  int n_ended = 0;
  StreamEvent event;
  while (take_event(record, event)) {
    if (event.choice >= shape.n_choices || has_ended[static_cast<size_t>(event.choice)] ||
        !is_sound(event, shape.n_vocab)) {
      return false;
    }
    if (std::holds_alternative<FinishEvent>(event.body)) {
      has_ended[static_cast<size_t>(event.choice)] = true;
      ++n_ended;
    }
  }
  return record.empty() && n_ended == shape.n_choices;
}

}  // namespace

void append_event(std::string& record, const StreamEvent& event) {
  put_number(record, event.body.index() + 1);  // Kind
  put_number(record, static_cast<uint64_t>(event.choice));
  std::visit([&](const auto& body) { put_body(record, body); }, event.body);
}

bool take_event(std::string_view& record, StreamEvent& event) {
  if (record.empty()) {
    return false;
  }
  ByteReader reader(record);
  const auto kind = static_cast<Kind>(reader.number());
  const uint64_t choice = reader.number();
  if (choice > INT32_MAX) {
    return false;
  }
  event.choice = static_cast<int>(choice);
  if (kind == Kind::kToken) {
    event.body = take_token(reader);
  } else if (kind == Kind::kPrompt) {
    event.body = take_prompt(reader);
  } else if (kind == Kind::kFinish) {
    event.body = take_finish(reader);
  } else {
    return false;
  }
  if (reader.has_failed()) {
    return false;
  }
  record = reader.rest();
  return true;
}

std::string seal_record(const Digest256& key, std::string_view record) {
  std::string sealed;
  sealed.reserve(kSealBytes + record.size());
  sealed += kMagic;
  put_bits(sealed, kVersion);
  put_bits(sealed, key);
  put_bits(sealed, uint64_t{record.size()});
  sealed += record;
  Sha256 digest;
  digest.add(std::as_bytes(std::span(sealed)));
  put_bits(sealed, digest.finish());
  return sealed;
}

std::optional<std::string> open_record(std::string_view sealed,
                                       const Digest256& key,
                                       const AnswerShape& shape) {
  if (sealed.size() < kSealBytes) {
    return std::nullopt;
  }
  const std::string_view content = sealed.substr(0, sealed.size() - sizeof(Digest256));
  Sha256 digest;
  digest.add(std::as_bytes(std::span(content)));
  ByteReader reader(sealed);
  const bool is_ours = reader.take(kMagic.size()) == kMagic &&
                       reader.bits<uint32_t>() == kVersion && reader.bits<Digest256>() == key;
  const uint64_t n_bytes = reader.bits<uint64_t>();
  if (!is_ours || n_bytes != sealed.size() - kSealBytes) {
    return std::nullopt;
  }
  const std::string_view record = reader.take(n_bytes);
  if (reader.bits<Digest256>() != digest.finish() || !is_whole_answer(record, shape)) {
    return std::nullopt;
  }
  return std::string(record);
}

}  // namespace millrace
