#include "packed/staged_rows.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace graph_opt {
namespace {

// Updates without an answer that are remembered one by one.
constexpr size_t kMostUnanswered = 16;

typedef std::vector<std::function<void()>> Callbacks;

void CallAll(const Callbacks& callbacks) {
  for (const auto& callback : callbacks) callback();
}

}  // namespace

// Of two losses, that which nobody knows of matters more.
void StagedBatch::Lose(Loss loss) {
  if (!TakesChanges()) return;
  if (state_ == State::kFollowed || loss == Loss::kUnreported) loss_ = loss;
  state_ = State::kLost;
}

void StagedBatch::FallBehind() {
  if (TakesChanges()) state_ = State::kBehind;
}

void StagedBatch::Replace(std::shared_ptr<StagedBatch> again, std::vector<Change> read) {
  if (state_ == State::kTaken) return;
  state_ = State::kReplaced;
  changes_.clear();
  read_ = std::move(read);
  again_ = std::move(again);
}

Taken StagedBatch::Take(std::vector<Change>* changes) {
  const State before = state_;
  state_ = State::kTaken;
  if (before == State::kReplaced) {
    *changes = std::move(read_);
    return again_->Take(changes);
  }
  if (before == State::kBehind || before == State::kTaken) {
    changes->clear();
    return Taken::kToBeAsked;
  }
  std::stable_sort(changes_.begin(), changes_.end(),
                   [](const Change& one, const Change& other) { return one.order < other.order; });
  std::move(changes_.begin(), changes_.end(), std::back_inserter(*changes));
  return loss_ == Loss::kUnreported ? Taken::kUnreported : Taken::kCurrent;
}

PendingUpdate::PendingUpdate(std::shared_ptr<StagedRows> staged, std::vector<RowsOfShard> parts,
                             std::shared_ptr<const void> memory, Loss if_dropped,
                             Parallel* parallel)
    : staged_(std::move(staged)),
      memory_(std::move(memory)),
      if_dropped_(if_dropped),
      parts_(parts.size()) {
  for (size_t i = 0; i < parts.size(); ++i) parts_[i].rows = std::move(parts[i]);
  parallel->Run(static_cast<int64_t>(parts_.size()), [&](int64_t i) {
    const RowsOfShard& rows = parts_[i].rows;
    if (rows.shard.empty() || rows.count == 0) return;
    parts_[i].set = RowSet(rows.count, rows.rows[rows.count - 1] + 1);
    for (int64_t j = 0; j < rows.count; ++j) parts_[i].set.Add(rows.rows[j]);
  });
}

PendingUpdate::~PendingUpdate() {
  if (!is_kept_) staged_->End(this);
}

// Calls visit(place in `rows`, place in the part) for each row of both, until it returns false.
template <typename Visit>
void ForEachCommon(const RowSet& set, const RowsOfShard& part, const RowsOfShard& rows,
                   Visit visit) {
  if (set.none()) return;
  const int64_t* next = part.rows;
  const int64_t* const end = part.rows + part.count;
  for (int64_t i = 0; i < rows.count; ++i) {
    if (!set.MayHave(rows.rows[i])) continue;
    next = std::lower_bound(next, end, rows.rows[i]);
    if (next == end) return;
    if (*next == rows.rows[i] && !visit(i, next - part.rows)) return;
  }
}

bool PendingUpdate::HasRowOf(const StagedBatch& batch) const {
  bool found = false;
  for (const RowsOfShard& rows : batch.parts()) {
    for (const Part& part : parts_) {
      if (found || part.rows.shard != rows.shard) continue;
      ForEachCommon(part.set, part.rows, rows, [&found](int64_t, int64_t) {
        found = true;
        return false;
      });
    }
  }
  return found;
}

bool PendingUpdate::HasBagsOfShardsOf(const StagedBatch& batch) const {
  std::vector<std::string> shards;
  for (const Part& part : parts_) {
    if (part.rows.is_of_bags) shards.push_back(part.rows.shard);
  }
  return StagedRows::HasShard(batch, shards);
}

std::vector<PendingUpdate::Common> PendingUpdate::CommonWith(
    const std::shared_ptr<StagedBatch>& batch) const {
  std::vector<Common> found;
  for (size_t i = 0; i < batch->parts().size(); ++i) {
    const RowsOfShard& rows = batch->parts()[i];
    for (size_t j = 0; j < parts_.size(); ++j) {
      if (parts_[j].rows.shard != rows.shard) continue;
      Common common{batch, static_cast<int>(i), static_cast<int>(j), {}, {}};
      ForEachCommon(parts_[j].set, parts_[j].rows, rows, [&common](int64_t place, int64_t row) {
        common.places.push_back(place);
        common.rows.push_back(row);
        return true;
      });
      if (!common.places.empty()) found.push_back(std::move(common));
    }
  }
  return found;
}

void PendingUpdate::FindCommon(const std::vector<std::shared_ptr<StagedBatch>>& batches,
                               Parallel* parallel) {
  std::vector<std::vector<Common>> found(batches.size());
  parallel->Run(static_cast<int64_t>(batches.size()),
                [&](int64_t i) { found[i] = CommonWith(batches[i]); });
  for (const Part& part : parts_) asked_.emplace_back(part.rows.count, false);
  for (std::vector<Common>& of_batch : found) {
    for (Common& common : of_batch) {
      for (int64_t row : common.rows) asked_[common.part][row] = true;
      common_.push_back(std::move(common));
    }
  }
}

void PendingUpdate::Keep(const std::vector<Answer>& answers) {
  std::vector<std::vector<int64_t>> answered(parts_.size());  // rows before each in the answer
  for (size_t i = 0; i < parts_.size(); ++i) {
    int64_t count = 0;
    for (bool asked : asked_[i]) {
      answered[i].push_back(count);
      count += asked;
    }
  }
  std::vector<StagedBatch::Change> changes;
  for (Common& common : common_) {
    const Answer& answer = answers[common.part];
    StagedBatch::Change change{
        answer.order, common.part_of_batch, std::move(common.places), {}, answer.memory};
    for (int64_t row : common.rows) {
      change.values.push_back(answer.rows + answered[common.part][row] * answer.row_bytes);
    }
    changes.push_back(std::move(change));
  }
  {
    std::lock_guard<std::mutex> lock(staged_->mutex_);
    for (size_t i = 0; i < changes.size(); ++i) {
      StagedBatch* batch = common_[i].batch.get();
      if (batch->TakesChanges()) batch->changes_.push_back(std::move(changes[i]));
    }
    is_kept_ = true;
  }
  staged_->End(this);
}

bool StagedRows::HasShard(const StagedBatch& batch, const std::vector<std::string>& shards) {
  const auto is_among = [&shards](const RowsOfShard& rows) {
    return !rows.shard.empty() &&
           std::find(shards.begin(), shards.end(), rows.shard) != shards.end();
  };
  return std::any_of(batch.parts().begin(), batch.parts().end(), is_among);
}

bool StagedRows::AsksAhead(const std::vector<RowsOfShard>& parts) {
  std::lock_guard<std::mutex> lock(mutex_);
  return std::none_of(parts.begin(), parts.end(),
                      [this](const RowsOfShard& rows) { return by_bags_.count(rows.shard) > 0; });
}

bool StagedRows::Stage(const std::shared_ptr<StagedBatch>& batch, std::function<void()> ready) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    batches_.push_back(batch);
    for (const Unanswered& one : unanswered_) {
      bool is_lost = one.of_any_rows;
      for (size_t i = 0; i < one.shards.size(); ++i) {
        for (const RowsOfShard& rows : batch->parts()) {
          if (rows.shard != one.shards[i]) continue;
          const RowSet& set = one.sets[i];
          is_lost |= std::any_of(rows.rows, rows.rows + rows.count,
                                 [&set](int64_t row) { return set.MayHave(row); });
        }
      }
      if (is_lost) batch->Lose(one.loss);
      if (HasShard(*batch, one.shards_of_bags)) batch->FallBehind();
    }
    for (PendingUpdate* update : pending_) {
      if (update->HasBagsOfShardsOf(*batch)) batch->FallBehind();
      if (!update->HasRowOf(*batch)) continue;
      update->waiting_.push_back(batch);
      ++batch->waits_for_;
    }
    if (batch->waits_for_ > 0) {
      if (!batch->may_wait_) return false;
      batch->ready_ = std::move(ready);
      return true;
    }
  }
  ready();
  return true;
}

bool StagedRows::StopWaiting(const std::shared_ptr<StagedBatch>& batch) {
  std::lock_guard<std::mutex> lock(mutex_);
  const bool waits = batch->ready_ != nullptr;
  batch->ready_ = nullptr;
  batch->may_wait_ = false;
  return waits;
}

std::shared_ptr<PendingUpdate> StagedRows::Begin(std::vector<RowsOfShard> parts,
                                                 std::shared_ptr<const void> memory,
                                                 Loss if_dropped, Parallel* parallel) {
  std::shared_ptr<PendingUpdate> update(new PendingUpdate(shared_from_this(), std::move(parts),
                                                          std::move(memory), if_dropped, parallel));
  std::vector<std::shared_ptr<StagedBatch>> batches;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    pending_.push_back(update.get());
    for (const PendingUpdate::Part& part : update->parts_) {
      ++writes_[part.rows.shard];
      if (part.rows.is_of_bags) {
        by_bags_.insert(part.rows.shard);
      } else {
        by_bags_.erase(part.rows.shard);
      }
    }
    std::vector<std::weak_ptr<StagedBatch>> left;
    for (const std::weak_ptr<StagedBatch>& weak : batches_) {
      std::shared_ptr<StagedBatch> batch = weak.lock();
      if (batch == nullptr || batch->state_ == StagedBatch::State::kTaken) continue;
      left.push_back(weak);
      if (update->HasBagsOfShardsOf(*batch)) batch->FallBehind();
      if (batch->TakesChanges()) batches.push_back(std::move(batch));
    }
    batches_ = std::move(left);
  }
  update->FindCommon(batches, parallel);
  return update;
}

int64_t StagedRows::NumWrites(const std::vector<std::string>& shards) {
  std::lock_guard<std::mutex> lock(mutex_);
  return CountWrites(shards);
}

int64_t StagedRows::NumWritesWith(int num_under_way, const std::vector<std::string>& shards) {
  std::lock_guard<std::mutex> lock(mutex_);
  const std::set<std::string> names(shards.begin(), shards.end());
  const auto writes =
      std::count_if(pending_.begin(), pending_.end(), [&names](const PendingUpdate* update) {
        return std::any_of(
            update->parts_.begin(), update->parts_.end(),
            [&names](const PendingUpdate::Part& part) { return names.count(part.rows.shard) > 0; });
      });
  return writes == num_under_way && unanswered_.empty() ? CountWrites(shards) : -1;
}

int64_t StagedRows::CountWrites(const std::vector<std::string>& shards) const {
  int64_t count = writes_of_any_;
  for (const std::string& shard : shards) {
    const auto found = writes_.find(shard);
    if (found != writes_.end()) count += found->second;
  }
  return count;
}

void StagedRows::BeginStep() {
  std::lock_guard<std::mutex> lock(mutex_);
  unanswered_.erase(
      std::remove_if(unanswered_.begin(), unanswered_.end(),
                     [](const Unanswered& one) { return one.loss == Loss::kUnreported; }),
      unanswered_.end());
}

Taken StagedRows::Take(const std::shared_ptr<StagedBatch>& batch,
                       std::vector<StagedBatch::Change>* changes) {
  std::lock_guard<std::mutex> lock(mutex_);
  changes->clear();
  return batch->Take(changes);
}

void StagedRows::Restart() {
  std::lock_guard<std::mutex> lock(mutex_);
  unanswered_.clear();
  ++writes_of_any_;
}

void StagedRows::LoseAll() {
  std::lock_guard<std::mutex> lock(mutex_);
  ++writes_of_any_;
  for (const std::weak_ptr<StagedBatch>& weak : batches_) {
    if (std::shared_ptr<StagedBatch> batch = weak.lock()) batch->Lose(Loss::kWritten);
  }
}

LostBatch StagedRows::FindLost(const std::string& lookup, const std::vector<std::string>& shards) {
  const auto is_of_shard = [](const RowsOfShard& rows, const std::string& shard) {
    return rows.shard == shard;
  };
  std::lock_guard<std::mutex> lock(mutex_);
  unanswered_.clear();
  LostBatch lost;
  for (const std::weak_ptr<StagedBatch>& weak : batches_) {
    lost.batch = weak.lock();
    if (lost.batch == nullptr || lost.batch->is_again_) continue;
    const std::vector<RowsOfShard>& parts = lost.batch->parts();
    const bool has_these = lost.batch->lookup_ == lookup && parts.size() == shards.size() &&
                           std::equal(parts.begin(), parts.end(), shards.begin(), is_of_shard);
    const StagedBatch& read = lost.batch->again_ == nullptr ? *lost.batch : *lost.batch->again_;
    if (!has_these || read.state_ != StagedBatch::State::kLost) continue;
    lost.loss = read.loss_;
    lost.again = std::make_shared<StagedBatch>(lookup, parts, lost.batch->memory_, true);
    return lost;
  }
  return LostBatch();
}

void StagedRows::Replace(const LostBatch& lost, const std::vector<ReadRows>& read,
                         std::shared_ptr<const void> memory) {
  std::vector<StagedBatch::Change> changes;
  for (size_t i = 0; i < read.size(); ++i) {
    const int64_t count = lost.batch->parts()[i].count;
    StagedBatch::Change change{0, static_cast<int>(i), {}, {}, memory};
    for (int64_t row = 0; row < count; ++row) {
      change.places.push_back(row);
      change.values.push_back(read[i].rows + row * read[i].row_bytes);
    }
    if (count > 0) changes.push_back(std::move(change));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  lost.batch->Replace(lost.again, std::move(changes));
}

void StagedRows::Remember(PendingUpdate* update) {
  Unanswered one;
  one.loss = update->if_dropped_;
  one.of_any_rows = unanswered_.size() >= kMostUnanswered;
  for (PendingUpdate::Part& part : update->parts_) {
    if (part.rows.is_of_bags) one.shards_of_bags.push_back(part.rows.shard);
    if (part.set.none() || one.of_any_rows) continue;
    one.shards.push_back(part.rows.shard);
    one.sets.push_back(std::move(part.set));
  }
  if (one.of_any_rows) unanswered_.clear();
  unanswered_.push_back(std::move(one));
}

void StagedRows::End(PendingUpdate* update) {
  Callbacks ready;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    pending_.erase(std::remove(pending_.begin(), pending_.end(), update), pending_.end());
    if (!update->is_kept_) {
      for (const PendingUpdate::Common& common : update->common_) {
        common.batch->Lose(update->if_dropped_);
      }
      Remember(update);
    }
    for (const std::shared_ptr<StagedBatch>& batch : update->waiting_) {
      if (!update->is_kept_) batch->Lose(update->if_dropped_);
      if (--batch->waits_for_ > 0 || batch->ready_ == nullptr) continue;
      ready.push_back(std::move(batch->ready_));
      batch->ready_ = nullptr;
    }
    update->waiting_.clear();
  }
  CallAll(ready);
}

}  // namespace graph_opt
