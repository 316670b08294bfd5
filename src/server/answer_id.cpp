#include "server/answer_id.h"

#include <algorithm>
#include <random>

namespace millrace {
namespace {

constexpr size_t kMaxRequestIdBytes = 128;

bool is_plain(std::string_view id) {
  return !id.empty() && id.size() <= kMaxRequestIdBytes &&
         std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c < 0x7F; });
}

}  // namespace

std::string make_answer_id(std::string_view prefix) {
  constexpr std::string_view kAlphabet =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  thread_local std::mt19937_64 random(std::random_device{}());
  std::string id(prefix);
  for (int i = 0; i < 24; ++i) {
    id += kAlphabet[random() % kAlphabet.size()];
  }
  return id;
}

std::string request_id(const HttpRequest& request) {
  const std::string* id = request.header("x-request-id");
  return id != nullptr && is_plain(*id) ? *id : make_answer_id("req-");
}

}  // namespace millrace
