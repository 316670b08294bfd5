#pragma once
// The hint to a processor that this thread is polling. The one place that knows its spelling.

namespace millrace {

inline void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace millrace
