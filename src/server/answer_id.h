#pragma once
// Names of answers and of requests. Any thread.

#include <string>
#include <string_view>

#include "server/http.h"

namespace millrace {

std::string make_answer_id(std::string_view prefix);  // prefix and 24 random characters

// The client's X-Request-Id if it can be sent back as it is, else one of our
// own.
std::string request_id(const HttpRequest& request);

}  // namespace millrace
