#include "server/http_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>

namespace millrace {
namespace {

std::string_view to_view(boost::core::string_view text) {
  return {text.data(), text.size()};
}

// A host with or without a port, or nothing: no user, no path, no list.
bool is_host(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return c > ' ' && c < 0x7F &&
           std::string_view("/\\@?#,\"<>").find(static_cast<char>(c)) == std::string_view::npos;
  });
}

// What follows "http://" or "https://"; empty when the target is no whole URL.
std::string_view without_scheme(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (equals_ignoring_case(target.substr(0, scheme.size()), scheme)) {
      return target.substr(scheme.size());
    }
  }
  return {};
}

void set_host(HttpRequest& request, std::string_view host) {
  std::erase_if(request.headers,
                [](const HttpHeader& header) { return equals_ignoring_case(header.name, "host"); });
  request.headers.push_back({"Host", std::string(host)});
}

// RFC 9110, 5.6.7.
std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::array<char, 40> text{};
  const size_t n = std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &utc);
  return {text.data(), n};
}

}  // namespace

Result<HttpRequest> to_request(const BeastRequest& message) {
  HttpRequest request;
  request.method = message.method_string();
  for (const auto& field : message) {
    request.headers.push_back(
        {std::string(to_view(field.name_string())), std::string(to_view(field.value()))});
  }
  const size_t n_hosts = message.count(boost::beast::http::field::host);
  if (n_hosts > 1 || (n_hosts == 0 && message.version() >= 11)) {
    return fail(ErrorCode::kInvalidArgument,
                "HTTP/1.1 asks for one Host header, {} came",
                n_hosts == 0 ? "none" : "several");
  }
  std::string_view target = to_view(message.target());
  if (const std::string_view rest = without_scheme(target); !rest.empty()) {
    const size_t end = std::min(rest.find_first_of("/?"), rest.size());
    set_host(request, rest.substr(0, end));
    target = rest.substr(end);
  } else if (!target.starts_with('/') && target != "*") {
    return fail(ErrorCode::kInvalidArgument,
                "the request target must be a path that begins with / or a whole http:// URL");
  }
  if (const std::string* host = request.header("host"); host != nullptr && !is_host(*host)) {
    return fail(ErrorCode::kInvalidArgument, "the Host header is not a host name");
  }
  const size_t question = target.find('?');
  request.path = question == 0 || target.empty() ? "/" : target.substr(0, question);
  if (question != std::string_view::npos) {
    request.query = target.substr(question + 1);
  }
  return request;
}

std::string head_text(const HttpResponse& response,
                      std::string_view framing,
                      std::string_view connection) {
  std::string head = fmt::format(
      "HTTP/1.1 {} {}\r\nDate: {}\r\n", response.status, http_reason(response.status), http_date());
  if (!response.content_type.empty()) {
    head += fmt::format("Content-Type: {}\r\n", response.content_type);
  }
  for (const HttpHeader& header : response.headers) {
    head += fmt::format("{}: {}\r\n", header.name, header.value);
  }
  head += framing;
  head += connection;
  return head + "\r\n";
}

}  // namespace millrace
