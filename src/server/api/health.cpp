// GET /health/live and /health/ready.

#include "server/api/endpoints.h"
#include "server/service.h"

namespace millrace {

ApiResult<Reply> get_health_live(Call&) {
  Reply reply;
  reply.response.body = R"({"status":"live"})";
  return reply;
}

ApiResult<Reply> get_health_ready(Call& call) {
  if (const std::string reason = call.service.unready_reason(); !reason.empty()) {
    return tl::unexpected(ApiError{ApiCode::kUnavailable, reason});
  }
  Reply reply;
  reply.response.body = R"({"status":"ready"})";
  return reply;
}

}  // namespace millrace
