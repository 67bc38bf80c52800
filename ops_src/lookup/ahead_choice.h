#ifndef GRAPH_OPT_LOOKUP_AHEAD_CHOICE_H_
#define GRAPH_OPT_LOOKUP_AHEAD_CHOICE_H_

#include <cstdint>
#include <mutex>
#include <vector>

namespace graph_opt {

// Chooses of which tables bags are pooled ahead of the step that needs them. Where updates write a
// row of many of them before that step, to pool them ahead is in vain: the step pools them again,
// and is faster if it pools all in one go. Every now and then a table is pooled ahead all the same,
// which tells whether it has become worth it: ever more rarely, until something changes.
class AheadChoice {
 public:
  AheadChoice();

  // For each of so many tables, whether the bags of the next batch are pooled ahead. Any thread may
  // call it.
  std::vector<bool> Choose(int num_tables);

  // How many bags of a table were pooled ahead for a batch, and how many of them were to be pooled
  // again.
  void Learn(int table, int64_t ahead, int64_t again);

 private:
  struct TableState {
    double share = 0;  // of bags to be pooled again, over the last batches
    bool is_ahead = true;
  };

  void Reserve(int num_tables);
  void TryOftenAgain();

  std::mutex mutex_;
  int64_t until_trial_ = 0;         // batches; guarded by mutex_
  int64_t between_trials_;          // guarded by mutex_
  std::vector<TableState> tables_;  // guarded by mutex_
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_LOOKUP_AHEAD_CHOICE_H_
