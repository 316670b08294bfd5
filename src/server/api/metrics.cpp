// GET /metrics in Prometheus' text format.

#include "server/api/endpoints.h"
#include "server/service.h"

namespace millrace {

ApiResult<Reply> get_metrics(Call& call) {
  Reply reply;
  reply.response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  reply.response.body = call.service.metrics().expose();
  return reply;
}

}  // namespace millrace
