#pragma once
// From Beast's message to ours, and the head of an answer. Private to the transport. Pure
// functions.

#include <string>
#include <string_view>

#include "base/result.h"
#include "server/asio.h"
#include "server/http.h"

namespace millrace {

using BeastRequest = boost::beast::http::request<boost::beast::http::string_body>;

// Without the body. The target may be a path, "*", or a whole URL, whose host then replaces the
// header Host (RFC 9112, 3.2.2). kInvalidArgument: another target; not exactly one Host (none is
// fine in HTTP/1.0); a Host that is none.
Result<HttpRequest> to_request(const BeastRequest& message);

// Status line and headers, Date first. framing, connection: whole header lines.
std::string head_text(const HttpResponse& response,
                      std::string_view framing,
                      std::string_view connection);

}  // namespace millrace
