// Contents of dynamic tables that are read and replaced by key, without TensorFlow.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dynamic_tables_testing.h"

namespace graph_opt {
namespace {

DynamicTable::Contents ContentsOf(const Numbers& keys, const float* weights) {
  DynamicTable::Contents contents;
  contents.keys = keys.data();
  contents.num_keys = static_cast<int64_t>(keys.size());
  contents.weights = weights;
  return contents;
}

// Random imports, erasures and reads do what a map would, on any number of threads.
void TestAgainstAMap(int num_threads) {
  struct Row {
    float weight, slot;
    int64_t frequency, version;
  };
  DynamicTable table(Options(1));
  Check(table.AddSlot("m", 3, nullptr).ok(), "a slot");
  std::map<int64_t, Row> model;
  std::mt19937_64 random(num_threads);
  for (int step = 0; step < 60; ++step) {
    table.set_step(step);
    Numbers keys(1 + random() % 12000), frequencies(keys.size()), versions(keys.size());
    Floats weights(keys.size()), slots(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      keys[i] = static_cast<int64_t>(random() % 20000) - 10000;
      frequencies[i] = random() % 100;
      versions[i] = random() % 1000;
      weights[i] = static_cast<float>(random() % 1000);
      slots[i] = static_cast<float>(random() % 1000);
    }
    DynamicTable::Contents contents = ContentsOf(keys, random() % 4 ? weights.data() : nullptr);
    if (random() % 2) contents.slots = {slots.data()};
    if (random() % 2) contents.frequencies = frequencies.data();
    if (random() % 2) contents.versions = versions.data();
    contents.insert = random() % 3 != 0;
    contents.keep_versions = random() % 4 == 0;
    Check(Import(&table, contents, num_threads).ok(), "imported");
    for (size_t i = 0; i < keys.size(); ++i) {
      if (contents.insert) model.emplace(keys[i], Row{0, 3, 0, -1});
      const auto row = model.find(keys[i]);
      if (row == model.end()) continue;
      if (contents.weights != nullptr) row->second.weight = weights[i];
      if (!contents.slots.empty()) row->second.slot = slots[i];
      if (contents.frequencies != nullptr) row->second.frequency = frequencies[i];
      if (contents.keep_versions) continue;
      row->second.version = contents.versions == nullptr ? step : versions[i];
    }
    std::shuffle(keys.begin(), keys.end(), random);
    keys.resize(keys.size() / 2);
    std::set<int64_t> gone;
    for (int64_t key : keys) {
      if (model.erase(key) > 0) gone.insert(key);
    }
    Check(Erase(&table, keys, num_threads) == int64_t(gone.size()), "each is erased once");
    Check(table.size() == int64_t(model.size()), "as many keys");
  }
  Numbers keys;
  for (int64_t key = -10001; key <= 10000; ++key) keys.push_back(key);
  const FoundRows found = FindAll(&table, keys, Purpose::kRead);
  const Numbers frequencies = FrequenciesOf(table, keys);
  const Numbers versions = VersionsOf(table, keys);
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto row = model.find(keys[i]);
    const Row expected = row == model.end() ? Row{0, 0, 0, -1} : row->second;
    Check(frequencies[i] == expected.frequency && versions[i] == expected.version, "metadata");
    Check((found.rows[i] == 0) == (row == model.end()), "the keys that are there");
    if (found.rows[i] == 0) continue;
    Check(*Weights(&table, found.rows[i]) == expected.weight, "weights");
    Check(*Weights(&table, found.rows[i], 0) == expected.slot, "slots");
  }
}

// A full table gives up what is worth least, also after frequencies were replaced by lower ones.
void TestFrequenciesThatFall() {
  const size_t capacity = 100;
  DynamicTableOptions options = Options(1);
  options.stripes = 2;
  options.policies.eviction.capacity = capacity;
  options.policies.eviction.order = EvictionOrder::kLfu;
  DynamicTable table(options);
  std::map<int64_t, std::pair<int64_t, int>> model;  // the frequency and last lookup of each key
  std::mt19937 random(3);
  for (int lookup = 0; lookup < 3000; ++lookup) {
    const Numbers keys = {static_cast<int64_t>(random() % 300)};
    const Numbers counts = {1 + static_cast<int64_t>(random() % 50)};
    if (random() % 4 == 0) {
      DynamicTable::Contents contents = ContentsOf(keys, nullptr);
      contents.frequencies = counts.data();
      contents.insert = false;
      Check(Import(&table, contents).ok(), "imported");
      const auto known = model.find(keys[0]);
      if (known != model.end()) known->second = {counts[0], lookup};
      continue;
    }
    EvictedRows evicted;
    DynamicTable::Find find = FindOf(keys);
    find.counts = counts.data();
    find.evicted = &evicted;
    FoundRows found;
    Check(TryToFind(&table, find, &found).ok(), "found");
    model[keys[0]] = {model[keys[0]].first + counts[0], lookup};
    if (model.size() <= capacity) continue;
    auto least = model.end();
    for (auto other = model.begin(); other != model.end(); ++other) {
      if (other->first == keys[0]) continue;  // held
      if (least == model.end() || other->second < least->second) least = other;
    }
    Check(evicted.keys == Numbers({least->first}), "the least frequent goes");
    model.erase(least);
  }
}

// Whoever imports writes to rows of its keys alone, also if the table begins anew meanwhile, with a
// bank of default rows where rows of keys were.
void TestImportsBesideOtherBanks() {
  DynamicTableOptions options = Options(1);
  options.initial = InitialKind::kBank;
  DynamicTable table(options);
  const Floats small(1, 1.0f), large(20000, 1.0f);
  Check(table.Initialize(small.data(), 1).ok(), "initialized");
  Numbers keys(3000);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  const Floats weights(keys.size(), 2.0f);
  std::atomic<bool> done{false};
  std::thread importer([&] {
    while (!done) Check(Import(&table, ContentsOf(keys, weights.data()), 2).ok(), "imported");
  });
  for (int round = 0; round < 60; ++round) {
    const Floats& bank = round % 2 ? small : large;
    Check(table.Initialize(bank.data(), bank.size()).ok(), "initialized again");
    for (int i = 0; i < 50; ++i) FindAll(&table, {-1 - i});
    Check(table.Snapshot()->ReadBank() == bank, "nobody writes to the bank");
  }
  done = true;
  importer.join();
}

// What is erased stays so, whoever assigns to keys that have rows.
void TestAssignmentsBesideErasure() {
  DynamicTable table(Options(1));
  Numbers keys(2000);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  const Floats weights(keys.size(), 2.0f);
  for (int round = 0; round < 20; ++round) {
    FindAll(&table, keys);
    std::thread assigner([&] {
      DynamicTable::Contents contents = ContentsOf(keys, weights.data());
      contents.insert = false;
      for (int i = 0; i < 5; ++i) Check(Import(&table, contents).ok(), "assigned");
    });
    Erase(&table, keys);
    assigner.join();
    Check(table.size() == 0, "nothing comes back");
  }
}

void TestASnapshotKeepsItsBank() {
  DynamicTableOptions options = Options(2);
  options.initial = InitialKind::kBank;
  DynamicTable table(options);
  Check(table.AddSlot("m", 0, nullptr).ok(), "a slot");
  const Floats first = {1, 2, 3, 4, 5, 6}, second = {7, 8};
  Check(table.Initialize(first.data(), 3).ok(), "a bank");
  const auto snapshot = table.Snapshot();
  Check(snapshot->ReadBank() == first, "is read");
  Check(table.Initialize(second.data(), 1).ok(), "another");
  Check(snapshot->ReadBank() == first, "does not change a snapshot");
  Check(table.Snapshot()->ReadBank() == second, "but the next has it");
}

void TestASnapshotKeepsSlotsThatAreFilled() {
  DynamicTable table(Options(2));
  Check(table.AddSlot("m", 1, nullptr).ok(), "a slot");
  const FoundRows found = FindAll(&table, {5});
  const auto snapshot = table.Snapshot();
  table.FillSlot(0, 4);
  Check(Weights(&table, found.rows[0], 0)[1] == 4, "filled");
  Check(VersionsOf(table, {5}) == Numbers({-1}), "which is no update");
  Floats slot(2);
  TableSnapshot::Block block;
  block.slots = {slot.data()};
  snapshot->Read(0, 1, block);
  Check(slot == Floats({1, 1}), "as it was");
}

void TestSnapshotsOfParts() {
  DynamicTable table(Options(1));
  Numbers keys(3000);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = 7 * static_cast<int64_t>(i) - 5000;
  const FoundRows found = FindAll(&table, keys);
  for (size_t i = 0; i < keys.size(); ++i) *Weights(&table, found.rows[i]) = keys[i];
  Erase(&table, {keys[10], keys[500], keys[2999]});
  for (int64_t count : {1000, 999, 1, 5000}) {
    const int64_t end = std::min<int64_t>(2997, 300 * count);
    std::set<int64_t> read;
    for (int64_t first = 0; first < end; first += count) {
      SnapshotPart part;
      part.first = first;
      part.count = count;
      const SnapshotContents contents(table.Snapshot(part).get(), 1);
      Check(int64_t(contents.keys.size()) == std::min(count, 2997 - first), "so many");
      for (size_t i = 0; i < contents.keys.size(); ++i) {
        Check(contents.weights[i] == contents.keys[i], "the row of its key");
        Check(read.insert(contents.keys[i]).second, "each once");
      }
    }
  }
  SnapshotPart none;
  none.first = 2997;
  Check(table.Snapshot(none)->size() == 0, "none are left");
}

}  // namespace
}  // namespace graph_opt

int main() {
  for (int num_threads : {1, 2, 8}) graph_opt::TestAgainstAMap(num_threads);
  graph_opt::TestFrequenciesThatFall();
  graph_opt::TestImportsBesideOtherBanks();
  graph_opt::TestAssignmentsBesideErasure();
  graph_opt::TestASnapshotKeepsItsBank();
  graph_opt::TestASnapshotKeepsSlotsThatAreFilled();
  graph_opt::TestSnapshotsOfParts();
  return 0;
}
