// GET /v1/models and /v1/models/NAME.

#include <fmt/format.h>

#include <charconv>
#include <string>

#include "engine/engine.h"
#include "server/api/endpoints.h"
#include "server/json_text.h"
#include "server/service.h"

namespace millrace {
namespace {

std::string model_json(const Service& service, const std::string& name) {
  return fmt::format(
      R"({{"id":{},"object":"model","created":{},"owned_by":"millrace","max_model_len":{}}})",
      json_string(name),
      service.started_at(),
      service.engine()->info().max_model_len);
}

// Percent-decoding; broken escapes stay as they are.
std::string decode_path(std::string_view path) {
  std::string text;
  for (size_t i = 0; i < path.size(); ++i) {
    unsigned value = 0;
    const char* digits = path.data() + i + 1;
    if (path[i] == '%' && i + 3 <= path.size() &&
        std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2) {
      text += static_cast<char>(value);
      i += 2;
    } else {
      text += path[i];
    }
  }
  return text;
}

}  // namespace

ApiResult<Reply> list_models(Call& call) {
  Reply reply;
  std::string models;
  for (const std::string& name : call.service.options().model_names) {
    models += models.empty() ? "" : ",";
    models += model_json(call.service, name);
  }
  reply.response.body = fmt::format(R"({{"object":"list","data":[{}]}})", models);
  return reply;
}

ApiResult<Reply> get_model(Call& call) {
  const std::string name = decode_path(call.rest);
  if (!call.service.serves_model(name)) {
    return tl::unexpected(call.service.unknown_model(name));
  }
  Reply reply;
  reply.response.body = model_json(call.service, name);
  return reply;
}

}  // namespace millrace
