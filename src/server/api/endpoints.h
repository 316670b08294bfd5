#pragma once
// The functions behind the routes, one file each. They run on an HTTP thread and check everything
// that can be wrong before the first byte of an answer.

#include "server/routes.h"

namespace millrace {

ApiResult<Reply> get_health_live(Call& call);
ApiResult<Reply> get_health_ready(Call& call);
ApiResult<Reply> get_metrics(Call& call);
ApiResult<Reply> list_models(Call& call);
ApiResult<Reply> get_model(Call& call);
ApiResult<Reply> create_completion(Call& call);
ApiResult<Reply> create_chat_completion(Call& call);
ApiResult<Reply> tokenize(Call& call);
ApiResult<Reply> detokenize(Call& call);

}  // namespace millrace
