#include "base/human_bytes.h"

#include <fmt/core.h>

#include <iterator>

namespace millrace {

std::string human_bytes(uint64_t bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  // What would be shown as 1024 of a unit is one of the next.
  while (value >= (unit == 0 ? 1024 : 1023.5) && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  const bool is_whole = unit == 0 || value >= 99.95;
  return fmt::format("{:.{}f} {}", value, is_whole ? 0 : 1, units[unit]);
}

std::string counted(int64_t n, std::string_view noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

}  // namespace millrace
