#pragma once
// What every endpoint with a body begins with. HTTP or helper threads.

#include <utility>

#include "server/routes.h"
#include "server/service.h"

namespace millrace {

// From bytes to a typed request for a model that is served here. parse: from a Value to an
// ApiResult of a struct whose `fields` is a BodyFields. The bytes and the Value are freed on the
// way. Fields that nobody knows are left in the call.
template <class Parse>
auto read_request(Call& call, const Parse& parse) -> decltype(parse(Value())) {
  auto body = parse_body(std::move(call.request.body));
  if (!body) {
    return tl::unexpected(std::move(body.error()));
  }
  auto request = parse(*body);
  if (request) {
    auto accepted = call.service.accept(call.request.path, request->fields);
    if (!accepted) {
      return tl::unexpected(std::move(accepted.error()));
    }
    call.ignored_fields = std::move(request->fields.unknown);
  }
  return request;
}

}  // namespace millrace
