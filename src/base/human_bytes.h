#pragma once
// Sizes of memory and files as people read them, the same everywhere. Any thread.

#include <cstdint>
#include <string>

namespace millrace {

// In powers of 1,024, two or three digits: "512 B", "12.5 KiB", "1.2 GiB", "640 MiB".
std::string human_bytes(uint64_t bytes);

}  // namespace millrace
