#include "server/host_check.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>

namespace millrace {
namespace {

bool is_address(const std::string& name) {
  std::array<unsigned char, 16> bytes{};
  return ::inet_pton(AF_INET, name.c_str(), bytes.data()) == 1 ||
         ::inet_pton(AF_INET6, name.c_str(), bytes.data()) == 1;
}

}  // namespace

std::string host_name(std::string_view host) {
  if (host.starts_with('[')) {
    const size_t end = host.find(']');
    host = end == std::string_view::npos ? host : host.substr(1, end - 1);
  } else {
    host = host.substr(0, host.find(':'));
  }
  if (host.ends_with('.')) {
    host.remove_suffix(1);
  }
  std::string name(host);
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return name;
}

bool is_local_name(std::string_view name) {
  return name == "localhost" || name.ends_with(".localhost") || name == "host.docker.internal" ||
         is_address(std::string(name));
}

bool is_origin(std::string_view text) {
  const size_t scheme_end = text.find("://");
  if (scheme_end == std::string_view::npos || scheme_end == 0) {
    return false;
  }
  const auto is_of = [](std::string_view part, std::string_view others) {
    return std::ranges::all_of(part, [&](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
             others.find(c) != std::string_view::npos;
    });
  };
  const std::string_view host = text.substr(scheme_end + 3);
  return !host.empty() && is_of(text.substr(0, scheme_end), "+-.") && is_of(host, "-._:[]");
}

bool is_loopback_address(std::string_view address) {
  address = address.substr(0, address.find('%'));  // a zone does not make it another address
  std::array<unsigned char, 4> v4{};
  if (::inet_pton(AF_INET, std::string(address).c_str(), v4.data()) == 1) {
    return v4[0] == IN_LOOPBACKNET;
  }
  in6_addr v6{};
  if (::inet_pton(AF_INET6, std::string(address).c_str(), &v6) != 1) {
    return false;
  }
  return IN6_IS_ADDR_LOOPBACK(&v6) ||
         (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == IN_LOOPBACKNET);
}

}  // namespace millrace
