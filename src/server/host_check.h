#pragma once
// Which names in a Host header a server on the loopback interface answers to. A
// page of evil.example can have that name point to 127.0.0.1 (DNS rebinding)
// and would then be no other origin; but its browser still says the name. Pure
// functions, any thread.

#include <string>
#include <string_view>

namespace millrace {

// "Example.com.:8080" is example.com, "[::1]:80" is ::1.
std::string host_name(std::string_view host);

// Names that nobody else can own: any address, localhost and what is below it,
// and the name that containers have for their host.
bool is_local_name(std::string_view name);

// However it is spelled: 127.0.0.1, ::1, 0:0:0:0:0:0:0:1, ::ffff:127.0.0.1.
bool is_loopback_address(std::string_view address);

// As a browser's Origin header has it: scheme://host, perhaps with a port, and nothing behind.
bool is_origin(std::string_view text);

}  // namespace millrace
