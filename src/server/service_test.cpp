// What the service decides before and without an engine.

#include "server/service.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "server/routes.h"

namespace millrace {
namespace {

struct Exchange {
  int status = 0;
  std::string body;
  std::vector<HttpHeader> headers;

  std::string header(std::string_view name) const {
    for (const HttpHeader& header : headers) {
      if (header.name == name) {
        return header.value;
      }
    }
    return "";
  }
};

// The headers first, as the transport does.
Exchange send(Service& service, HttpRequest request) {
  const HttpHandler handler = service.handler();
  HttpResponse response;
  if (auto refusal = handler.admit(request)) {
    response = std::move(*refusal);
  } else {
    response = handler.handle(std::move(request), [] {}).response;
  }
  return {response.status, response.body, response.headers};
}

HttpRequest request(std::string method, std::string path, std::vector<HttpHeader> headers = {}) {
  return {std::move(method), std::move(path), "", std::move(headers), ""};
}

TEST(Routes, methods_and_paths_find_their_endpoint) {
  EXPECT_NE(match_route("GET", "/v1/models").route, nullptr);
  EXPECT_EQ(match_route("GET", "/v1/models").allow, "GET, HEAD, OPTIONS");
  EXPECT_NE(match_route("HEAD", "/health/live").route, nullptr);
  EXPECT_NE(match_route("GET", "/health").route, nullptr);
  EXPECT_EQ(match_route("GET", "/v1/models/a/b").rest, "a/b");
  EXPECT_EQ(match_route("POST", "/v1/models").route, nullptr);
  EXPECT_EQ(match_route("GET", "/v1/completions").allow, "POST, OPTIONS");
  EXPECT_EQ(match_route("GET", "/v1/model").allow, "");
  EXPECT_EQ(match_route("GET", "/v1/models/").allow, "");
}

TEST(Service, before_the_model_is_loaded_only_health_and_metrics_answer) {
  Metrics metrics;
  Service service({{"m"}, {}, {}, false}, metrics);
  EXPECT_EQ(send(service, request("GET", "/health/live")).status, 200);
  EXPECT_EQ(send(service, request("GET", "/metrics")).status, 200);
  const Exchange ready = send(service, request("GET", "/health/ready"));
  EXPECT_EQ(ready.status, 503);
  EXPECT_EQ(ready.header("Retry-After"), "1");
  for (const char* path : {"/v1/models", "/v1/models/m"}) {
    EXPECT_EQ(send(service, request("GET", path)).status, 503);
  }
  for (const char* path : {"/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"}) {
    EXPECT_EQ(send(service, request("POST", path)).status, 503);
  }
}

TEST(Service, errors_have_the_shape_of_openai) {
  Metrics metrics;
  Service service({{"m"}, {}, {}, false}, metrics);
  const auto unknown = nlohmann::json::parse(send(service, request("GET", "/v2/x")).body);
  EXPECT_EQ(unknown["error"]["type"], "not_found_error");
  EXPECT_EQ(unknown["error"]["code"], "unknown_url");
  EXPECT_TRUE(unknown["error"]["param"].is_null());
  EXPECT_EQ(unknown["error"]["message"], "there is no /v2/x here");
  const auto foreign = nlohmann::json::parse(send(service, request("GET", "/api/generate")).body);
  EXPECT_EQ(foreign["error"]["message"], "there is no /api/generate here: POST /v1/completions");
  for (const auto& [path, here] : std::vector<std::pair<const char*, const char*>>{
           {"/v1/chat/completions/", "/v1/chat/completions"},
           {"//v1/models", "/v1/models"},
           {"/v1/v1/models", "/v1/models"},
           {"/v1/embeddings", "embeddings are not built"},
           {"/v1/", "GET /v1/models, POST /v1/chat/completions"},
           {"/api//tags/", "GET /v1/models"}}) {
    const auto untidy = nlohmann::json::parse(send(service, request("GET", path)).body);
    EXPECT_EQ(untidy["error"]["message"], fmt::format("there is no {} here: {}", path, here));
  }
  const Exchange wrong_method = send(service, request("DELETE", "/v1/models"));
  EXPECT_EQ(wrong_method.status, 405);
  EXPECT_EQ(wrong_method.header("Allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(send(service, request("OPTIONS", "/v1/models")).header("Allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(send(service, request("POST", "/tokenize", {{"Content-Encoding", "gzip"}})).status,
            415);
}

TEST(Service, with_keys_only_health_is_open) {
  Metrics metrics;
  Service service({{"m"}, ApiKeys({"sk-1"}), {}, false}, metrics);
  EXPECT_EQ(send(service, request("GET", "/health/live")).status, 200);
  EXPECT_EQ(send(service, request("GET", "/health/ready")).status, 503);
  for (const char* path : {"/metrics", "/v1/models", "/v1/models/m"}) {
    EXPECT_EQ(send(service, request("GET", path)).status, 401) << path;
  }
  for (const char* path : {"/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"}) {
    const Exchange refused = send(service, request("POST", path, {{"Authorization", "Bearer no"}}));
    EXPECT_EQ(refused.status, 401) << path;
    EXPECT_EQ(refused.header("WWW-Authenticate"), "Bearer");
  }
  EXPECT_EQ(send(service, request("GET", "/metrics", {{"authorization", "Bearer sk-1"}})).status,
            200);
}

TEST(Service, pages_of_other_origins_are_refused_unless_listed) {
  Metrics metrics;
  Service closed({{"m"}, {}, {}, false}, metrics);
  const std::vector<HttpHeader> evil = {{"Host", "127.0.0.1:8080"},
                                        {"Origin", "https://evil.example"}};
  EXPECT_EQ(send(closed, request("GET", "/health/live", evil)).status, 403);
  EXPECT_EQ(send(closed, request("OPTIONS", "/v1/models", evil)).status, 403);
  const std::vector<HttpHeader> own = {{"Host", "127.0.0.1:8080"},
                                       {"Origin", "http://127.0.0.1:8080"}};
  EXPECT_EQ(send(closed, request("GET", "/health/live", own)).status, 200);
  EXPECT_EQ(send(closed, request("GET", "/health/live", own)).header("Access-Control-Allow-Origin"),
            "");

  Service listed({{"m"}, {}, {"https://app.example"}, false}, metrics);
  const std::vector<HttpHeader> app = {
      {"Host", "127.0.0.1:8080"},
      {"Origin", "https://app.example"},
      {"Access-Control-Request-Headers", "authorization,x-stainless-os"}};
  const Exchange preflight = send(listed, request("OPTIONS", "/v1/chat/completions", app));
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.header("Access-Control-Allow-Origin"), "https://app.example");
  EXPECT_EQ(preflight.header("Access-Control-Allow-Headers"), "authorization,x-stainless-os");
  EXPECT_EQ(preflight.header("Access-Control-Allow-Methods"), "POST, OPTIONS");
  EXPECT_EQ(send(listed, request("GET", "/health/live", evil)).status, 403);
}

TEST(Service, a_page_that_renamed_the_loopback_address_is_refused) {
  Metrics metrics;
  Service service({{"m"}, {}, {"https://llm.example:8443"}, false, true}, metrics);
  const auto status = [&](const char* host) {
    return send(service, request("GET", "/health/live", {{"Host", host}})).status;
  };
  for (const char* host : {"localhost:8080",
                           "LOCALHOST.",
                           "127.0.0.1:8080",
                           "127.3.2.1",
                           "[::1]:8080",
                           "host.docker.internal:8080",
                           "llm.example",
                           "llm.example:8443"}) {
    EXPECT_EQ(status(host), 200) << host;
  }
  for (const char* host : {"evil.example:8080", "localhost.evil.example", "127.0.0.1.evil", ""}) {
    EXPECT_EQ(status(host), 403) << host;
  }
  // The page of such a name is no other origin, and still refused.
  EXPECT_EQ(send(service,
                 request("POST",
                         "/v1/completions",
                         {{"Host", "evil.example"}, {"Origin", "http://evil.example"}}))
                .status,
            403);
  EXPECT_EQ(send(service, request("GET", "/health/live")).status,
            200);  // HTTP/1.0 has no Host
  Service open({{"m"}, {}, {"*"}, false, true}, metrics);
  EXPECT_EQ(send(open, request("GET", "/health/live", {{"Host", "any.example"}})).status, 200);
}

TEST(Service, every_answer_carries_a_request_id) {
  Metrics metrics;
  Service service({{"m"}, {}, {}, false}, metrics);
  const Exchange own = send(service, request("GET", "/health/live", {{"x-request-id", "abc-1"}}));
  EXPECT_EQ(own.header("X-Request-Id"), "abc-1");
  const Exchange drawn = send(service, request("GET", "/nothing"));
  EXPECT_EQ(drawn.header("X-Request-Id").rfind("req-", 0), 0u);
  for (const std::string& bad :
       {std::string("a b"), std::string("\r\nX: y"), std::string(200, 'a')}) {
    const Exchange answer = send(service, request("GET", "/health/live", {{"X-Request-Id", bad}}));
    EXPECT_EQ(answer.header("X-Request-Id").rfind("req-", 0), 0u);
  }
  const HttpResponse refusal = service.handler().refuse(400, "not HTTP", nullptr);
  EXPECT_EQ(refusal.headers.at(0).name, "X-Request-Id");
}

TEST(Service, what_the_transport_refuses_can_be_read_by_its_page_and_found_by_its_id) {
  Metrics metrics;
  Service service({{"m"}, {}, {"https://app.example"}, false}, metrics);
  const auto refuse = [&](const char* origin) {
    const HttpRequest head =
        request("POST", "/v1/completions", {{"Origin", origin}, {"X-Request-Id", "abc-1"}});
    const HttpResponse refusal = service.handler().refuse(413, "too large", &head);
    return Exchange{refusal.status, refusal.body, refusal.headers};
  };
  const Exchange listed = refuse("https://app.example");
  EXPECT_EQ(listed.status, 413);
  EXPECT_EQ(listed.header("Access-Control-Allow-Origin"), "https://app.example");
  EXPECT_EQ(listed.header("X-Request-Id"), "abc-1");
  EXPECT_EQ(refuse("https://evil.example").header("Access-Control-Allow-Origin"), "");
}

TEST(Service, options_of_everything_is_answered) {
  Metrics metrics;
  Service service({{"m"}, {}, {}, false}, metrics);
  EXPECT_EQ(send(service, request("OPTIONS", "*")).status, 204);
  EXPECT_EQ(send(service, request("GET", "*")).status, 404);
}

TEST(Service, requests_are_counted_by_route_and_status) {
  Metrics metrics;
  Service service({{"m"}, {}, {}, false}, metrics);
  send(service, request("GET", "/v1/models"));
  send(service, request("GET", "/secret/path"));
  const std::string text = metrics.expose();
  EXPECT_NE(text.find("millrace_http_requests_total{route=\"/v1/models\",status=\"503\"} 1"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("millrace_http_requests_total{route=\"none\",status=\"404\"} 1"),
            std::string::npos);
  EXPECT_EQ(text.find("secret"), std::string::npos);
}

TEST(Service, unknown_models_are_answered_with_the_known_names) {
  Metrics metrics;
  const Service service({{"first", "second"}, {}, {}, false}, metrics);
  EXPECT_TRUE(service.serves_model("second"));
  EXPECT_FALSE(service.serves_model("gpt-3.5-turbo"));
  const ApiError error = service.unknown_model("gpt-3.5-turbo");
  EXPECT_EQ(error.status(), 404);
  EXPECT_NE(error.message.find("first, second"), std::string::npos);
}

}  // namespace
}  // namespace millrace
