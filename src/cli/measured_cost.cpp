#include "cli/measured_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "base/human_bytes.h"
#include "engine/engine.h"
#include "text/value.h"

namespace millrace {
namespace {

constexpr size_t kCoefficients = 4;
using Coefficients = std::array<double, kCoefficients>;  // in the order of CostModel

// factors * coefficients = 1: each equation is divided by the time that was measured, so that all
// count alike.
struct Equation {
  Coefficients factors{};

  double value(const Coefficients& coefficients) const {
    double sum = 0;
    for (size_t i = 0; i < kCoefficients; ++i) {
      sum += factors[i] * coefficients[i];
    }
    return sum;
  }
};

struct Measurements {
  std::string source;
  std::vector<Equation> equations;
  std::set<double> prompts;  // lengths
  std::set<double> depths;
};

void add_equation(Measurements& found, Coefficients factors, double seconds) {
  for (double& factor : factors) {
    factor /= seconds;
  }
  found.equations.push_back({factors});
}

Result<double> number(const Value& line, const char* name) {
  const Value* value = line.find(name);
  const double number = value == nullptr     ? -1
                        : value->is_int()    ? static_cast<double>(value->as_int())
                        : value->is_double() ? value->as_double()
                                             : -1;
  constexpr double kLimit = 1e15;  // far above every size and speed
  if (!(number >= 0 && number < kLimit)) {
    return fail(ErrorCode::kInvalidArgument,
                "expected what millrace bench MODEL --json prints, with a number {} from 0 to {:g}",
                name,
                kLimit);
  }
  return number;
}

Result<void> add_line(Measurements& found, std::string_view text) {
  const auto line = parse_json(text);
  if (!line) {
    return propagate(line);
  }
  constexpr std::array kNames = {"threads",
                                 "weight_bytes",
                                 "prompt_tokens",
                                 "prefill_tokens_per_second",
                                 "depth",
                                 "tokens",
                                 "decode_tokens_per_second"};
  std::array<double, kNames.size()> values{};
  for (size_t i = 0; i < values.size(); ++i) {
    const auto value = number(*line, kNames[i]);
    if (!value) {
      return propagate(value);
    }
    values[i] = *value;
  }
  const Value* sequences = line->find("sequences");  // older versions measured one
  if (sequences != nullptr && sequences->is_int() && sequences->as_int() != 1) {
    return fail(ErrorCode::kInvalidArgument,
                "expected a measurement of one sequence, got one of {}",
                sequences->as_int());
  }
  const auto [n_threads, weight_bytes, n_prompt, prefill, depth, n_tokens, decode] = values;
  const std::string source = fmt::format("{} ({}, {} KV, {}, {})",
                                         line->string_or("model", "?"),
                                         human_bytes(static_cast<uint64_t>(weight_bytes)),
                                         line->string_or("kv_type", "?"),
                                         counted(static_cast<int64_t>(n_threads), "thread"),
                                         line->string_or("isa", "?"));
  if (!found.source.empty() && found.source != source) {
    return fail(ErrorCode::kInvalidArgument,
                "expected a measurement of {}, as the lines before, got {}",
                found.source,
                source);
  }
  found.source = source;
  if (n_prompt > 0 && prefill > 0) {
    const double n_steps = std::ceil(n_prompt / EngineOptions().prefill_chunk);
    add_equation(found, {n_steps, n_prompt, 0, n_prompt * (n_prompt + 1) / 2}, n_prompt / prefill);
    found.prompts.insert(n_prompt);
  }
  if (n_tokens > 0 && decode > 0) {
    const double context = std::max(depth, 1.0) + (n_tokens + 1) / 2;
    add_equation(found, {1, 1, context, 0}, 1 / decode);
    found.depths.insert(depth);
  }
  return {};
}

// Least squares with the chosen coefficients alone, the others 0; nothing if that is not one point.
std::optional<Coefficients> solve(const std::vector<Equation>& equations, unsigned chosen) {
  double matrix[kCoefficients][kCoefficients + 1] = {};
  for (size_t i = 0; i < kCoefficients; ++i) {
    if ((chosen >> i & 1) == 0) {
      matrix[i][i] = 1;
      continue;
    }
    for (const Equation& equation : equations) {
      for (size_t j = 0; j < kCoefficients; ++j) {
        matrix[i][j] += (chosen >> j & 1) != 0 ? equation.factors[i] * equation.factors[j] : 0;
      }
      matrix[i][kCoefficients] += equation.factors[i];
    }
  }
  // Columns in units of their own diagonal: the factors are of very different sizes.
  Coefficients scale;
  for (size_t i = 0; i < kCoefficients; ++i) {
    scale[i] = std::sqrt(matrix[i][i]);
  }
  for (size_t i = 0; i < kCoefficients; ++i) {
    for (size_t j = 0; j < kCoefficients; ++j) {
      matrix[i][j] /= scale[i] * scale[j];
    }
    matrix[i][kCoefficients] /= scale[i];
  }
  for (size_t i = 0; i < kCoefficients; ++i) {  // positive definite: no pivoting
    if (!(matrix[i][i] > 1e-10)) {
      return std::nullopt;
    }
    for (size_t row = 0; row < kCoefficients; ++row) {
      const double times = row == i ? 0 : matrix[row][i] / matrix[i][i];
      for (size_t column = 0; column <= kCoefficients; ++column) {
        matrix[row][column] -= times * matrix[i][column];
      }
    }
  }
  Coefficients result{};
  for (size_t i = 0; i < kCoefficients; ++i) {
    result[i] = matrix[i][kCoefficients] / matrix[i][i] / scale[i];
  }
  return result;
}

// The best of all choices of coefficients to be above 0: there are few enough.
std::optional<Coefficients> solve_above_zero(const std::vector<Equation>& equations) {
  std::optional<Coefficients> best;
  double least = std::numeric_limits<double>::infinity();
  for (unsigned chosen = 1; chosen < 1U << kCoefficients; ++chosen) {
    const auto found = solve(equations, chosen);
    if (!found || std::ranges::any_of(*found, [](double value) { return value < 0; })) {
      continue;
    }
    double squares = 0;
    for (const Equation& equation : equations) {
      squares += std::pow(equation.value(*found) - 1, 2);
    }
    if (squares < least) {
      least = squares;
      best = found;
    }
  }
  return best;
}

}  // namespace

// The fit to the faster of several runs of `bench -t 2 -p 512 -d 64` and `bench -t 2 -p 3000 -d
// 3000` of a file that synth made.
MeasuredCost reference_cost() {
  return {.cost = {.step = 10.1e-3,
                   .token = 2.24e-3,
                   .decode_attention = 4.32e-6,
                   .prompt_attention = 1.30e-6},
          .source =
              "qwen3-0.6b of Q4_K (320 MiB, bf16 KV, 2 threads, avx512) on an AMD EPYC of "
              "family 26 that had other work too",
          .largest_error = {}};
}

Result<MeasuredCost> fit_cost(std::string_view bench_lines) {
  Measurements found;
  std::istringstream lines{std::string(bench_lines)};
  int64_t n_lines = 0;
  for (std::string line; std::getline(lines, line);) {
    ++n_lines;
    if (line.find_first_not_of(" \t\r") == std::string::npos) {
      continue;
    }
    if (auto added = add_line(found, line); !added) {
      return fail(added.error().code, "line {}: {}", n_lines, added.error().message);
    }
  }
  if (found.prompts.size() < 2 || found.depths.size() < 2) {
    return fail(
        ErrorCode::kInvalidArgument,
        "expected lines of millrace bench MODEL --json with two lengths of prompts (-p) and "
        "two depths (-d), got {} and {}",
        found.prompts.size(),
        found.depths.size());
  }
  const auto best = solve_above_zero(found.equations);
  if (!best) {
    return fail(ErrorCode::kInvalidArgument, "no cost of a step explains what was measured");
  }
  MeasuredCost result{.cost = {.step = (*best)[0],
                               .token = (*best)[1],
                               .decode_attention = (*best)[2],
                               .prompt_attention = (*best)[3]},
                      .source = found.source,
                      .largest_error = {}};
  if (found.equations.size() > kCoefficients) {
    result.largest_error = 0;
    for (const Equation& equation : found.equations) {
      result.largest_error = std::max(*result.largest_error, std::abs(equation.value(*best) - 1));
    }
  }
  return result;
}

}  // namespace millrace
