#pragma once
// What millrace load is asked for. Main thread.

#include <cstdint>
#include <string>

namespace millrace {

class OptionSet;

inline constexpr int kMaxLoadConcurrency = 4096;

struct LoadCommandOptions {
  std::string url;
  int n_requests = 32;
  int concurrency = 0;
  double rate = 0;
  std::string prompt_file;
  std::string model;
  std::string api_key_file;
  int max_tokens = 128;
  float temperature = 1;
  int64_t seed = 1;
  int timeout_seconds = 300;
  bool ignore_eos = false;
  bool shows_one = false;
  bool is_json = false;

  void declare(OptionSet& options);
};

}  // namespace millrace
