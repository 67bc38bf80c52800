// What checkpoints need of a dynamic table: which rows have changed, and keys in buckets.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "dynamic/key_buckets.h"
#include "dynamic_tables_testing.h"

namespace graph_opt {
namespace {

void Update(DynamicTable* table, const Numbers& keys) {
  const FoundRows found = FindAll(table, keys, Purpose::kRead);
  const DynamicTable::ReadLock lock(table);
  table->WillWrite(found.rows.data(), found.rows.size());
}

std::shared_ptr<TableSnapshot> SnapshotOfChanges(DynamicTable* table) {
  SnapshotPart part;
  part.changes = true;
  return table->Snapshot(part);
}

std::set<int64_t> Changed(DynamicTable* table) {
  const SnapshotContents changed(SnapshotOfChanges(table).get(), table->dim());
  return std::set<int64_t>(changed.keys.begin(), changed.keys.end());
}

std::set<int64_t> Removed(DynamicTable* table) {
  const auto keys = SnapshotOfChanges(table)->removed_keys();
  return std::set<int64_t>(keys.begin(), keys.end());
}

std::unique_ptr<DynamicTable> Table() {
  std::unique_ptr<DynamicTable> table(new DynamicTable(Options(2)));
  Check(table->Initialize(nullptr, 0).ok(), "the table is initialized");
  return table;
}

void TestChanges() {
  const auto table = Table();
  FindAll(table.get(), {1, 2, 3, 4});
  Check(!table->tracks_changes(), "nothing is tracked before a checkpoint");
  Check(Changed(table.get()).size() == 4, "all rows are new");

  table->BeginCheckpoint();
  Update(table.get(), {1});  // while it is written
  table->EndCheckpoint();
  Check(Changed(table.get()) == std::set<int64_t>{1}, "what changes meanwhile has changed");

  table->set_step(7);
  Update(table.get(), {2});
  FindAll(table.get(), {3, 9});
  Erase(table.get(), {4, 77});
  Check((Changed(table.get()) == std::set<int64_t>{1, 2, 9}), "updates and new rows are changes");
  Check(Removed(table.get()) == std::set<int64_t>{4}, "keys without a row were not removed");
  Check(VersionsOf(*table, {2}) == Numbers({7}), "the step is kept beside");

  table->BeginCheckpoint();  // which fails
  Update(table.get(), {3});
  table->BeginCheckpoint();
  Check((Changed(table.get()) == std::set<int64_t>{1, 2, 3, 9}), "nothing is forgotten");
  Check(Removed(table.get()) == std::set<int64_t>{4}, "nor a key");
  table->EndCheckpoint();
  Check(Changed(table.get()).empty() && Removed(table.get()).empty(), "all is written");

  table->Clear();
  Check(!table->tracks_changes(), "there is nothing to count changes from");
}

// Rows change while checkpoints begin and end: none is lost.
void TestChangesFromThreads() {
  const auto table = Table();
  Numbers keys(1000);
  for (size_t k = 0; k < keys.size(); ++k) keys[k] = static_cast<int64_t>(k);
  const Numbers rows = FindAll(table.get(), keys).rows;
  std::thread checkpoints([&] {
    for (int i = 0; i < 50; ++i) {
      table->BeginCheckpoint();
      table->EndCheckpoint();
    }
  });
  for (int step = 0; step < 200; ++step) {
    const DynamicTable::ReadLock lock(table.get());
    table->set_step(step);
    table->WillWrite(rows.data(), rows.size());
  }
  checkpoints.join();
  table->BeginCheckpoint();
  table->EndCheckpoint();
  const Numbers versions = VersionsOf(*table, keys);
  Check(*std::min_element(versions.begin(), versions.end()) == 199, "steps stay what they were");
  Check(Changed(table.get()).empty(), "all is written");
}

void TestBuckets() {
  std::mt19937_64 random(1);
  Numbers keys = {0,
                  -1,
                  999,
                  1000,
                  -1000,
                  std::numeric_limits<int64_t>::min(),
                  std::numeric_limits<int64_t>::max()};
  for (int k = 0; k < 5000; ++k) keys.push_back(static_cast<int64_t>(random()));
  const BucketOrder order(keys.data(), keys.size());
  Numbers sorted(keys.size());
  for (size_t k = 0; k < keys.size(); ++k) sorted[order.places()[k]] = keys[k];
  std::vector<int32_t> offsets(order.offsets().begin(), order.offsets().end());
  Check(AreOffsetsOf(offsets.data(), keys.size()), "offsets fit the keys");
  Check(!AreOffsetsOf(offsets.data(), keys.size() + 1), "and not others");
  for (const KeyOwner::Rule rule : {KeyOwner::kBucket, KeyOwner::kRemainder}) {
    for (int64_t parts : {1, 2, 3, 7, 8, 1000, 1500}) {
      size_t found = 0;
      for (int64_t part = 0; part < parts; ++part) {
        const KeyOwner owner{rule, part, parts};
        for (const PlaceRange& range : RangesOf(owner, offsets.data(), 100)) {
          Check(range.count > 0 && range.count <= 100, "ranges are not too long");
          for (int64_t i = 0; i < range.count; ++i) found += owner.Has(sorted[range.first + i]);
        }
      }
      Check(found == keys.size(), "each key is found once");
    }
  }
}

void TestASnapshotKeepsWhatIsCleared() {
  const Numbers keys = {5, -3, 1200};
  for (bool anew : {false, true}) {
    const std::unique_ptr<DynamicTable> table = Table();
    const Numbers rows = FindAll(table.get(), keys, Purpose::kAdmit).rows;
    for (size_t i = 0; i < keys.size(); ++i) *Weights(table.get(), rows[i]) = keys[i];
    const auto snapshot = table->Snapshot();
    if (anew) {
      Check(table->Initialize(nullptr, 0).ok(), "the table begins anew");
    } else {
      table->Clear();
    }
    FindAll(table.get(), {7, 8, 9}, Purpose::kAdmit);
    const SnapshotContents kept(snapshot.get(), 2);
    for (int i = 0; i < 3; ++i) Check(kept.weights[2 * i] == kept.keys[i], "rows of that moment");
    Check(std::set<int64_t>(kept.keys.begin(), kept.keys.end()) == std::set<int64_t>({-3, 5, 1200}),
          "keys");
  }
}

}  // namespace
}  // namespace graph_opt

int main() {
  graph_opt::TestChanges();
  graph_opt::TestChangesFromThreads();
  graph_opt::TestBuckets();
  graph_opt::TestASnapshotKeepsWhatIsCleared();
  return 0;
}
