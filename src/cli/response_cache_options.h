#pragma once
// Whether `serve` keeps whole answers, and where: the options of the response cache. Main thread.

#include <memory>
#include <optional>
#include <string>

#include "base/metrics.h"
#include "base/result.h"
#include "server/response_cache/response_cache.h"

namespace millrace {

class Engine;
class OptionSet;

struct ResponseCacheFlags {
  int mebibytes = 0;
  std::optional<std::string> redis_url;
  std::optional<std::string> redis_password_file;

  void declare(OptionSet& options);
  // Absent: no response cache. Reads the password's file.
  Result<std::optional<ResponseCacheOptions>> read() const;
};

// Null without options. Both references outlive it.
std::unique_ptr<ResponseCache> start_response_cache(std::optional<ResponseCacheOptions> options,
                                                    const Engine& engine,
                                                    Metrics& metrics);

}  // namespace millrace
