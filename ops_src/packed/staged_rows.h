#ifndef GRAPH_OPT_PACKED_STAGED_ROWS_H_
#define GRAPH_OPT_PACKED_STAGED_ROWS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lookup/parallel.h"
#include "lookup/row_set.h"

namespace graph_opt {

class StagedRows;
class UpdateUnderWay;

// Rows of one shard, ascending, each once.
struct RowsOfShard {
  std::string shard;  // its server and name; "": nobody keeps it up to date
  const int64_t* rows = nullptr;
  int64_t count = 0;
};

// The rows that servers send for a batch that runs ahead, and what updates have made of them since.
class StagedBatch {
 public:
  // New values of rows, by an update.
  struct Change {
    int64_t order;                    // of all changes that the same server made
    int part;                         // of the batch's rows
    std::vector<int64_t> places;      // among the rows of that part
    std::vector<const char*> values;  // of each, in `answer`
    std::shared_ptr<const void> answer;
  };

  // `memory` is where the rows are.
  StagedBatch(std::vector<RowsOfShard> parts, std::shared_ptr<const void> memory)
      : parts_(std::move(parts)), memory_(std::move(memory)) {}

  const std::vector<RowsOfShard>& parts() const { return parts_; }

 private:
  friend class StagedRows;
  friend class UpdateUnderWay;

  const std::vector<RowsOfShard> parts_;
  const std::shared_ptr<const void> memory_;
  // Under the lock of the StagedRows:
  std::vector<Change> changes_;
  bool is_lost_ = false;  // some row was changed, and its value did not come
  bool is_taken_ = false;
  int waits_for_ = 0;  // updates under way
  std::function<void()> ready_;
};

// An update of rows on servers, from before it is sent until its answers are there. An answer has
// the new values of rows that staged batches were sent before, in the order of `asked`. If this is
// destroyed before, such batches are lost.
class UpdateUnderWay {
 public:
  ~UpdateUnderWay();

  // For each row of a part of the update, whether its new value is asked for.
  const std::vector<std::vector<bool>>& asked() const { return asked_; }

  // The answer for a part of the update: the rows asked for, of `row_bytes` each.
  struct Answer {
    int64_t order;
    const char* rows;
    int64_t row_bytes;
    std::shared_ptr<const void> memory;
  };

  // Gives batches their new rows, by the answers for all parts.
  void Keep(const std::vector<Answer>& answers);

 private:
  friend class StagedRows;

  // Rows that a batch has in common with the update.
  struct Common {
    std::shared_ptr<StagedBatch> batch;
    int part_of_batch;
    int part;
    std::vector<int64_t> places;  // in the batch
    std::vector<int64_t> rows;    // places in the update
  };

  struct Part {
    RowsOfShard rows;
    RowSet set;
  };

  UpdateUnderWay(std::shared_ptr<StagedRows> staged, std::vector<RowsOfShard> parts,
                 std::shared_ptr<const void> memory, Parallel* parallel);

  std::vector<Common> CommonWith(const std::shared_ptr<StagedBatch>& batch) const;
  bool HasRowOf(const StagedBatch& batch) const;
  void FindCommon(const std::vector<std::shared_ptr<StagedBatch>>& batches, Parallel* parallel);

  const std::shared_ptr<StagedRows> staged_;
  const std::shared_ptr<const void> memory_;
  std::vector<Part> parts_;
  std::vector<Common> common_;
  std::vector<std::vector<bool>> asked_;
  bool is_kept_ = false;
  std::vector<std::shared_ptr<StagedBatch>> waiting_;  // under the lock of the StagedRows
};

// The batches of a worker that run ahead with rows of servers, and its updates of these. So that a
// batch misses no update of this worker:
//
//   stage    Stage ─> request ═══════════╗ server ══> rows, staged ............... Take: changes
//   update   Begin: asks for common rows ═══════════════> server ══> answer ─> Keep
//
// An update asks for the rows of all batches that were staged before it began. A batch that is
// staged while an update is under way, and has one of its rows, is not asked for before the answer
// has come.
class StagedRows : public std::enable_shared_from_this<StagedRows> {
 public:
  // Calls `ready` once the batch may be asked for: now, or in a thread that ends an update.
  void Stage(const std::shared_ptr<StagedBatch>& batch, std::function<void()> ready);

  // Ends such a wait. False if `ready` was called, or is about to be.
  bool StopWaiting(const std::shared_ptr<StagedBatch>& batch);

  // Begins an update of rows, which stay where they are in `memory`.
  std::shared_ptr<UpdateUnderWay> Begin(std::vector<RowsOfShard> parts,
                                        std::shared_ptr<const void> memory, Parallel* parallel);

  // The changes of a batch, in order, which gets no more. False if it is lost.
  bool Take(const std::shared_ptr<StagedBatch>& batch, std::vector<StagedBatch::Change>* changes);

  // No step is under way.
  void Restart();

  // Loses all batches: something else wrote tables.
  void LoseAll();

 private:
  friend class UpdateUnderWay;

  // An update of which no answer came, and which servers may apply until its step is over.
  struct Unanswered {
    bool of_any_rows;
    std::vector<std::string> shards;
    std::vector<RowSet> sets;
  };

  // Ends an update, and the waits for it.
  void End(UpdateUnderWay* update);
  void Remember(UpdateUnderWay* update);

  std::mutex mutex_;
  std::vector<std::weak_ptr<StagedBatch>> batches_;
  std::vector<UpdateUnderWay*> under_way_;
  std::vector<Unanswered> unanswered_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_PACKED_STAGED_ROWS_H_
