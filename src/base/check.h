#pragma once
// MR_CHECK stops the process when Millrace itself is wrong. Never use it on input from outside.

#include <fmt/core.h>

#include <string>

namespace millrace::internal {

[[noreturn]] void check_failed(const char* file,
                               int line,
                               const char* condition,
                               const std::string& message);

}  // namespace millrace::internal

// MR_CHECK(n <= capacity, "n {} capacity {}", n, capacity); the message is optional.
#define MR_CHECK(condition, ...)                                          \
  do {                                                                    \
    if (!(condition)) [[unlikely]] {                                      \
      ::millrace::internal::check_failed(                                 \
          __FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
    }                                                                     \
  } while (false)
