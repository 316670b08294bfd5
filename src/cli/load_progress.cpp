#include "cli/load_progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>

#include "cli/note.h"
#include "cli/progress.h"

namespace millrace {
namespace {

constexpr std::chrono::milliseconds kTerminalPeriod{250};
constexpr std::chrono::milliseconds kLogPeriod{10'000};

}  // namespace

std::string load_progress_text(const LoadCounts& counts, double seconds) {
  return fmt::format("{} of {} ended{}, {} under way, {} tokens in {:.0f} s",
                     counts.n_ended,
                     counts.n_requests,
                     counts.n_faulty > 0 ? fmt::format(", {} not whole", counts.n_faulty) : "",
                     counts.n_begun - counts.n_ended,
                     counts.n_tokens,
                     seconds);
}

LoadProgress::LoadProgress(int n_requests, bool is_silent, bool waits)
    : n_requests_(n_requests), waits_(waits) {
  if (!is_silent) {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
}

LoadProgress::~LoadProgress() = default;

void LoadProgress::end_one(const LoadSample& sample) {
  n_tokens_ += sample.completion_tokens;
  n_faulty_ += sample.error.empty() && !sample.is_short ? 0 : 1;
  ++n_ended_;
}

void LoadProgress::run(const std::stop_token& stop) const {
  Progress line("load:");
  const bool is_terminal = ::isatty(STDERR_FILENO) != 0;
  const auto show = [&] {
    if (waits_.load()) {
      return;
    }
    const int n_ended = n_ended_.load();  // before those that have begun: never more than they
    const std::string text = load_progress_text({.n_requests = n_requests_,
                                                 .n_begun = n_begun_.load(),
                                                 .n_ended = n_ended,
                                                 .n_faulty = n_faulty_.load(),
                                                 .n_tokens = n_tokens_.load()},
                                                seconds_since(begin_));
    if (is_terminal) {
      line.show(text);
    } else {
      print_note("load: {}\n", text);
    }
  };
  if (is_terminal) {
    show();
  }
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  const auto period = is_terminal ? kTerminalPeriod : kLogPeriod;
  while (!never.wait_for(lock, stop, period, [&] { return stop.stop_requested(); })) {
    show();
  }
}

}  // namespace millrace
