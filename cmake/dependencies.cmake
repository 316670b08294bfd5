# Every third-party package, why it is here, and the one module whose headers hide it. All come from
# Debian 12; scripts/install-deps names the packages.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(fmt 9 REQUIRED)                   # base: message formatting (gcc 12 has no std::format)
find_package(spdlog 1.10 REQUIRED)             # base: log sinks
find_package(prometheus-cpp REQUIRED)          # base: metrics registry and text exposition
find_package(OpenSSL 3.0 REQUIRED)            # base: SHA-256
find_path(MILLRACE_EXPECTED_INCLUDE tl/expected.hpp REQUIRED)  # base: Result<T>
find_package(simdjson 3.0 REQUIRED)            # text, formats: bulk JSON (tokenizer.json)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)   # text: pre-tokenizer patterns
find_package(ICU 72 REQUIRED COMPONENTS uc)    # text: Unicode normalisation
find_package(Boost 1.81 REQUIRED)              # kv: Intrusive | server: HTTP (Beast, Asio); headers only
pkg_check_modules(HIREDIS REQUIRED IMPORTED_TARGET hiredis)    # server: a shared response cache in Redis
find_package(CLI11 2.1 REQUIRED)               # cli: option parsing
if(MILLRACE_DEV)
  find_package(GTest 1.12 REQUIRED)
  find_package(nlohmann_json 3.11 REQUIRED)    # tests: an independent JSON reader
  find_package(benchmark 1.7 QUIET)
endif()
