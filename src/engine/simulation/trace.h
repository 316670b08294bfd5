#pragma once
// Reads traces of requests in the format that Mooncake published its own in: one JSON object a line
// with the arrival, the lengths and the names of the prompt's pieces. Line by line, one at a time
// in memory. One thread.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/regular_file.h"
#include "base/result.h"
#include "base/types.h"

namespace millrace {

// Tokens that one hash id stands for; the last of a request may stand for fewer.
inline constexpr int64_t kTraceBlockTokens = 512;

struct TraceRequest {
  double arrival = 0;    // seconds: "timestamp" in milliseconds
  int64_t n_prompt = 0;  // "input_length", at least 1
  int64_t n_answer = 0;  // "output_length", at least 1
  std::vector<int64_t> hash_ids =
      {};  // not negative; prompts whose first ids are equal begin alike
  int64_t tokens_per_id = kTraceBlockTokens;
  std::string key = {};  // "key": whose it is; empty: the line has none
};

// Other fields are ignored. Errors say what was expected and what came, not where.
Result<TraceRequest> parse_trace_line(std::string_view line);

// The same with prompts shorter in proportion, what they share too; 1 <= tokens_per_id.
TraceRequest with_tokens_per_id(TraceRequest request, int64_t tokens_per_id);

// The prompt: tokens are functions of the id and the place alone, and those of two ids differ.
std::vector<TokenId> prompt_tokens(const TraceRequest& request);

class TraceReader {
 public:
  // needs_keys: a line without a key is an error.
  static Result<TraceReader> open(const std::string& path, bool needs_keys = false);

  // In the order of arrival; absent behind the last. Errors begin with the path and the line's
  // number; nothing is to be asked after one. Blank lines are passed over.
  Result<std::optional<TraceRequest>> next();

 private:
  TraceReader(std::string path, RegularFile file, bool needs_keys)
      : path_(std::move(path)), file_(std::move(file)), needs_keys_(needs_keys) {}
  // Without its end; absent behind the last.
  Result<std::optional<std::string_view>> next_line();

  std::string path_;
  RegularFile file_;
  bool needs_keys_ = false;
  std::string bytes_;  // read and not yet given away, from begin_ on
  size_t begin_ = 0;
  bool is_at_end_ = false;
  int64_t n_lines_ = 0;
  double last_arrival_ = 0;
};

}  // namespace millrace
