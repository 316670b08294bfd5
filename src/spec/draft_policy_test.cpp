#include "spec/draft_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>

#include "spec/acceptance.h"

namespace millrace {
namespace {

constexpr int kMaxDrafts = 8;

using Curve = std::function<double(int64_t n_rows)>;  // seconds

// A machine and a text, on which a policy learns.
struct World {
  std::string name;
  Curve step;
  Curve pass = {};  // of the draft model; none: guesses are free
  double rate = 0.5;
  int64_t n_sequences = 1;
  double noise = 0.1;  // share, either way
  bool has_outliers = true;
};

// Tokens for the time of k guesses a sequence, without noise.
double speed_of(const World& world, int k) {
  double n_tokens = 1;
  double chance = 1;
  double time = world.step(world.n_sequences * (1 + k));
  for (int i = 0; i < k; ++i) {
    chance *= world.rate;
    n_tokens += chance;
    time += world.pass ? world.pass(world.n_sequences) : 0;
  }
  return n_tokens * static_cast<double>(world.n_sequences) / time;
}

double best_speed_of(const World& world) {
  double best = 0;
  for (int k = 0; k <= kMaxDrafts; ++k) {
    best = std::max(best, speed_of(world, k));
  }
  return best;
}

class Simulation {
 public:
  explicit Simulation(const World& world, uint32_t seed = 1)
      : world_(world),
        random_(seed),
        policy_(kMaxDrafts, 64),
        acceptances_(static_cast<size_t>(world.n_sequences)) {}

  // Expected tokens for the time that the choices of the next steps take, noise left out.
  double run(int n_steps) {
    double n_tokens = 0;
    double time = 0;
    for (int i = 0; i < n_steps; ++i) {
      step(n_tokens, time);
    }
    return n_tokens / time;
  }

  World& world() { return world_; }

 private:
  double noise() {
    const double share = std::uniform_real_distribution(-1.0, 1.0)(random_) * world_.noise;
    const bool is_outlier = world_.has_outliers && random_() % 40 == 0;
    return is_outlier ? 10 : 1 + share;
  }

  void step(double& n_tokens, double& time) {
    offers_.clear();
    for (const Acceptance& acceptance : acceptances_) {
      offers_.push_back({.rate = acceptance.rate(0.6),
                         .n_offered = kMaxDrafts,
                         .is_by_model = static_cast<bool>(world_.pass),
                         .n_to_come = 100});
    }
    policy_.choose(offers_, 1'000);
    double draft_seconds = 0;
    for (int depth = 0; world_.pass && depth < kMaxDrafts; ++depth) {
      const int64_t n_active = std::ranges::count_if(
          offers_, [&](const DraftOffer& offer) { return offer.n_used > depth; });
      if (n_active > 0) {
        const double seconds = world_.pass(n_active);
        time += seconds;
        const double noisy = seconds * noise();
        draft_seconds += noisy;
        policy_.note_draft_pass(n_active, noisy);
      }
    }
    int64_t n_rows = 0;
    int64_t n_came = 0;
    for (size_t i = 0; i < offers_.size(); ++i) {
      const int n_used = offers_[i].n_used;
      int n_right = 0;
      while (n_right < n_used && std::bernoulli_distribution(world_.rate)(random_)) {
        ++n_right;
      }
      acceptances_[i].note(n_right, n_used);
      n_rows += 1 + n_used;
      n_came += 1 + n_right;
      for (int depth = 0; depth <= n_used; ++depth) {
        n_tokens += std::pow(world_.rate, depth);
      }
    }
    time += world_.step(n_rows);
    policy_.note_step(n_rows, world_.step(n_rows) * noise(), draft_seconds, n_came);
  }

  World world_;
  std::mt19937 random_;
  DraftPolicy policy_;
  std::vector<Acceptance> acceptances_;
  std::vector<DraftOffer> offers_;
};

double rows_of(int64_t n_rows) {
  return static_cast<double>(n_rows);
}

// Machines whose steps are of every shape.
std::vector<std::pair<std::string, Curve>> curves() {
  return {
      {"waits for memory", [](int64_t n) { return 0.02 + 0.0005 * rows_of(n); }},
      {"computes", [](int64_t n) { return 0.001 * rows_of(n); }},
      {"first waits, then computes", [](int64_t n) { return std::max(0.02, 0.004 * rows_of(n)); }},
      {"tiles of four", [](int64_t n) { return 0.01 * std::ceil(rows_of(n) / 4); }},
      {"one row is a case of its own", [](int64_t n) { return n == 1 ? 0.01 : 0.018; }},
      {"is cheaper by the row", [](int64_t n) { return 0.01 * std::sqrt(rows_of(n)); }},
      {"is dearer by the row", [](int64_t n) { return 0.001 * rows_of(n) * rows_of(n); }}};
}

std::vector<World> worlds() {
  std::vector<World> all;
  for (const auto& [name, step] : curves()) {
    for (const double rate : {0.0, 0.5, 0.8, 0.95}) {
      for (const int64_t n_sequences : {1, 6}) {
        for (const double pass : {0.0, 0.1, 0.5, 1.5}) {
          World world{.name = name, .step = step, .rate = rate, .n_sequences = n_sequences};
          if (pass > 0) {
            world.pass = [step = step, pass](int64_t n) { return pass * step(n); };
          }
          world.name += ", rate " + std::to_string(rate) + ", sequences " +
                        std::to_string(n_sequences) + ", pass " + std::to_string(pass);
          all.push_back(world);
        }
      }
    }
  }
  return all;
}

TEST(DraftPolicy, is_never_slower_than_plain_decoding_and_near_the_best_number) {
  double sum = 0;
  for (const World& world : worlds()) {
    Simulation simulation(world);
    simulation.run(1'000);
    const double speed = simulation.run(2'000);
    EXPECT_GE(speed, 0.98 * speed_of(world, 0)) << world.name;
    EXPECT_GE(speed, 0.85 * best_speed_of(world)) << world.name;
    sum += std::min(speed / best_speed_of(world), 1.0);  // it may be above: numbers may differ
  }
  EXPECT_GE(sum, 0.95 * static_cast<double>(worlds().size()));
}

// Half of the time nothing is guessed right, half of it nearly all: noticed both ways, though wrong
// guesses are no longer made.
TEST(DraftPolicy, follows_a_text_that_changes) {
  World world{.name = "changes",
              .step = [](int64_t n) { return 0.02 + 0.001 * rows_of(n); },
              .pass = [](int64_t n) { return 0.002 + 0.0001 * rows_of(n); }};
  Simulation simulation(world);
  for (int i = 0; i < 3; ++i) {
    simulation.world().rate = 0;
    simulation.run(500);
    EXPECT_GE(simulation.run(1'000), 0.98 * speed_of(simulation.world(), 0));
    simulation.world().rate = 0.9;
    simulation.run(1'500);
    EXPECT_GE(simulation.run(1'000), 0.93 * best_speed_of(simulation.world()));
  }
}

// A machine that becomes slower, and a draft model that does so alone.
TEST(DraftPolicy, follows_a_machine_that_changes) {
  World world{.name = "changes",
              .step = [](int64_t n) { return 0.02 + 0.001 * rows_of(n); },
              .pass = [](int64_t n) { return 0.002 + 0.0001 * rows_of(n); },
              .rate = 0.8};
  Simulation simulation(world);
  for (int i = 0; i < 2; ++i) {
    for (const double slower : {1.0, 3.0}) {
      for (const double pass : {0.002, 0.03}) {
        simulation.world().step = [slower](int64_t n) {
          return slower * (0.02 + 0.001 * rows_of(n));
        };
        simulation.world().pass = [pass](int64_t) { return pass; };
        simulation.run(1'500);
        const double speed = simulation.run(1'000);
        EXPECT_GE(speed, 0.98 * speed_of(simulation.world(), 0)) << slower << ' ' << pass;
        EXPECT_GE(speed, 0.93 * best_speed_of(simulation.world())) << slower << ' ' << pass;
      }
    }
  }
}

TEST(DraftPolicy, without_a_step_before_it_nothing_is_guessed) {
  DraftPolicy policy(kMaxDrafts, 4);
  std::vector<DraftOffer> offers(2, {.rate = 1, .n_offered = kMaxDrafts});
  policy.choose(offers, 100);
  EXPECT_EQ(offers[0].n_used + offers[1].n_used, 0);
  policy.note_step(2, 0.01, 0, 2);
  policy.choose(offers, 100);
  EXPECT_EQ(offers[0].n_used + offers[1].n_used, 4);  // steps grow little by little
  policy.note_step(6, 0.01, 0, 6);
  policy.choose(offers, 100);
  EXPECT_EQ(offers[0].n_used + offers[1].n_used, 12);
  policy.choose(offers, 3);
  EXPECT_EQ(offers[0].n_used + offers[1].n_used, 3);
  policy.choose(offers, 0);
  EXPECT_EQ(offers[0].n_used + offers[1].n_used, 0);
}

TEST(DraftPolicy, what_a_draft_model_has_to_compute_first_counts) {
  DraftPolicy policy(kMaxDrafts, 4);
  for (int i = 0; i < 50; ++i) {
    policy.note_step(1, 0.020, 0, 1);
    policy.note_step(5, 0.022, 0, 5);
    policy.note_draft_pass(1, 0.001);
    policy.note_draft_pass(500, 0.100);
  }
  DraftOffer offer{.rate = 0.8, .n_offered = kMaxDrafts, .is_by_model = true, .n_to_come = 200};
  const double unburdened = policy.gain(offer, 1);
  EXPECT_GT(unburdened, 2);
  offer.n_behind = 500;
  EXPECT_GT(policy.gain(offer, 1), 0.9 * unburdened);  // a hundredth of it a step
  offer.n_to_come = 4;
  EXPECT_LT(policy.gain(offer, 1), 1.2);
  offer.rate = 0;
  EXPECT_EQ(policy.gain(offer, 1), 1);
}

TEST(DraftPolicy, learning_costs_no_more_than_some_steps) {
  for (const World& world : worlds()) {
    Simulation simulation(world);
    EXPECT_GE(simulation.run(400), 0.9 * speed_of(world, 0)) << world.name;
  }
}

}  // namespace
}  // namespace millrace
