#pragma once
// One answer's stream as the load generator reads it. One thread.

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "cli/http_client.h"
#include "cli/load_report.h"

namespace millrace {

class Value;

class LoadAnswerReader {
 public:
  // start: when the request was to be sent. shown: where the text goes as it comes; null: nowhere.
  LoadAnswerReader(LoadSample& sample, TimePoint start, std::FILE* shown)
      : sample_(sample), start_(start), shown_(shown) {}

  // Bytes of the body, cut anywhere.
  void feed(std::string_view bytes);
  // status: what exchange() gave. An answer of fewer tokens than n_wanted is short.
  void finish(const Result<int>& status, int64_t n_wanted);

 private:
  void take(std::string_view data);
  void take_text(std::string_view text);
  void set_error(std::string_view message);
  std::string error_text() const;

  LoadSample& sample_;
  const TimePoint start_;
  std::FILE* const shown_;
  SseReader events_;
  std::string raw_;
  double last_ = 0;
  bool is_done_ = false;
  bool has_usage_ = false;
  bool is_refused_ = false;  // by an error in a stream that had begun
};

}  // namespace millrace
