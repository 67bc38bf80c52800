#ifndef GRAPH_OPT_DEFERRED_ROW_CATCH_UP_H_
#define GRAPH_OPT_DEFERRED_ROW_CATCH_UP_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "deferred/deferred_rows.h"

namespace graph_opt {

// One thread's work on the rows of one shard: catches them up to the step that has ended last.
class RowCatchUp {
 public:
  static constexpr int64_t kRowsAtOnce = 128;
  static constexpr int64_t kKnownAges = 256;

  // What becomes of rows whose slots are found to be 0, or were before.
  enum class Rest { kAllowed, kEnded };

  // The shard's rows are not null. `kernels` outlive this. Of what is read, `needs` says which rows
  // are left alone.
  RowCatchUp(const DeferredShard& shard, std::shared_ptr<const PassedSteps> passed,
             const RowKernels& kernels, Rest rest = Rest::kAllowed,
             DeferredNeeds needs = DeferredNeeds::kAll);

  // At most kRowsAtOnce rows, all of the shard. Rows that another thread has locked are waited for,
  // but not with locks in hand.
  void CatchUp(const int64_t* rows, int64_t count);

  // Locks at most kRowsAtOnce rows, each once, and catches them up. Only one thread may hold
  // locks of the same rows so.
  void LockAndCatchUp(const int64_t* rows, int64_t count);

 private:
  bool IsWanted(RowStamps::Stamp stamp) const;
  void Add(int64_t row, RowStamps::Stamp stamp);
  IdleRow RowOfAge(int64_t age);
  void CatchUpAdded();

  const DeferredShard shard_;
  RowStamps* const stamps_;
  const std::shared_ptr<const PassedSteps> passed_;
  const RowKernels& kernels_;
  const Rest rest_;
  const uint32_t needed_;      // rows of this step, or later, are left alone
  std::vector<IdleRow> rows_;  // locked by this, and behind
  std::vector<IdleSpan> spans_;
  // Rows that missed as many steps differ in nothing but their place. By age, the place in `known_`
  // of such a row; 0 if there is none.
  uint16_t known_places_[kKnownAges] = {};
  std::vector<IdleRow> known_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_DEFERRED_ROW_CATCH_UP_H_
