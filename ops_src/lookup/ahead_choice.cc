#include "lookup/ahead_choice.h"

#include <algorithm>

namespace graph_opt {
namespace {

// Of so many batches one is pooled ahead whatever is known, at first and at last. That batch, and
// the updates that it has to be compared with, cost about three hundredths of 128 steps.
constexpr int64_t kFirstBetweenTrials = 128;
constexpr int64_t kLastBetweenTrials = 1024;
// Weight of one batch in what is known of a table.
constexpr double kWeight = 0.25;
// To look for changed rows takes about a third of pooling, so a bag in four pays for it. A table
// comes back at a smaller share than that at which it goes, so that it does not go to and fro.
constexpr double kMostAgain = 0.25;
constexpr double kMostAgainToReturn = 0.15;

}  // namespace

AheadChoice::AheadChoice() : between_trials_(kFirstBetweenTrials) {}

std::vector<bool> AheadChoice::Choose(int num_tables) {
  std::lock_guard<std::mutex> lock(mutex_);
  Reserve(num_tables);
  const bool is_trial = until_trial_ == 0;
  if (is_trial) {
    until_trial_ = between_trials_;
    between_trials_ = std::min(2 * between_trials_, kLastBetweenTrials);
  }
  --until_trial_;
  std::vector<bool> ahead;
  for (int t = 0; t < num_tables; ++t) ahead.push_back(is_trial || tables_[t].is_ahead);
  return ahead;
}

void AheadChoice::Learn(int table, int64_t ahead, int64_t again) {
  if (ahead == 0) return;
  std::lock_guard<std::mutex> lock(mutex_);
  Reserve(table + 1);
  TableState& state = tables_[table];
  const double share = static_cast<double>(again) / static_cast<double>(ahead);
  state.share += kWeight * (share - state.share);
  if (state.is_ahead && state.share > kMostAgain) {
    state.is_ahead = false;
    TryOftenAgain();
  }
  if (state.is_ahead || share >= kMostAgainToReturn) return;
  state.is_ahead = state.share < kMostAgainToReturn;
  TryOftenAgain();
}

void AheadChoice::TryOftenAgain() {
  between_trials_ = kFirstBetweenTrials;
  until_trial_ = std::min(until_trial_, between_trials_);
}

void AheadChoice::Reserve(int num_tables) {
  if (tables_.size() < static_cast<size_t>(num_tables)) tables_.resize(num_tables);
}

}  // namespace graph_opt
