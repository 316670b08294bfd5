#pragma once
// The functions behind the routes, one file each. They run on an HTTP thread and check everything
// that can be wrong before the first byte of an answer.

#include "server/routes.h"

namespace millrace {

Reply get_health_live(Call& call);
Reply get_health_ready(Call& call);
Reply get_metrics(Call& call);
Reply list_models(Call& call);
Reply get_model(Call& call);
Reply create_completion(Call& call);
Reply create_chat_completion(Call& call);
Reply tokenize(Call& call);
Reply detokenize(Call& call);

}  // namespace millrace
