// The demo model inside the program: models/demo/demo.gguf as it was at build time.

#include <cstddef>
#include <span>

#include "cli/model_options.h"

#ifdef MILLRACE_DEMO_MODEL

// parse_gguf wants an address that is a multiple of 16; a cache line does no harm.
__asm__(
    ".section .rodata\n"
    ".balign 64\n"
    ".local millrace_demo_begin\n"
    ".local millrace_demo_end\n"
    "millrace_demo_begin:\n"
    ".incbin \"" MILLRACE_DEMO_MODEL
    "\"\n"
    "millrace_demo_end:\n"
    ".byte 0\n"
    ".previous\n");

extern "C" const std::byte millrace_demo_begin[];
extern "C" const std::byte millrace_demo_end[];

namespace millrace {

std::span<const std::byte> embedded_model() {
  return {millrace_demo_begin, millrace_demo_end};
}

}  // namespace millrace

#else

namespace millrace {

std::span<const std::byte> embedded_model() {
  return {};
}

}  // namespace millrace

#endif
