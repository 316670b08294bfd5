#include "spec/draft_length.h"

#include <gtest/gtest.h>

#include <random>

namespace millrace {
namespace {

TEST(StepCost, finds_the_line_behind_noisy_steps_and_follows_it_when_it_moves) {
  std::mt19937 random(3);
  StepCost cost;
  for (const double per_row : {1.0, 4.0}) {
    for (int i = 0; i < 400; ++i) {
      const auto n_rows = static_cast<int64_t>(1 + random() % 9);
      const double noise = 0.9 + 0.2 * static_cast<double>(random() % 1000) / 1000;
      cost.note(n_rows, (20 + per_row * static_cast<double>(n_rows)) * noise);
    }
    EXPECT_NEAR(cost.rows_per_base() * per_row, 20, 5);
  }
}

TEST(StepCost, steps_of_one_size_tell_nothing) {
  StepCost cost;
  const double unknown = cost.rows_per_base();
  for (int i = 0; i < 100; ++i) {
    cost.note(1, 0.02 + 0.001 * (i % 3));
  }
  EXPECT_EQ(cost.rows_per_base(), unknown);
}

TEST(Acceptance, follows_what_happens_and_comes_back) {
  Acceptance acceptance;
  const double initial = acceptance.rate();
  for (int i = 0; i < 10; ++i) {
    acceptance.note(4, 4);
  }
  EXPECT_GT(acceptance.rate(), 0.95);
  for (int i = 0; i < 30; ++i) {
    acceptance.note(0, 4);
  }
  EXPECT_LT(acceptance.rate(), 0.02);
  for (int i = 0; i < 300; ++i) {
    acceptance.note_unused();
  }
  EXPECT_NEAR(acceptance.rate(), initial, 0.01);
}

TEST(DraftCost, one_slow_draft_does_not_end_drafting) {
  DraftCost cost;
  cost.note(0, 1);
  EXPECT_EQ(cost.seconds(), 0);
  cost.note(4, 400);
  EXPECT_EQ(cost.seconds(), 100);
  std::vector<DraftOffer> offers(1, {.rate = 0.8, .n_offered = 8});
  int n_steps = 0;
  for (; offers[0].n_used == 0 && n_steps < 1'000; ++n_steps) {
    cost.note_unused();
    offers[0].rows_each = cost.seconds();
    choose_draft_lengths(10, 1, 100, offers);
  }
  EXPECT_GT(n_steps, 10);
  EXPECT_LT(n_steps, 500);
  for (int i = 0; i < 100; ++i) {
    cost.note(4, 2);
  }
  EXPECT_NEAR(cost.seconds(), 0.5, 0.01);
}

// Against every combination of lengths.
TEST(DraftLength, choice_gives_the_most_tokens_for_its_time) {
  std::mt19937 random(9);
  for (int round = 0; round < 300; ++round) {
    const double base = static_cast<double>(random() % 300) / 10;
    const int64_t n_rows = 2 + static_cast<int64_t>(random() % 10);
    std::vector<DraftOffer> offers(2);
    for (DraftOffer& offer : offers) {
      offer.rate = static_cast<double>(random() % 100) / 100;
      offer.n_offered = static_cast<int>(random() % 7);
      offer.rows_each = round % 2 == 0 ? 0 : static_cast<double>(random() % 20) / 10;
    }
    const auto speed = [&](int a, int b) {
      double n_tokens = static_cast<double>(n_rows);
      const int used[] = {a, b};
      for (size_t i = 0; i < 2; ++i) {
        double chance = 1;
        for (int k = 0; k < used[i]; ++k) {
          chance *= offers[i].rate;
          n_tokens += chance;
        }
      }
      return n_tokens / (base + static_cast<double>(n_rows) + a * (1 + offers[0].rows_each) +
                         b * (1 + offers[1].rows_each));
    };
    double best = 0;
    for (int a = 0; a <= offers[0].n_offered; ++a) {
      for (int b = 0; b <= offers[1].n_offered; ++b) {
        best = std::max(best, speed(a, b));
      }
    }
    choose_draft_lengths(base, n_rows, 100, offers);
    EXPECT_NEAR(speed(offers[0].n_used, offers[1].n_used), best, 1e-9);
  }
}

TEST(DraftLength, step_that_computes_all_the_time_takes_no_drafts) {
  std::vector<DraftOffer> offers(4, {.rate = 0.95, .n_offered = 8});
  choose_draft_lengths(0, 4, 100, offers);
  for (const DraftOffer& offer : offers) {
    EXPECT_EQ(offer.n_used, 0);
  }
  choose_draft_lengths(20, 4, 100, offers);
  EXPECT_GT(offers[0].n_used, 1);
  choose_draft_lengths(20, 4, 3, offers);
  int n_used = 0;
  for (const DraftOffer& offer : offers) {
    n_used += offer.n_used;
  }
  EXPECT_EQ(n_used, 3);
}

}  // namespace
}  // namespace millrace
