// What checkpoints need of a dynamic table: which rows have changed, and keys in buckets.
#include <algorithm>
#include <chrono>
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
  part.keys = SnapshotPart::kChanged;
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
  for (const KeyOwners rule : {KeyOwners::kMod1000, KeyOwners::kMod}) {
    for (int parts : {1, 2, 3, 7, 8, 1000, 1500}) {
      size_t found = 0;
      for (int part = 0; part < parts; ++part) {
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

int64_t Now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

// A moment that what comes before and after it is told apart from, in units of a few microseconds.
int64_t Moment() {
  constexpr int64_t kApart = 16;
  const int64_t begin = Now();
  while (Now() < begin + kApart) continue;
  const int64_t moment = Now();
  while (Now() < moment + kApart) continue;
  return moment;
}

std::set<int64_t> Since(DynamicTable* table, int64_t time, bool written) {
  SnapshotPart part;
  part.keys = written ? SnapshotPart::kWritten : SnapshotPart::kTouched;
  part.time = time;
  const SnapshotContents touched(table->Snapshot(part).get(), table->dim());
  return std::set<int64_t>(touched.keys.begin(), touched.keys.end());
}

void TestTimes() {
  const auto table = Table();
  Check(!table->notes_times(), "a table without a clock knows no times");
  // Its stamps are halved after 20 ms.
  auto* const clock = new RowClock(((int64_t{1} << 30) - 2) / 4 * 3 - 20000);
  table->UseClock(std::unique_ptr<RowClock>(clock));
  Check(clock->shift() == 0, "a microsecond at first");
  std::vector<int64_t> moments;
  std::vector<Numbers> read, written;  // after each of the moments
  std::mt19937 random(1);
  for (int step = 0; step < 40 || clock->shift() == 0; ++step) {
    moments.push_back(Moment());
    read.emplace_back();
    written.emplace_back();
    const Numbers keys = {static_cast<int64_t>(random() % 50),
                          -static_cast<int64_t>(random() % 50)};
    const std::set<int64_t> before = Since(table.get(), 0, true);
    FindAll(table.get(), keys, step % 2 ? Purpose::kInsert : Purpose::kRead);
    for (int64_t key : keys) {
      if (step % 2 && before.count(key) == 0) written.back().push_back(key);  // made
      if (step % 2 || before.count(key)) read.back().push_back(key);
    }
    if (step % 3 == 0) {
      Update(table.get(), keys);
      for (int64_t key : read.back()) written.back().push_back(key);
    }
  }
  std::set<int64_t> all_read, all_written;
  for (size_t i = moments.size(); i-- > 0;) {
    all_read.insert(read[i].begin(), read[i].end());
    all_written.insert(written[i].begin(), written[i].end());
    Check(Since(table.get(), moments[i], false) == all_read, "rows read since a moment");
    Check(Since(table.get(), moments[i], true) == all_written, "rows written since a moment");
  }
  const int64_t key = *all_written.begin();
  int64_t version = VersionsOf(*table, {key})[0];
  Check(version > moments.front() - 2 && version <= Now(), "a version is the time");
  DynamicTable::Contents contents;
  contents.keys = &key;
  contents.num_keys = 1;
  contents.versions = &moments[3];
  Check(Import(table.get(), contents).ok(), "a row is imported");
  version = VersionsOf(*table, {key})[0];
  Check(version / 2 == moments[3] / 2 || version == moments[3] - 1, "versions are imported");
  Check(Since(table.get(), moments[4], true).count(key) == 0, "with the row's time");
}

void TestTimesOfManyLookups() {
  RowClock clock;
  const int lookups = 100000;
  std::vector<std::pair<int, int64_t>> moments;  // after so many
  for (int i = 1; i <= lookups; ++i) {
    clock.NoteLookup(i);
    if (i % 500 == 0) moments.emplace_back(i, Moment());
  }
  for (const auto& moment : moments) {
    const int64_t after = clock.After(moment.second).read - 1;
    const int64_t ago = lookups - moment.first;
    Check(after <= moment.first, "no lookup after it is left out");
    Check(after >= moment.first - ago / 400, "and few before it are counted");
    if (ago < 1000) Check(after == moment.first, "and none before one that was lately");
  }
  clock.LowerTickets(90000);
  Check(clock.After(moments.back().second).read == 10001, "tickets are lowered");
  Check(clock.After(moments.front().second).read == 1, "those of long ago are lost");
}

}  // namespace
}  // namespace graph_opt

int main() {
  graph_opt::TestChanges();
  graph_opt::TestChangesFromThreads();
  graph_opt::TestBuckets();
  graph_opt::TestASnapshotKeepsWhatIsCleared();
  graph_opt::TestTimes();
  graph_opt::TestTimesOfManyLookups();
  return 0;
}
