#include "cli/response_cache_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/regular_file.h"
#include "cli/option_set.h"
#include "server/response_cache/redis_namespace.h"

namespace millrace {
namespace {

constexpr size_t kMaxPasswordBytes = 4096;

Result<std::string> read_password(const std::string& path) {
  auto password = read_regular_file(path, kMaxPasswordBytes);
  if (!password) {
    return fail(password.error().code, "--redis-password-file {}", password.error().message);
  }
  password->resize(std::min(password->find_first_of("\r\n"), password->size()));
  if (password->empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "--redis-password-file {}: the first line holds no password",
                path);
  }
  return password;
}

}  // namespace

void ResponseCacheFlags::declare(OptionSet& options) {
  options.add(
      "--response-cache",
      mebibytes,
      0,
      1 << 20,
      "MiB for whole answers: a request at temperature 0, or with a seed, that was answered "
      "before is not computed again; 0: none");
  options.add("--response-cache-redis",
              redis_url,
              "redis://HOST:PORT/DATABASE (without TLS), where servers with the same model share "
              "whole answers, alone or behind --response-cache; default: none");
  options.add("--redis-password-file",
              redis_password_file,
              "A file whose first line is the password of --response-cache-redis; default: none");
}

Result<std::optional<ResponseCacheOptions>> ResponseCacheFlags::read() const {
  if (redis_password_file && !redis_url) {
    return fail(ErrorCode::kInvalidArgument, "--redis-password-file needs --response-cache-redis");
  }
  if (mebibytes == 0 && !redis_url) {
    return std::nullopt;
  }
  ResponseCacheOptions options;
  options.memory_bytes = int64_t{mebibytes} << 20;
  if (redis_url) {
    auto address = parse_redis_url(*redis_url);
    if (!address) {
      return fail(address.error().code, "--response-cache-redis: {}", address.error().message);
    }
    if (redis_password_file) {
      auto password = read_password(*redis_password_file);
      if (!password) {
        return propagate(password);
      }
      address->password = std::move(*password);
    }
    options.redis.emplace();
    options.redis->address = std::move(*address);
  }
  return options;
}

std::unique_ptr<ResponseCache> start_response_cache(std::optional<ResponseCacheOptions> options,
                                                    const Engine& engine,
                                                    Metrics& metrics) {
  if (!options) {
    return nullptr;
  }
  std::string places;
  if (options->memory_bytes > 0) {
    places = fmt::format("{} MiB", options->memory_bytes >> 20);
  }
  if (options->redis) {
    places += fmt::format("{}{}", places.empty() ? "" : " and ", options->redis->address.name());
    options->redis->make_namespace = [&engine](const std::atomic<bool>& is_stopping) {
      return redis_namespace(engine, is_stopping);
    };
  }
  log_info("[serve] response cache: {}", places);
  return std::make_unique<ResponseCache>(std::move(*options), metrics);
}

}  // namespace millrace
