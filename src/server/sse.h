#pragma once
// Server-sent events as OpenAI's clients read them: "data: {json}\n\n", then "data: [DONE]\n\n".

#include <string>
#include <string_view>

#include "server/http.h"

namespace millrace {

// The JSON has no line breaks: append_json_string escapes them.
inline void append_sse(std::string& out, std::string_view json) {
  out += "data: ";
  out += json;
  out += "\n\n";
}

inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";

// Status and headers of a stream; proxies are told not to hold it back.
inline HttpResponse sse_response() {
  HttpResponse response;
  response.content_type = "text/event-stream; charset=utf-8";
  response.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
  return response;
}

}  // namespace millrace
