// GET /health/live and /health/ready.

#include "server/api/endpoints.h"
#include "server/api_error.h"
#include "server/service.h"

namespace millrace {

Reply get_health_live(Call&) {
  Reply reply;
  reply.response.body = R"({"status":"live"})";
  return reply;
}

Reply get_health_ready(Call& call) {
  Reply reply;
  if (const std::string reason = call.service.unready_reason(); !reason.empty()) {
    reply.response = error_response({503, reason, "", "unavailable"});
  } else {
    reply.response.body = R"({"status":"ready"})";
  }
  return reply;
}

}  // namespace millrace
