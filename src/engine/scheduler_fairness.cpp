// Whose turn it is: the part of the scheduler that shares between clients by deficit round robin.
//
// What a client has had, divided by the quantum, is the round that it is in; those in the first
// round are served, in the order of their numbers. A client that has taken more than a quantum at
// once is in a later round and sits out those between: that is its deficit.
#include <algorithm>
#include <limits>
#include <tuple>

#include "base/check.h"
#include "engine/scheduler.h"

namespace millrace {

int64_t Scheduler::n_served(int64_t client) const {
  const auto found = shares_.find(client);
  return found == shares_.end() ? 0 : found->second.n_served;
}

int64_t Scheduler::round_of(const Entry& entry) const {
  return round_of(shares_.at(entry.client).n_served);
}

// kNoLimit when nobody waits.
int64_t Scheduler::first_waiting_round() const {
  int64_t first = kNoLimit;
  for (const auto& [client, share] : shares_) {
    first = share.n_waiting > 0 ? std::min(first, round_of(share.n_served)) : first;
  }
  return first;
}

// It comes to wait: no earlier than those that wait, or than anybody when nobody does.
void Scheduler::join_round(Share& share) {
  int64_t first = first_waiting_round();
  if (first == kNoLimit) {
    first = 0;
    for (const auto& [client, other] : shares_) {
      first = std::max(first, round_of(other.n_served));
    }
  }
  share.n_served = std::max(share.n_served, first * limits_.fair_quantum);
}

void Scheduler::charge(const Entry& entry, int64_t n_tokens) {
  if (is_fair()) {
    shares_.at(entry.client).n_served += n_tokens;
  }
}

// Nobody waits for what is computed later than they are.
bool Scheduler::may_wait_for(const Entry& other, const Entry& entry) const {
  return other.client == entry.client ? other.priority <= entry.priority
                                      : round_of(other) <= round_of(entry);
}

// Prompts in the order of rounds; those of later rounds than somebody waits in are held back until
// it is known what is admitted.
void Scheduler::order_prefills() {
  std::ranges::sort(prefills_, [&](const Prefill& a, const Prefill& b) {
    const int64_t round_a = round_of(*a.entry);
    const int64_t round_b = round_of(*b.entry);
    return round_a != round_b ? round_a < round_b : Before()(a.entry, b.entry);
  });
  const int64_t first = first_waiting_round();
  const auto end = std::ranges::find_if(
      prefills_, [&](const Prefill& prefill) { return round_of(*prefill.entry) > first; });
  held_back_.assign(end, prefills_.end());
}

// They get what is left, and their spans go in front of those that are admitted.
void Scheduler::grant_held_back(StepPlan& plan) {
  const auto n_before = std::ssize(plan.spans) - std::ssize(plan.admitted);
  const auto n_admitted = std::ssize(plan.admitted);
  for (const Prefill& prefill : held_back_) {
    if (add_span(plan, *prefill.entry, prefill.begin)) {
      SpanPlan& span = plan.spans.back();
      const int64_t n_missing = n_missing_blocks(*prefill.entry, span.begin + span.count);
      MR_CHECK(n_missing == 0, "sequence {} lacks {} blocks", span.sequence, n_missing);
      assign_blocks(plan, span, prefill.entry->blocks, 0);
    }
  }
  if (n_admitted > 0) {
    const auto admitted_last = [&](auto& of_spans) {
      std::rotate(
          of_spans.begin() + n_before, of_spans.begin() + n_before + n_admitted, of_spans.end());
    };
    admitted_last(plan.spans);
    admitted_last(planned_);
  }
}

// Those that may be looked at in this step: one of each client in the first round, then a second
// one, as long as its turn lasts if all of their tokens had to be computed.
void Scheduler::order_waiting() {
  order_.clear();
  turns_.clear();
  for (const auto& [client, share] : shares_) {
    if (share.n_waiting > 0) {
      turns_.push_back(
          {.client = client, .n_served = share.n_served, .next = waiting_.lower_bound(client)});
    }
  }
  const auto place = [&](const Turn& turn) {
    return std::tuple(round_of(turn.n_served), turn.n_taken, turn.client);
  };
  while (!turns_.empty() && std::ssize(order_) < limits_.max_sequences) {
    const auto turn = std::ranges::min_element(turns_, {}, place);
    const Entry* const entry = *turn->next++;
    order_.push_back(entry);
    turn->n_served += entry->n_known;
    ++turn->n_taken;
    if (turn->next == waiting_.end() || (*turn->next)->client != turn->client) {
      turns_.erase(turn);
    }
  }
}

bool Scheduler::check_shares() const {
  int64_t n_all = 0;
  for (const auto& [client, share] : shares_) {
    const auto [first, last] = waiting_.equal_range(client);
    if (std::distance(first, last) != share.n_waiting) {
      return false;
    }
    n_all += share.n_waiting;
  }
  return !is_fair() || n_all == n_waiting();
}

}  // namespace millrace
