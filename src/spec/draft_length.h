#pragma once
// How many drafted tokens are worth verifying: from how often a sequence's drafts came true and
// what a row costs. Changes speed only, never text. Engine thread.

#include <cstdint>
#include <span>
#include <vector>

namespace millrace {

// What a step takes: base + n_rows * per_row, fitted to the latest steps by least squares.
class StepCost {
 public:
  // forget: weight of a step against the one after it.
  explicit StepCost(double forget = 0.98) : forget_(forget) {}

  void note(int64_t n_rows, double seconds);

  // Rows that take as long as a step without any; large when memory is what a step waits for.
  double rows_per_base() const;
  double seconds_per_row() const;  // 0: no step yet
  bool is_known() const { return weight_ > 0; }
  double seconds(int64_t n_rows) const;       // of a step with so many
  int64_t rows_within(double seconds) const;  // below 0: not even one without

 private:
  double forget_;
  double weight_ = 0;
  double rows_ = 0;
  double seconds_ = 0;
  double rows_rows_ = 0;
  double rows_seconds_ = 0;
};

// How likely the next draft of one sequence is right.
class Acceptance {
 public:
  void note(int64_t n_accepted, int64_t n_drafted);
  // There was something to propose and it was not worth a row: drifts back to where it began, so
  // that a sequence that starts to repeat itself is noticed.
  void note_unused();
  double rate() const { return rate_; }

 private:
  static constexpr double kInitial = 0.6;
  static constexpr double kLearn = 0.15;
  static constexpr double kDrift = 0.02;

  double rate_ = kInitial;
};

// What a draft of the draft model takes, a running mean.
class DraftCost {
 public:
  void note(int64_t n_drafts, double seconds);
  // The model could have drafted and it was not worth it: sinks, so that a few slow drafts do not
  // end drafting for ever.
  void note_unused();
  double seconds() const { return seconds_; }  // of one draft; 0: none yet

 private:
  static constexpr double kLearn = 0.1;
  static constexpr double kSink = 0.01;

  double seconds_ = 0;
};

struct DraftOffer {
  double rate = 0;  // chance of each token, given those before it
  int n_offered = 0;
  double rows_each = 0;  // what guessing one more takes, in rows of a step
  int n_used = 0;        // what choose_draft_lengths says
};

// Uses drafts, the likeliest first, while one more raises the tokens that the step gives for its
// time. n_rows: of the step without drafts; each of the offers' sequences has one of them.
// max_drafts: of all together.
void choose_draft_lengths(double rows_per_base,
                          int64_t n_rows,
                          int64_t max_drafts,
                          std::span<DraftOffer> offers);

}  // namespace millrace
