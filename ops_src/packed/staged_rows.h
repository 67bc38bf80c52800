#ifndef GRAPH_OPT_PACKED_STAGED_ROWS_H_
#define GRAPH_OPT_PACKED_STAGED_ROWS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "lookup/parallel.h"
#include "lookup/row_set.h"

namespace graph_opt {

class StagedRows;
class PendingUpdate;

// Rows of one shard, ascending, each once.
struct RowsOfShard {
  std::string shard;  // its server and name; "": nobody keeps it up to date
  const int64_t* rows = nullptr;
  int64_t count = 0;
  bool is_of_bags = false;  // an update by bags, whose rows only the server finds; none are given
};

// Why it is not known what has become of rows that were sent.
enum class Loss {
  kNone,
  kUnanswered,  // the step of an update failed before the answer had come
  kWritten,     // something else wrote tables
  kUnreported,  // an update does not ask: nobody knows of the loss
};

// What a step that takes a batch knows of the rows that were sent for it.
enum class Taken {
  kCurrent,     // they are current once the changes are made
  kToBeAsked,   // servers must be asked for them anew, by the step
  kUnreported,  // nobody has known that they were lost
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

  // `lookup` is what they are for. `memory` is where the rows are. With `is_again` they are another
  // batch's, read again.
  StagedBatch(std::string lookup, std::vector<RowsOfShard> parts,
              std::shared_ptr<const void> memory, bool is_again = false)
      : lookup_(std::move(lookup)),
        parts_(std::move(parts)),
        memory_(std::move(memory)),
        is_again_(is_again) {}

  const std::vector<RowsOfShard>& parts() const { return parts_; }

 private:
  friend class StagedRows;
  friend class PendingUpdate;

  // What is known of the rows that were sent:
  //
  //   kFollowed ─ Lose ─> kLost              FallBehind, from both ─> kBehind
  //   kFollowed, kLost, kBehind, kReplaced   Replace ─> kReplaced
  //   any                                    Take ─> kTaken
  enum class State {
    kFollowed,  // they are current once the changes are made
    kLost,      // that is not known, by `loss_`
    kBehind,    // an update by bags may have written some
    kReplaced,  // `again_` was sent others, and knows of these
    kTaken,     // a step has them
  };

  bool TakesChanges() const { return state_ == State::kFollowed || state_ == State::kLost; }
  void Lose(Loss loss);
  void FallBehind();
  void Replace(std::shared_ptr<StagedBatch> again, std::vector<Change> read);
  Taken Take(std::vector<Change>* changes);

  const std::string lookup_;
  const std::vector<RowsOfShard> parts_;
  const std::shared_ptr<const void> memory_;
  const bool is_again_;
  // Under the lock of the StagedRows:
  State state_ = State::kFollowed;
  Loss loss_ = Loss::kNone;
  std::vector<Change> changes_;
  std::shared_ptr<StagedBatch> again_;
  std::vector<Change> read_;  // what `again_` was sent
  int waits_for_ = 0;         // updates under way
  std::function<void()> ready_;
  bool may_wait_ = true;
};

// An update of rows on servers, from before it is sent until its answers are there. An answer has
// the new values of rows that staged batches were sent before, in the order of `asked`. If this is
// destroyed before, such batches are lost.
class PendingUpdate {
 public:
  ~PendingUpdate();

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

  PendingUpdate(std::shared_ptr<StagedRows> staged, std::vector<RowsOfShard> parts,
                std::shared_ptr<const void> memory, Loss if_dropped, Parallel* parallel);

  std::vector<Common> CommonWith(const std::shared_ptr<StagedBatch>& batch) const;
  bool HasRowOf(const StagedBatch& batch) const;
  bool HasBagsOfShardsOf(const StagedBatch& batch) const;
  void FindCommon(const std::vector<std::shared_ptr<StagedBatch>>& batches, Parallel* parallel);

  const std::shared_ptr<StagedRows> staged_;
  const std::shared_ptr<const void> memory_;
  const Loss if_dropped_;
  std::vector<Part> parts_;
  std::vector<Common> common_;
  std::vector<std::vector<bool>> asked_;
  bool is_kept_ = false;
  std::vector<std::shared_ptr<StagedBatch>> waiting_;  // under the lock of the StagedRows
};

// A batch that is lost, and one to read its rows again for it.
struct LostBatch {
  Loss loss = Loss::kNone;  // kNone: there is none
  std::shared_ptr<StagedBatch> batch;
  std::shared_ptr<StagedBatch> again;
};

// The batches of a worker that run ahead with rows of servers, and its updates of these. So that a
// batch misses no update of this worker:
//
//   stage    Stage ─> request ═══════════╗ server ══> rows, staged ............... Take: changes
//   update   Begin: asks for common rows ═══════════════> server ══> answer ─> Keep
//
// An update asks for the rows of all batches that were staged before it began. A batch that is
// staged while an update is under way, and has one of its rows, is not asked for before the answer
// has come. A batch of which that is not known is lost, and its rows are staged again:
//
//   again    FindLost, Stage ─> request ═════════════════ server ══> rows ─> Replace
//
// An update by bags does not know its rows, so a batch that was staged before it ended, and has
// rows of the same shard, is asked for anew by the step that takes it. Batches of shards that are
// updated so had better not be asked for ahead of that step (AsksAhead), until an update by rows
// has begun: else two lookups of a table, one by rows and one by bags, would read twice.
class StagedRows : public std::enable_shared_from_this<StagedRows> {
 public:
  // Whether a batch of these shards is likely to be current when a step takes it.
  bool AsksAhead(const std::vector<RowsOfShard>& parts);

  // Calls `ready` once the batch may be asked for: now, or in a thread that ends an update. Returns
  // false, and does not call it, if the batch has to wait and StopWaiting has come before.
  bool Stage(const std::shared_ptr<StagedBatch>& batch, std::function<void()> ready);

  // Ends such a wait, or that of a batch that is about to be staged. False if there is none yet,
  // or `ready` was called, or is about to be.
  bool StopWaiting(const std::shared_ptr<StagedBatch>& batch);

  // Begins an update of rows, which stay where they are in `memory`. Batches with such rows are
  // lost by `if_dropped` if it ends without being kept.
  std::shared_ptr<PendingUpdate> Begin(std::vector<RowsOfShard> parts,
                                       std::shared_ptr<const void> memory, Loss if_dropped,
                                       Parallel* parallel);

  // A number that grows with each update of these shards that begins, and with other writes.
  int64_t NumWrites(const std::vector<std::string>& shards);

  // The same, if so many updates of these shards are under way and all before them have been
  // answered; otherwise -1.
  int64_t NumWritesWith(int num_under_way, const std::vector<std::string>& shards);

  // A step takes a batch, so the one before is over.
  void BeginStep();

  // The changes of a batch, in order, which gets no more. A current batch that is still lost is
  // used by a step that overlaps the one that lost it, and may be as if it had read its rows
  // before.
  Taken Take(const std::shared_ptr<StagedBatch>& batch, std::vector<StagedBatch::Change>* changes);

  // No step is under way.
  void Restart();

  // Loses all batches: something else wrote tables.
  void LoseAll();

  // A lost batch of a lookup of these shards. The steps that lost it are over.
  LostBatch FindLost(const std::string& lookup, const std::vector<std::string>& shards);

  // What was read again for each part of a batch: its rows, of so many bytes each.
  struct ReadRows {
    const char* rows;
    int64_t row_bytes;
  };

  // Puts what was read in the place of a lost batch's rows. It stays where it is in `memory`.
  void Replace(const LostBatch& lost, const std::vector<ReadRows>& read,
               std::shared_ptr<const void> memory);

 private:
  friend class PendingUpdate;

  // An update of which no answer came, and which servers may apply until its step is over.
  struct Unanswered {
    Loss loss;
    bool of_any_rows;
    std::vector<std::string> shards;
    std::vector<RowSet> sets;
    std::vector<std::string> shards_of_bags;
  };

  static bool HasShard(const StagedBatch& batch, const std::vector<std::string>& shards);

  int64_t CountWrites(const std::vector<std::string>& shards) const;

  // Ends an update, and the waits for it.
  void End(PendingUpdate* update);
  void Remember(PendingUpdate* update);

  std::mutex mutex_;
  int64_t writes_of_any_ = 0;
  std::map<std::string, int64_t> writes_;  // of each shard
  std::vector<std::weak_ptr<StagedBatch>> batches_;
  std::vector<PendingUpdate*> pending_;
  std::vector<Unanswered> unanswered_;
  std::set<std::string> by_bags_;  // shards of which the last update was by bags
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_PACKED_STAGED_ROWS_H_
