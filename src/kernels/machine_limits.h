#pragma once
// What this machine can do at best, measured on the spot: the yardstick of every speed figure.
// Called on the thread that may run the pool.

#include <vector>

#include "base/worker_pool.h"
#include "kernels/isa.h"
#include "kernels/machine_probe.h"
#include "kernels/panel.h"

namespace millrace::kernels {

// How the matrix kernels multiply activations of a kind.
DotKind dot_kind(ActivationKind kind);
const char* dot_kind_name(DotKind kind);  // "f32", "int16", "int8", "bf16"

// Multiply-adds a second, of one worker and of all together, by DotKind; 0 where the tier has no
// such instruction.
struct DotPeaks {
  Isa isa = Isa::kScalar;
  double one[kDotKinds] = {};
  double all[kDotKinds] = {};
};

struct MachineLimits {
  int n_workers = 1;
  double read_one = 0;  // bytes a second from memory, beyond the caches
  double read_all = 0;
  double barrier_seconds = 0;   // of a phase that all workers begin and do nothing in; 0 for one
  std::vector<DotPeaks> peaks;  // of every available tier, the fastest last

  const DotPeaks& peaks_of(Isa isa) const;  // of an available tier
};

// Each figure is the best of several short runs: what else runs on the machine only takes away.
// `seconds` is about the time of one figure; 256 MiB are allocated for the reads meanwhile.
MachineLimits measure_machine(WorkerPool& pool, double seconds = 0.1);

// The better figure of each: two measurements around a long test, taken together.
MachineLimits better_of(const MachineLimits& a, const MachineLimits& b);

}  // namespace millrace::kernels
