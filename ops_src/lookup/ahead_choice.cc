#include "lookup/ahead_choice.h"

namespace graph_opt {
namespace {

// Of every so many batches one is pooled ahead whatever is known: it costs a hundredth at most.
constexpr int64_t kBatchesBetweenTrials = 128;
// Weight of one batch in what is known of a table.
constexpr double kWeight = 0.25;
// To look for changed rows takes about a third of pooling, so a bag in four pays for it. A table
// comes back at a smaller share than that at which it goes, so that it does not go to and fro.
constexpr double kMostAgain = 0.25;
constexpr double kMostAgainToReturn = 0.15;

}  // namespace

std::vector<bool> AheadChoice::Choose(int num_tables) {
  std::lock_guard<std::mutex> lock(mutex_);
  Reserve(num_tables);
  const bool is_trial = batches_++ % kBatchesBetweenTrials == 0;
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
  if (state.is_ahead && state.share > kMostAgain) state.is_ahead = false;
  if (!state.is_ahead && state.share < kMostAgainToReturn) state.is_ahead = true;
}

void AheadChoice::Reserve(int num_tables) {
  if (tables_.size() < static_cast<size_t>(num_tables)) tables_.resize(num_tables);
}

}  // namespace graph_opt
