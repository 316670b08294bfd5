#include "cli/bench_machine.h"

#include <fmt/format.h>

#include "base/human_bytes.h"

namespace millrace {

using kernels::DotKind;

std::string machine_text(const kernels::MachineLimits& limits) {
  const int n = limits.n_workers;
  std::string text =
      fmt::format("{:<24}{:>12}{:>12}\n", "", "1 thread", n == 1 ? "" : counted(n, "thread"));
  const auto row = [&](const std::string& name, double one, double together) {
    text += fmt::format("{:<24}{:>12.1f}", name, one / 1e9);
    text += n == 1 ? "\n" : fmt::format("{:>12.1f}\n", together / 1e9);
  };
  row("memory read, GB/s", limits.read_one, limits.read_all);
  text += "multiply-adds, G/s\n";
  for (const kernels::DotPeaks& peaks : limits.peaks) {
    for (int kind = 0; kind < kernels::kDotKinds; ++kind) {
      if (peaks.one[kind] == 0) continue;
      const char* dot = kernels::dot_kind_name(static_cast<DotKind>(kind));
      row(fmt::format("  {} {}", kernels::isa_name(peaks.isa), dot),
          peaks.one[kind],
          peaks.all[kind]);
    }
  }
  if (n > 1) {
    text += fmt::format("barrier, us{:>37.2f}\n", limits.barrier_seconds * 1e6);
  }
  return text;
}

JsonObject machine_json(const kernels::MachineLimits& limits) {
  std::vector<JsonObject> tiers;
  for (const kernels::DotPeaks& peaks : limits.peaks) {
    JsonObject tier;
    tier.add("isa", kernels::isa_name(peaks.isa));
    for (int kind = 0; kind < kernels::kDotKinds; ++kind) {
      if (peaks.one[kind] == 0) continue;
      const std::string dot = kernels::dot_kind_name(static_cast<DotKind>(kind));
      tier.add(dot + "_macs_per_second_one", peaks.one[kind]);
      tier.add(dot + "_macs_per_second_all", peaks.all[kind]);
    }
    tiers.push_back(std::move(tier));
  }
  JsonObject object;
  object.add("threads", limits.n_workers)
      .add("read_bytes_per_second_one", limits.read_one)
      .add("read_bytes_per_second_all", limits.read_all)
      .add("barrier_seconds", limits.barrier_seconds)
      .add("tiers", tiers);
  return object;
}

}  // namespace millrace
