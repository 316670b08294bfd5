#pragma once
// For tests: requests through the service to a small engine and back, without a transport.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "engine/test_engine.h"
#include "server/response_cache/response_cache.h"
#include "server/service.h"

namespace millrace {

struct Exchange {
  HttpResponse response;
  std::string header(std::string_view name) const {
    const HttpRequest as_request{"", "", "", response.headers, ""};
    const std::string* value = as_request.header(name);
    return value != nullptr ? *value : "";
  }
};

class GenerationTest : public testing::Test {
 protected:
  explicit GenerationTest(EngineOptions options = {},
                          std::optional<ResponseCacheOptions> cache_options = std::nullopt,
                          ApiKeys keys = {})
      : engine_(model_.path(), options),
        service_({.model_names = {"m"},
                  .keys = std::move(keys),
                  .allowed_origins = {"https://app.example"},
                  .tells_clients_apart = options.is_fair},
                 engine_.metrics) {
    if (cache_options) {
      set_cache(std::move(*cache_options));
    } else {
      service_.set_engine(*engine_.engine);
    }
  }

  // For requests from now on.
  void set_cache(ResponseCacheOptions options) {
    cache_ = std::make_unique<ResponseCache>(std::move(options), engine_.metrics);
    service_.set_engine(*engine_.engine, cache_.get());
  }

  Reply start(std::string path, std::string body, std::vector<HttpHeader> headers = {}) {
    headers.push_back({"Host", "localhost"});
    headers.push_back({"Origin", "https://app.example"});
    HttpRequest request{"POST", std::move(path), "", std::move(headers), std::move(body)};
    return service_.handler().handle(std::move(request), [] {});
  }
  // Pulls as the transport does, with everything that a stream said in the body.
  static Exchange finish(Reply reply) {
    while (reply.decide) {
      if (auto decided = reply.decide()) {
        reply = std::move(*decided);
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
    Exchange exchange{std::move(reply.response)};
    std::string streamed;
    while (reply.source) {
      if (reply.source->pull(exchange.response) == ReplySource::Progress::kFinished) {
        reply.source.reset();
      }
      if (reply.streams) {
        streamed += std::exchange(exchange.response.body, {});
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (reply.streams) {
      exchange.response.body = streamed;
    }
    return exchange;
  }
  Exchange ask(std::string path, std::string body, std::vector<HttpHeader> headers = {}) {
    return finish(start(std::move(path), std::move(body), std::move(headers)));
  }
  // How many requests to /v1/completions were counted with this status.
  double counted(int status) {
    return engine_.metrics
        .counter("millrace_http_requests_total",
                 "",
                 {{"route", "/v1/completions"}, {"status", fmt::format("{}", status)}})
        .value();
  }
  void abort_engine() { engine_.engine->drain(Clock::now()); }

  const TestModel model_;
  TestEngine engine_;
  std::unique_ptr<ResponseCache> cache_;
  Service service_;
};

}  // namespace millrace
