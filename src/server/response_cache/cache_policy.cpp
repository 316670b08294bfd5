#include "server/response_cache/cache_policy.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace millrace {
namespace {

constexpr uint64_t kKeyVersion = 1;  // of what follows

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  const size_t begin = text.find_first_not_of(kBlanks);
  return begin == std::string_view::npos
             ? ""
             : text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

bool has_directive(const HttpRequest& http, std::string_view directive) {
  for (const HttpHeader& header : http.headers) {
    if (!equals_ignoring_case(header.name, "cache-control")) {
      continue;
    }
    std::string_view rest = header.value;
    while (!rest.empty()) {
      const std::string_view item = rest.substr(0, rest.find(','));
      if (equals_ignoring_case(trimmed(item), directive)) {
        return true;
      }
      rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    }
  }
  return false;
}

// Fields one after another; what varies in length has its length in front.
class KeyMaterial {
 public:
  template <class T>
  void add(T value) {
    static_assert(std::is_arithmetic_v<T>);
    if constexpr (std::is_floating_point_v<T>) {
      value += T{0};  // one zero
    }
    const auto* const bytes = reinterpret_cast<const char*>(&value);
    bytes_.append(bytes, sizeof(value));
  }
  void add(const std::string& text) {
    add(uint64_t{text.size()});
    bytes_ += text;
  }
  void add(const std::vector<TokenId>& tokens) {
    add(uint64_t{tokens.size()});
    bytes_.append(reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(TokenId));
  }
  void add(const std::optional<int>& number) { add(number.value_or(-1)); }

  Digest256 digest() const {
    Sha256 digest;
    digest.add(std::as_bytes(std::span(bytes_)));
    return digest.finish();
  }

 private:
  std::string bytes_;
};

template <class T>
std::vector<T> sorted_set(std::vector<T> values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

void add_sampling(KeyMaterial& key, const SamplingParams& sampling) {
  key.add(is_greedy(sampling) ? 0.0F : sampling.temperature);
  key.add(std::max(sampling.top_k, 0));  // 0 and -1 are off
  key.add(sampling.top_p);
  key.add(sampling.min_p);
  key.add(sampling.typical_p);
  key.add(sampling.repetition_penalty);
  key.add(sampling.frequency_penalty);
  key.add(sampling.presence_penalty);
  std::vector<LogitBias> biases = sampling.logit_bias;
  std::ranges::sort(biases, {}, &LogitBias::token);
  key.add(uint64_t{biases.size()});
  for (const LogitBias& bias : biases) {
    key.add(bias.token);
    key.add(bias.bias);
  }
}

void add_request(KeyMaterial& key, const Request& request, const RequestLimits& limits) {
  key.add(request.prompt);
  add_sampling(key, request.sampling);
  key.add(answer_limit(request, limits));
  key.add(request.min_tokens);
  const std::vector<std::string> stop = sorted_set(request.stop);
  key.add(uint64_t{stop.size()});
  for (const std::string& text : stop) {
    key.add(text);
  }
  key.add(sorted_set(request.stop_tokens));
  key.add(request.ignore_eos);
  key.add(request.n);
  key.add(is_greedy(request.sampling) ? uint64_t{0} : request.seed.value_or(0));
  key.add(request.n_logprobs);
  key.add(request.prompt_logprobs);
  key.add(request.cache_salt);
}

}  // namespace

CacheUse cache_use(const HttpRequest& http, const Request& request, bool has_seed) {
  if (!(has_seed || is_greedy(request.sampling)) || has_directive(http, "no-store")) {
    return {};
  }
  return {.reads = !has_directive(http, "no-cache"), .writes = !request.timeout_ms};
}

bool is_greedy(const SamplingParams& sampling) {
  return sampling.temperature < kGreedyTemperature;
}

Digest256 request_key(std::span<const Request> requests, const RequestLimits& limits) {
  KeyMaterial key;
  key.add(kKeyVersion);
  key.add(uint64_t{requests.size()});
  for (const Request& request : requests) {
    add_request(key, request, limits);
  }
  return key.digest();
}

}  // namespace millrace
