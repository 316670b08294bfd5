#pragma once
// What the load generator found out, and how it is shown. Plain data, any thread.

#include <cstdint>
#include <string>
#include <vector>

namespace millrace {

// One request, as the client saw it. Times in seconds.
struct LoadSample {
  int status = 0;             // HTTP; 0: no answer
  std::string error = {};     // empty: the answer was whole
  bool is_short = false;      // whole, but with fewer tokens than asked for (--ignore-eos)
  int64_t prompt_tokens = 0;  // the server's own counts, from usage
  int64_t completion_tokens = 0;
  double first_token = 0;         // from the (planned) start
  double whole = 0;               // from the (planned) start
  std::vector<double> gaps = {};  // between pieces of text; the first token is not one
  std::string finish_reason = {};
  double started = 0;  // really sent, from the beginning of the load
  double ended = 0;    // likewise; 0: has not
};

struct LoadReport {
  std::vector<LoadSample> samples;  // of requests that have ended
  int n_asked = 0;                  // requests that were to be sent
  bool is_cut_short = false;        // it was stopped before all of them had ended
  double seconds = 0;               // from the first start to the last end
  int concurrency = 0;
  double rate = 0;  // requests a second asked for; 0: as fast as answers come

  // Requests a second that were really sent; 0 when that cannot be said, or none was asked for.
  double sent_rate() const;
  int64_t n_not_whole() const;  // did not come, broke off, or are short
  bool is_whole() const { return !samples.empty() && n_not_whole() == 0; }
};

// The smallest value that a share of them does not exceed; 0 of none. share: 0.5 is the median.
double percentile(std::vector<double> values, double share);

std::string report_text(const LoadReport& report);
std::string report_json(const LoadReport& report);

}  // namespace millrace
