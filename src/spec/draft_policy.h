#pragma once
// How many guesses a step verifies, so that tokens come soonest: from what passes took and how
// often guesses came true, and from nothing else. Changes speed only, never text. Times are told to
// it: it has no clock. Engine thread.

#include <cstdint>
#include <span>
#include <vector>

#include "spec/step_times.h"

namespace millrace {

// What could be guessed for one sequence that decodes.
struct DraftOffer {
  double rate = 0;  // chance of each token, given those before it
  int n_offered = 0;
  bool is_by_model = false;  // else guessing takes no time
  int64_t n_behind = 0;      // tokens that the draft model has to compute before it guesses
  int64_t n_to_come = 1;     // tokens that the answer may still have
  int n_used = 0;            // what choose() says
};

// Speculates where that is expected to give kMargin times the tokens of plain decoding for the
// time. Now and then it tries another number of guesses than the best it knows of, none among them,
// to learn again what they take and how often they are right: what that loses stays below kExplored
// of the time, by an account of it.
class DraftPolicy {
 public:
  static constexpr double kMargin = 1.03;
  static constexpr double kExplored = 0.005;

  // max_drafts: of a sequence.
  DraftPolicy(int max_drafts, int64_t max_sequences);

  // One sequence for each offer decodes. max_drafts: of all together.
  void choose(std::span<DraftOffer> offers, int64_t max_drafts);
  // After the step that choose() was for; rows of other kinds of steps are none of its business.
  // draft_seconds: what guessing took. n_tokens: that came of the step.
  void note_step(int64_t n_rows, double step_seconds, double draft_seconds, int64_t n_tokens);
  void note_draft_pass(int64_t n_rows, double seconds) { passes_.note(n_rows, seconds); }

  // Speed with this offer alone among n_sequences over the speed without it; 1 at least.
  double gain(const DraftOffer& offer, int64_t n_sequences);
  // Is it known what a step takes?
  bool is_known() const { return steps_.is_known(); }

 private:
  // Tokens that the draft model lacks and that join its first pass; more take a pass of their own.
  static constexpr int64_t kJoining = 8;

  // A step that is being put together.
  struct Sketch {
    int64_t n_rows = 0;
    double n_tokens = 0;
    double draft_seconds = 0;
  };
  struct Candidate {
    double worth = 0;  // tokens for its time
    size_t offer = 0;

    bool operator<(const Candidate& other) const { return worth < other.worth; }
  };

  Sketch plain(int64_t n_sequences);
  void add(Sketch& sketch, DraftOffer& offer);
  double seconds(const Sketch& sketch) const;
  double speed(const Sketch& sketch) const { return sketch.n_tokens / seconds(sketch); }
  double pass_seconds(int64_t n_rows) const;
  void push_candidate(std::span<const DraftOffer> offers, size_t index, double row_seconds);
  void choose_best(std::span<DraftOffer> offers, int64_t max_drafts);
  void explore(std::span<DraftOffer> offers, int64_t max_drafts);

  const int max_drafts_;
  StepTimes steps_;        // that only decode
  StepTimes passes_;       // of the draft model
  double best_speed_ = 0;  // expected of the latest choice

  double account_ = 0;  // seconds that trials may lose
  bool has_begun_ = false;
  double trial_loss_ = 0;  // expected of the step, when it is a trial
  bool is_trial_ = false;
  int trial_ = 0;          // number of guesses for each sequence to be tried next
  int n_since_trial_ = 0;  // steps

  std::vector<int64_t> active_;        // by depth: sequences that the draft model guesses for
  std::vector<Candidate> candidates_;  // a heap
  std::vector<size_t> order_;          // offers, as drafts were added
  std::vector<int> chosen_;            // of each offer
};

}  // namespace millrace
