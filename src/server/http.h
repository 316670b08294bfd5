#pragma once
// What the server speaks inside: a request, a reply, and the source of a reply that takes a while.
// Plain data; the transport (http_server.h) fills the one and writes the other.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace millrace {

struct HttpHeader {
  std::string name;
  std::string value;
};

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // the target up to '?', as sent; of a whole URL its path
  std::string query;   // after '?'
  std::vector<HttpHeader> headers;
  std::string body;
  TimePoint received = Clock::now();  // all of it

  // The first header of that name (case does not matter), or null.
  const std::string* header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<HttpHeader> headers;  // besides Content-Type, Content-Length and Connection
  std::string body;
};

const char* http_reason(int status);
bool equals_ignoring_case(std::string_view a, std::string_view b);

// Makes the body of a reply over time. All calls come from one I/O thread. Destroying a source that
// has not finished means that the client has left: whatever it waits for must be cancelled.
class ReplySource {
 public:
  enum class Progress { kWaiting, kFinished };
  virtual ~ReplySource() = default;
  // Called once after the handler and then after each wake-up, never while bytes of the call before
  // are unwritten. A streaming source appends to response.body, which is taken and cleared each
  // time; another one fills in response as a whole before it says kFinished.
  virtual Progress pull(HttpResponse& response) = 0;
};

struct Reply {
  HttpResponse response;                // whole when there is no source
  std::unique_ptr<ReplySource> source;  // makes the body
  bool streams = false;                 // headers go out at once, each pull's bytes as a chunk
  // Set while it is not known yet what the reply is, and nothing else counts: called as pull is,
  // until it gives the reply.
  std::function<std::optional<Reply>()> decide = {};
};

// Makes the connection pull again. Any thread, any time, also after the connection is gone.
using Waker = std::function<void()>;

struct HttpHandler {
  // Sees the headers before the body is read; an answer here refuses the request.
  std::function<std::optional<HttpResponse>(const HttpRequest& head)> admit;
  // Runs on an I/O thread, or on a helper thread when the body is large.
  std::function<Reply(HttpRequest request, Waker wake)> handle;
  // Answers for requests that never became one: malformed (400), too large (413, 431), timed out
  // (408). head: as much of it as was understood; null: nothing that can be relied on.
  std::function<HttpResponse(int status, std::string_view reason, const HttpRequest* head)> refuse;
};

}  // namespace millrace
