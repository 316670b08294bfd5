#include "engine/simulation/trace.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "engine/memory_plan.h"
#include "kv/block_picker.h"
#include "text/value.h"

namespace millrace {
namespace {

constexpr size_t kMaxLineBytes = size_t{64} << 20;
constexpr size_t kReadBytes = size_t{64} << 10;
constexpr int64_t kMaxTokens = kMaxBlocks * kBlockTokens;
constexpr int64_t kMaxMilliseconds = int64_t{1} << 50;
constexpr size_t kShownBytes = 40;

// A value for an error: its beginning, on one line.
std::string shown(const Value* value) {
  if (value == nullptr) {
    return "nothing";
  }
  std::string text = to_repr(*value).text();
  for (char& c : text) {
    c = static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e ? '?' : c;
  }
  if (text.size() > kShownBytes) {
    text.resize(kShownBytes);
    text += "...";
  }
  return text;
}

Result<int64_t> whole_number(const Value& object, const char* name, int64_t low, int64_t high) {
  const Value* value = object.find(name);
  if (value == nullptr || !value->is_int() || value->as_int() < low || value->as_int() > high) {
    return fail(ErrorCode::kCorrupt,
                "{}: expected a whole number from {} to {}, got {}",
                name,
                low,
                high,
                shown(value));
  }
  return value->as_int();
}

Result<std::vector<int64_t>> read_ids(const Value& object, int64_t n_prompt) {
  const Value* list = object.find("hash_ids");
  if (list == nullptr || !list->is_list()) {
    return fail(ErrorCode::kCorrupt, "hash_ids: expected a list, got {}", shown(list));
  }
  const auto n_expected =
      static_cast<size_t>((n_prompt + kTraceBlockTokens - 1) / kTraceBlockTokens);
  if (list->items().size() != n_expected) {
    return fail(ErrorCode::kCorrupt,
                "hash_ids: expected {} for input_length {}, one for every {} tokens, got {}",
                n_expected,
                n_prompt,
                kTraceBlockTokens,
                list->items().size());
  }
  std::vector<int64_t> ids;
  ids.reserve(n_expected);
  for (const Value& id : list->items()) {
    if (!id.is_int() || id.as_int() < 0) {
      return fail(ErrorCode::kCorrupt,
                  "hash_ids: expected whole numbers from 0 to {}, got {}",
                  INT64_MAX,
                  shown(&id));
    }
    ids.push_back(id.as_int());
  }
  return ids;
}

// Empty where there is none.
Result<std::string> read_key(const Value& object) {
  const Value* key = object.find("key");
  if (key == nullptr) {
    return std::string();
  }
  if (!key->is_string() || key->as_string().empty()) {
    return fail(ErrorCode::kCorrupt, "key: expected a text that is not empty, got {}", shown(key));
  }
  return std::string(key->as_string());
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

Result<TraceRequest> parse_trace_line(std::string_view line) {
  const auto object = parse_json(line);
  if (!object) {
    return propagate(object);
  }
  if (!object->is_dict()) {
    return fail(ErrorCode::kCorrupt, "expected a JSON object, got {}", shown(&*object));
  }
  const auto timestamp = whole_number(*object, "timestamp", 0, kMaxMilliseconds);
  if (!timestamp) {
    return propagate(timestamp);
  }
  const auto n_prompt = whole_number(*object, "input_length", 1, kMaxTokens);
  if (!n_prompt) {
    return propagate(n_prompt);
  }
  const auto n_answer = whole_number(*object, "output_length", 1, kMaxTokens);
  if (!n_answer) {
    return propagate(n_answer);
  }
  auto ids = read_ids(*object, *n_prompt);
  if (!ids) {
    return propagate(ids);
  }
  auto key = read_key(*object);
  if (!key) {
    return propagate(key);
  }
  return TraceRequest{.arrival = static_cast<double>(*timestamp) / 1e3,
                      .n_prompt = *n_prompt,
                      .n_answer = *n_answer,
                      .hash_ids = *std::move(ids),
                      .key = *std::move(key)};
}

TraceRequest with_tokens_per_id(TraceRequest request, int64_t tokens_per_id) {
  const int64_t was = request.tokens_per_id;
  request.n_prompt = (request.n_prompt * tokens_per_id + was - 1) / was;
  request.tokens_per_id = tokens_per_id;
  return request;
}

// Any three neighbours of a piece hold all bits of its id, and ids below 2^31 differ in the first
// token already.
std::vector<TokenId> prompt_tokens(const TraceRequest& request) {
  constexpr int kBits = 31;
  std::vector<TokenId> tokens;
  tokens.reserve(static_cast<size_t>(request.n_prompt + request.n_answer));
  for (int64_t at = 0; at < request.n_prompt; ++at) {
    const int64_t id = request.hash_ids[static_cast<size_t>(at / request.tokens_per_id)];
    const int64_t part = at % request.tokens_per_id % 3;
    tokens.push_back(static_cast<TokenId>((id >> (kBits * part)) & INT32_MAX));
  }
  return tokens;
}

Result<TraceReader> TraceReader::open(const std::string& path, bool needs_keys) {
  auto file = RegularFile::open(path);
  if (!file) {
    return propagate(file);
  }
  return TraceReader(path, *std::move(file), needs_keys);
}

Result<std::optional<std::string_view>> TraceReader::next_line() {
  size_t n_searched = 0;  // bytes known to hold no end of line
  while (true) {
    const size_t end = bytes_.find('\n', begin_ + n_searched);
    if (end != std::string::npos || (is_at_end_ && begin_ < bytes_.size())) {
      const std::string_view line = std::string_view(bytes_).substr(begin_, end - begin_);
      begin_ = end == std::string::npos ? bytes_.size() : end + 1;
      ++n_lines_;
      return line;
    }
    if (is_at_end_) {
      return std::nullopt;
    }
    bytes_.erase(0, begin_);
    begin_ = 0;
    n_searched = bytes_.size();
    if (n_searched > kMaxLineBytes) {
      return fail(ErrorCode::kCorrupt,
                  "{}:{}: expected a line of at most {} bytes, got a longer one",
                  path_,
                  n_lines_ + 1,
                  kMaxLineBytes);
    }
    bytes_.resize(n_searched + kReadBytes);
    const ssize_t n = ::read(file_.descriptor(), bytes_.data() + n_searched, kReadBytes);
    const int error = errno;
    bytes_.resize(n_searched + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (n < 0 && error != EINTR) {
      return fail(ErrorCode::kIo, "{}: {}", path_, std::strerror(error));
    }
    is_at_end_ = n == 0;
  }
}

Result<std::optional<TraceRequest>> TraceReader::next() {
  std::string_view line;
  do {
    const auto read = next_line();
    if (!read) {
      return propagate(read);
    }
    if (!*read) {
      return std::nullopt;
    }
    line = **read;
  } while (is_blank(line));
  auto request = parse_trace_line(line);
  if (!request) {
    return fail(request.error().code, "{}:{}: {}", path_, n_lines_, request.error().message);
  }
  if (request->arrival < last_arrival_) {
    return fail(ErrorCode::kCorrupt,
                "{}:{}: timestamp: expected {:.0f} or more, as in the line before, got {:.0f}",
                path_,
                n_lines_,
                last_arrival_ * 1e3,
                request->arrival * 1e3);
  }
  if (needs_keys_ && request->key.empty()) {
    return fail(ErrorCode::kCorrupt,
                "{}:{}: key: expected one to share between, got nothing",
                path_,
                n_lines_);
  }
  last_arrival_ = request->arrival;
  return *std::move(request);
}

}  // namespace millrace
