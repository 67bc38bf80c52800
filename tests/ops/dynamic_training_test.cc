// Dynamic tables that several threads train as the group ops do, while others save, evict, give
// slots and compact, without TensorFlow: above all for ThreadSanitizer.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "apply/group_apply.h"
#include "dynamic/read_locks.h"
#include "dynamic_tables_testing.h"
#include "lookup/group_lookup.h"
#include "optimizers/optimizer.h"

namespace graph_opt {
namespace {

constexpr int kTrainers = 3;
constexpr int kSteps = 120;
constexpr int64_t kDim = 4;
constexpr int64_t kFrequentKeys = 200;  // of each trainer; they are never evicted

Optimizer GradientDescent() {
  const float learning_rate = 1;
  Optimizer optimizer;
  Check(graph_opt_make_optimizer("GradientDescent", &learning_rate, 1, nullptr, 0, &optimizer) ==
            nullptr,
        "an optimizer");
  return optimizer;
}

// Rows of a batch, one in each bag.
Bags BagsOf(const Numbers& rows) {
  Bags bags;
  bags.layout = Bags::kDense;
  bags.combiner = Combiner::kSum;
  bags.wide_ids = true;
  bags.ids = rows.data();
  bags.num_ids = bags.num_bags = static_cast<int64_t>(rows.size());
  bags.width = 1;
  bags.safe = false;
  return bags;
}

// What rows have in columns, which is the same in each.
void LookUp(const DynamicTable& table, const Numbers& rows, Parallel* parallel) {
  const DynamicTable::Rows places = table.rows();
  std::vector<Table> tables(1);
  tables[0].shards = TableShards(Partition::kMod, {places.end});
  tables[0].data = {places.base};
  tables[0].strides = {places.stride};
  tables[0].dim = kDim;
  Floats pooled(rows.size() * kDim);
  std::vector<Lookup> lookups(1);
  lookups[0].bags = BagsOf(rows);
  lookups[0].pooled = pooled.data();
  lookups[0].pooled_stride = kDim;
  Check(GroupLookup(tables, lookups, BestRowKernels(), parallel).kind == BagFault::kNone, "found");
  for (size_t i = 0; i < pooled.size(); ++i) Check(pooled[i] == pooled[i / kDim * kDim], "whole");
}

// Adds 1 to a row for each of its occurrences.
void Update(const DynamicTable& table, const Numbers& rows, Parallel* parallel) {
  const DynamicTable::Rows places = table.rows();
  std::vector<UpdatedTable> tables(1);
  tables[0].table.shards = TableShards(Partition::kMod, {places.end});
  tables[0].table.dim = kDim;
  UpdatedTable::Shard shard = {};
  shard.rows = reinterpret_cast<float*>(places.base);
  shard.stride = places.stride / static_cast<int64_t>(sizeof(float));
  shard.first_row = places.first_row;
  tables[0].shards.push_back(shard);
  const Floats gradients(rows.size() * kDim, -1.0f);
  std::vector<PooledGradient> lookups(1);
  lookups[0].bags = BagsOf(rows);
  lookups[0].gradients = gradients.data();
  lookups[0].stride = kDim;
  const BagFault fault = GroupApply(GradientDescent(), tables, lookups, BestRowKernels(), parallel);
  Check(fault.kind == BagFault::kNone, "updated");
}

// Keeps trainers within a few steps of each other. A lookup holds all rows that were found since it
// began. Should its trainer stand still while the others fill a table, the only rows that the table
// can give up would be the frequent ones that this lookup did not ask for.
class Pace {
 public:
  explicit Pace(int trainers) : steps_(trainers, 0) {}

  // Says that a trainer begins a step, and waits for those that are behind.
  void Begin(int trainer, int step) {
    std::unique_lock<std::mutex> lock(mutex_);
    steps_[trainer] = step;
    changed_.notify_all();
    changed_.wait(
        lock, [&] { return step - *std::min_element(steps_.begin(), steps_.end()) <= kMostAhead; });
  }

 private:
  static constexpr int kMostAhead = 4;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> steps_;  // guarded by mutex_
};

constexpr int Pace::kMostAhead;

// Each trainer has keys of its own, since updates of a row by several ops race by design. The first
// come again and again, the others once.
class Trainer {
 public:
  Trainer(std::vector<DynamicTable*> tables, int number, Pace* pace)
      : tables_(std::move(tables)), number_(number), pace_(pace), times_(kFrequentKeys, 0) {
    Numbers keys;
    for (int64_t i = 0; i < kFrequentKeys; ++i) keys.push_back(i * kTrainers + number_);
    const Numbers counts(kFrequentKeys, 1000);
    DynamicTable::Find find = FindOf(keys);
    find.counts = counts.data();
    FoundRows found;
    for (DynamicTable* table : tables_) Check(TryToFind(table, find, &found).ok(), "added");
  }

  void Train() {
    std::mt19937 random(number_);
    int64_t new_keys = kFrequentKeys;
    for (int step = 0; step < kSteps; ++step) {
      pace_->Begin(number_, step);
      Numbers keys;
      for (int64_t i = 0; i < kFrequentKeys; ++i) {
        if (random() % 2 == 0) continue;
        keys.push_back(i * kTrainers + number_);
        ++times_[i];
      }
      for (int i = 0; i < 50; ++i, ++new_keys)
        keys.resize(keys.size() + 2, new_keys * kTrainers + number_);
      Step(step, keys);
    }
    pace_->Begin(number_, kSteps);
  }

  void CheckRows() {
    for (DynamicTable* table : tables_) {
      for (int64_t i = 0; i < kFrequentKeys; ++i) {
        const FoundRows found = FindAll(table, {i * kTrainers + number_}, Purpose::kRead);
        Check(found.rows[0] >= table->rows().first_row, "frequent keys are not evicted");
        for (int64_t d = 0; d < kDim; ++d) {
          Check(Weights(table, found.rows[0])[d] == times_[i], "no update is lost");
        }
      }
    }
  }

 private:
  // Rows are found ahead of the step that needs them.
  void Step(int step, const Numbers& keys) {
    Threads threads(2);
    std::vector<FoundRows> found;
    for (DynamicTable* table : tables_) {
      found.push_back(FindAll(table, keys, Purpose::kInsert, 2));
    }
    ReadLocks locks;
    locks.Take({tables_.begin(), tables_.end()});
    for (size_t t = 0; t < tables_.size(); ++t) {
      LookUp(*tables_[t], found[t].rows, &threads);
      tables_[t]->set_step(step);
      tables_[t]->WillWrite(found[t].rows.data(), found[t].rows.size());
      Update(*tables_[t], found[t].rows, &threads);
    }
  }

  const std::vector<DynamicTable*> tables_;
  const int number_;
  Pace* const pace_;
  std::vector<int64_t> times_;
};

void Save(DynamicTable* table) {
  table->BeginCheckpoint();
  const auto snapshot = table->Snapshot();
  const std::vector<int64_t> begins = snapshot->SortByBucket(16);
  Check(begins.back() == snapshot->size(), "all of them");
  const SnapshotContents contents(snapshot.get(), kDim);
  for (size_t i = 0; i < contents.weights.size(); ++i) {
    Check(contents.weights[i] == contents.weights[i / kDim * kDim], "no row is torn");
  }
  table->EndCheckpoint();
}

void Maintain(DynamicTable* table, const std::atomic<bool>& done) {
  Sequential sequential;
  for (int round = 0; !done; ++round) {
    Save(table);
    if (round < 3) Check(table->AddSlot(std::to_string(round), 1, nullptr).ok(), "a slot");
    table->FillSlot(0, static_cast<float>(round));
    table->Compact();
    // Rounds go on while trainers wait for a core. By a later step, frequent rows would be too old.
    table->Evict(std::min(round, kSteps), &sequential, nullptr);
    const Numbers own = {-1, -2, -3};
    const Floats weights(own.size() * kDim, 5.0f);
    DynamicTable::Contents contents;
    contents.keys = own.data();
    contents.num_keys = 3;
    contents.weights = weights.data();
    Check(Import(table, contents).ok(), "imported");
    VersionsOf(*table, own);
    Erase(table, own);
    table->metrics();
  }
}

DynamicTableOptions OptionsIn(const std::string& folder) {
  DynamicTableOptions options = Options(kDim);
  options.stripes = 4;
  options.policies.eviction.order = EvictionOrder::kLfu;
  options.policies.eviction.capacity = 4 * kTrainers * kFrequentKeys;
  options.policies.eviction.steps_to_live = 10000;
  options.policies.tiers.folder = folder;
  options.policies.tiers.memory_bytes = 2048 * kDim * 4;
  return options;
}

void TestTraining(const std::string& folder) {
  DynamicTableOptions options = OptionsIn(folder);
  DynamicTable open(options);
  options.policies.admission.kind = Admission::kCounter;
  options.policies.admission.filter_freq = 2;
  DynamicTable filtered(options);
  const std::vector<DynamicTable*> tables = {&open, &filtered};
  const std::vector<DynamicTable*> turned = {&filtered, &open};
  for (DynamicTable* table : tables) Check(table->Initialize(nullptr, 0).ok(), "initialized");
  Pace pace(kTrainers);
  std::vector<Trainer> trainers;
  for (int i = 0; i < kTrainers; ++i) trainers.emplace_back(i % 2 == 1 ? turned : tables, i, &pace);
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (Trainer& trainer : trainers) threads.emplace_back([&trainer] { trainer.Train(); });
  std::vector<std::thread> others;
  for (DynamicTable* table : tables) {
    others.emplace_back([table, &done] { Maintain(table, done); });
  }
  for (std::thread& thread : threads) thread.join();
  done = true;
  for (std::thread& thread : others) thread.join();
  for (Trainer& trainer : trainers) trainer.CheckRows();
  for (DynamicTable* table : tables) {
    Check(table->metrics().evicted > 1000, "many were evicted");
    Check(table->metrics().found_in_file > 0, "rows were in the file");
  }
}

}  // namespace
}  // namespace graph_opt

int main() {
  char made[] = "/tmp/dynamic_training_XXXXXX";
  const std::string folder = mkdtemp(made);
  graph_opt::TestTraining(folder);
  if (rmdir(folder.c_str()) != 0) {
    std::fprintf(stderr, "failed: files are left in %s\n", folder.c_str());
    return 1;
  }
}
