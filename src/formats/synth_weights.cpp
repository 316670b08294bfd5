#include "formats/synth_weights.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/philox.h"

namespace millrace {
namespace {

constexpr int kQuantiles = 65536;
constexpr int kValuesPerBlock = 8;  // of 16 bits each
constexpr int64_t kChunkBytes = 4 << 20;

// The quantile function of the normal at (i + 1/2) / 65536, by Newton's method on the distribution
// function: from the middle outwards each quantile is a near guess for the next.
std::vector<float> normal_quantiles() {
  std::vector<float> quantiles(kQuantiles);
  double x = 0.0;
  for (int i = kQuantiles / 2; i < kQuantiles; ++i) {
    const double above = 1.0 - (i + 0.5) / kQuantiles;
    for (int step = 0; step < 4; ++step) {
      const double tail = 0.5 * std::erfc(x / std::numbers::sqrt2);
      const double density =
          std::exp(-0.5 * x * x) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
      x += (tail - above) / density;
    }
    quantiles[static_cast<size_t>(i)] = static_cast<float>(x);
    quantiles[static_cast<size_t>(kQuantiles - 1 - i)] = static_cast<float>(-x);
  }
  return quantiles;
}

}  // namespace

NormalStream::NormalStream(uint64_t seed) : seed_(seed), quantiles_(normal_quantiles()) {}

void NormalStream::fill(
    uint32_t stream, int64_t row, float mean, float deviation, std::span<float> out) const {
  const auto n = static_cast<int64_t>(out.size());
  const auto row_bits = static_cast<uint64_t>(row);
  const auto row_low = static_cast<uint32_t>(row_bits);
  const auto row_high = static_cast<uint32_t>(row_bits >> 32);
  for (int64_t begin = 0; begin < n; begin += kValuesPerBlock) {
    const auto block = static_cast<uint32_t>(begin / kValuesPerBlock);
    const PhiloxBlock bits = philox4x32(seed_, {block, row_low, row_high, stream});
    const int64_t end = std::min<int64_t>(n, begin + kValuesPerBlock);
    for (int64_t i = begin; i < end; ++i) {
      const auto part = static_cast<size_t>(i - begin);
      const uint32_t index = (bits[part / 2] >> (16 * (part % 2))) & 0xffffu;
      out[static_cast<size_t>(i)] = mean + deviation * quantiles_[index];
    }
  }
}

NormalStream::Source NormalStream::source_of(const RandomTensor& tensor, int64_t row) const {
  if (tensor.shift == 0) {
    return {tensor.stream, row};
  }
  const int64_t source = (row + tensor.n_rows - tensor.shift) % tensor.n_rows;
  const auto bits = static_cast<uint64_t>(source);
  constexpr uint64_t kSeed = 0x70617474;  // for models of any seed
  const PhiloxBlock draw =
      philox4x32(kSeed, {static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32), 0, 0});
  const bool is_own = draw[0] < tensor.own_share * 4294967296.0;
  return is_own ? Source{tensor.stream, row} : Source{tensor.source_stream, source};
}

Result<void> generate_tensor(const NormalStream& normals,
                             const RandomTensor& tensor,
                             WorkerPool& pool,
                             const WriteBytes& write) {
  const DTypeInfo& info = dtype_info(tensor.dtype);
  const int64_t row_bytes = info.row_bytes(tensor.n_in);
  const int64_t chunk_rows = std::clamp<int64_t>(kChunkBytes / row_bytes, 1, tensor.n_rows);
  std::vector<uint32_t> chunk(static_cast<size_t>((chunk_rows * row_bytes + 3) / 4));
  auto* bytes = reinterpret_cast<std::byte*>(chunk.data());
  std::vector<std::vector<float>> rows(static_cast<size_t>(pool.size()));
  for (int64_t first = 0; first < tensor.n_rows; first += chunk_rows) {
    const int64_t n_rows = std::min(chunk_rows, tensor.n_rows - first);
    pool.run([&](int worker) {
      std::vector<float>& values = rows[static_cast<size_t>(worker)];
      values.resize(static_cast<size_t>(tensor.n_in));
      const Range mine = share(n_rows, worker, pool.size());
      for (int64_t r = mine.begin; r < mine.end; ++r) {
        const auto [stream, row] = normals.source_of(tensor, first + r);
        normals.fill(stream, row, tensor.mean, tensor.deviation, values);
        info.encode(values.data(), bytes + r * row_bytes, tensor.n_in);
      }
    });
    auto done = write({bytes, static_cast<size_t>(n_rows * row_bytes)});
    if (!done) {
      return done;
    }
  }
  return {};
}

}  // namespace millrace
