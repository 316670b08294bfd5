#include "base/libm_digest.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <span>

#include "base/philox.h"

namespace millrace {
namespace {

constexpr uint32_t kChunk = 1024;

// Of n results for arguments from (0, 1), the same everywhere.
template <class Function>
void add_results(Sha256& digest, uint32_t n, const Function& function) {
  std::array<double, kChunk> results;
  for (uint32_t begin = 0; begin < n; begin += kChunk) {
    for (uint32_t i = 0; i < kChunk; ++i) {
      const PhiloxBlock bits = philox4x32(0, {begin + i, 0, 0, 0});
      results[i] = function(open_unit_interval(bits[0], bits[1]));
    }
    digest.add(std::as_bytes(std::span(results)));
  }
}

}  // namespace

Digest256 libm_digest() {
  constexpr uint32_t kFew = 16 * kChunk;
  constexpr uint32_t kMany = 128 * kChunk;  // std::log differs most rarely
  constexpr double kBase = 500'000;         // of rotary positions
  constexpr double kAngle = 100'000;
  Sha256 digest;
  add_results(digest, kMany, [](double x) { return std::log(x); });
  add_results(digest, kMany, [](double x) { return std::log(37 * x); });
  add_results(digest, kFew, [](double x) { return std::exp(-40 * x); });
  add_results(digest, kFew, [](double x) { return std::sin(kAngle * x); });
  add_results(digest, kFew, [](double x) { return std::cos(kAngle * x); });
  add_results(digest, kFew, [](double x) { return std::pow(kBase, -x); });
  return digest.finish();
}

}  // namespace millrace
