#pragma once
// A small blocking HTTP/1.1 client for the load generator: one connection a request, plain http.
// Each object belongs to one thread.

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace millrace {

struct Url {
  std::string host;  // an IPv6 address without brackets
  std::string port = "80";
  std::string path;  // without a trailing slash; empty for the root

  std::string authority() const;  // "host:port", "[::1]:80"
};

// "http://127.0.0.1:8080/prefix"; the scheme may be left out. https is answered with kUnsupported.
Result<Url> parse_url(std::string_view text);

struct ClientRequest {
  std::string method = "GET";
  std::string path;                   // below the URL's own
  std::string body;                   // sent as JSON when not empty
  std::string api_key;                // sent as a bearer token when not empty
  std::chrono::seconds timeout{300};  // without a byte
  int stop_descriptor = -1;           // gives up once this is readable; -1: never
};

// Takes the framing off a response body; bytes may come in pieces cut anywhere.
class BodyDecoder {
 public:
  enum class Framing { kLength, kChunked, kUntilClose };
  BodyDecoder() = default;
  BodyDecoder(Framing framing, uint64_t length);

  // Appends the body's bytes to out. False: the framing is broken.
  bool feed(std::string_view bytes, std::string& out);
  bool is_complete() const { return is_complete_; }  // never for kUntilClose
  bool ends_with_close() const { return framing_ == Framing::kUntilClose; }

 private:
  bool feed_chunked(char byte, std::string& out);

  enum class State { kSize, kData, kDataEnd, kTrailer };
  Framing framing_ = Framing::kUntilClose;
  State state_ = State::kSize;
  uint64_t n_left_ = 0;
  std::string line_;
  bool is_complete_ = false;
};

// Finds the data of server-sent events; bytes may come in pieces cut anywhere.
class SseReader {
 public:
  void feed(std::string_view bytes, const std::function<void(std::string_view data)>& on_event);

 private:
  std::string line_;
  std::string data_;
  bool has_data_ = false;
};

// One line for a message: control characters, which a terminal might obey, become spaces.
std::string printable_line(std::string_view text);

// Sends the request and gives the body to on_body as it comes. The status of the response, or what
// went wrong; a body that ends early is an error. kCancelled: by the stop descriptor.
Result<int> exchange(const Url& url,
                     const ClientRequest& request,
                     const std::function<void(std::string_view bytes)>& on_body);

}  // namespace millrace
