#pragma once
// Sizes and numbers of things as people read them, the same everywhere. Any thread.

#include <cstdint>
#include <string>
#include <string_view>

namespace millrace {

// In powers of 1,024, two or three digits: "512 B", "12.5 KiB", "1.2 GiB", "640 MiB".
std::string human_bytes(uint64_t bytes);

// "1 thread", "2 threads", for nouns that take an s.
std::string counted(int64_t n, std::string_view noun);

}  // namespace millrace
