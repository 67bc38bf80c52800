// Policies at work in a dynamic table, without TensorFlow: rules of admission and eviction against
// models, and rows in a file against a map of what was written.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "dynamic_tables_testing.h"

namespace graph_opt {
namespace {

DynamicTableOptions OptionsOfOnes(int64_t dim) {
  DynamicTableOptions options = Options(dim);
  options.initial_constant = 1;
  return options;
}

void TestCounterFilter() {
  DynamicTableOptions options = OptionsOfOnes(2);
  options.no_permission = -5;
  options.policies.admission.kind = Admission::kCounter;
  options.policies.admission.filter_freq = 3;
  DynamicTable table(options);
  const FoundRows first = FindAll(&table, {7, 8, 7});
  Check(first.rows == Numbers({0, 0, 0}), "keys without permission read row 0");
  Check(Weights(&table, 0)[1] == -5, "which has its value");
  Check(table.metrics().filtered_keys == 2, "two keys wait");
  Check(FrequenciesOf(table, {7, 8}) == Numbers({2, 1}), "and are counted");
  const FoundRows second = FindAll(&table, {8, 7, 8, 7});
  Check(second.rows[1] == second.rows[3] && second.rows[0] == second.rows[2],
        "all occurrences in a lookup agree");
  Check(second.rows[1] > 0 && second.rows[0] > 0 && table.size() == 2, "admitted");
  Check(Weights(&table, second.rows[0])[0] == 1, "a row that is admitted begins as any other");
  Check(FrequenciesOf(table, {7, 8}) == Numbers({4, 3}), "the frequency is kept");
  Check(FindAll(&table, {9}, Purpose::kRead).rows[0] == 0, "reading counts nothing");
  Check(table.metrics().filtered_keys == 0, "nor does it wait");
  FindAll(&table, {9}, Purpose::kAdmit);
  Check(table.size() == 3, "a restored key needs no permission");
  FindAll(&table, {10});
  const FilteredKey restored = {11, 2, 5};
  table.RestoreFilteredKeys(&restored, 1);
  Check(table.FilteredKeys().size() == 2, "keys that wait");
  Check(FindAll(&table, {11}).rows[0] > 0, "their frequency counts on");
}

// Least recently or least frequently used keys go first, never more than need be.
void TestCapacity(EvictionOrder order) {
  const int64_t capacity = 300;
  DynamicTableOptions options = OptionsOfOnes(1);
  options.policies.eviction.capacity = capacity;
  options.policies.eviction.order = order;
  DynamicTable table(options);
  struct Use {
    int64_t frequency, read, epoch;
  };
  std::map<int64_t, Use> model;
  std::mt19937 random(5);
  int64_t epoch = 0;
  for (int64_t lookup = 1; lookup < 6000; ++lookup) {
    const int64_t key = random() % (random() % 3 ? 100 : 1500);
    const int64_t count = 1 + random() % 4;
    const Numbers counts = {count};
    if (lookup % 500 == 0) {
      table.EndEpoch();
      ++epoch;
    }
    EvictedRows evicted;
    const Numbers keys = {key};
    DynamicTable::Find find = FindOf(keys);
    find.counts = counts.data();
    find.evicted = &evicted;
    FoundRows found;
    Check(TryToFind(&table, find, &found).ok(), "found");
    Weights(&table, found.rows[0])[0] = static_cast<float>(key);
    Use* const use = &model[key];
    *use = {order == EvictionOrder::kCustom ? count : use->frequency + count, lookup, epoch};
    const auto value = [order](const Use& of) {
      if (order == EvictionOrder::kLru) return std::make_pair(of.read, int64_t{0});
      const int64_t first = order == EvictionOrder::kEpochLfu ? of.epoch << 32 : 0;
      return std::make_pair(first + of.frequency, of.read);
    };
    const bool is_full = int64_t(model.size()) > capacity;
    Check(evicted.keys.size() == size_t{is_full}, "one for one");
    if (is_full) {
      auto least = model.end();
      for (auto other = model.begin(); other != model.end(); ++other) {
        if (other->first == key) continue;  // held
        if (least == model.end() || value(other->second) < value(least->second)) least = other;
      }
      Check(least->first == evicted.keys[0], "the least valuable key");
      Check(evicted.weights[0] == static_cast<float>(evicted.keys[0]), "and what it had");
      model.erase(least);
    }
    Check(table.size() == int64_t(model.size()), "no other");
  }
  std::set<int64_t> keys;
  for (const auto& use : model) keys.insert(use.first);
  Check(Keys(&table) == keys, "the same keys");
  Check(table.metrics().evicted > 1000, "many were evicted");
}

void TestHeldRowsStay() {
  DynamicTableOptions options = OptionsOfOnes(1);
  options.policies.eviction.capacity = 10;
  DynamicTable table(options);
  Numbers first, second;
  for (int64_t i = 0; i < 8; ++i) first.push_back(i);
  for (int64_t i = 8; i < 40; ++i) second.push_back(i);
  FoundRows held = FindAll(&table, first);
  FoundRows more = FindAll(&table, second);
  Check(table.size() == 40, "a batch may hold more rows than the capacity");
  for (size_t i = 0; i < second.size(); ++i) Weights(&table, more.rows[i])[0] = 100.0f + i;
  held.hold.reset();
  FindAll(&table, {0});
  Check(table.size() == 33, "what nobody holds goes");
  for (size_t i = 0; i < second.size(); ++i) {
    Check(Has(&table, second[i]) && Weights(&table, more.rows[i])[0] == 100.0f + i,
          "held rows stay");
  }
  more.hold.reset();
  FindAll(&table, {0});
  Check(table.size() == 10, "as long as they are held");
}

void TestCheckpointRules() {
  DynamicTableOptions options = OptionsOfOnes(2);
  options.policies.eviction.steps_to_live = 10;
  options.policies.admission.kind = Admission::kCounter;
  options.policies.admission.filter_freq = 2;
  DynamicTable table(options);
  Sequential sequential;
  FoundRows found = FindAll(&table, {1, 2, 3, 1, 2, 3, 4});
  table.set_step(100);
  table.WillWrite(&found.rows[0], 1);  // key 1
  Check(table.Evict(105, &sequential, nullptr) == 0, "held");
  Check(VersionsOf(table, {1, 2}) == Numbers({100, 105}),
        "keys that were never updated count from now");
  found.hold.reset();
  Check(table.Evict(110, &sequential, nullptr) == 0, "ten steps are not too many");
  EvictedRows evicted;
  Weights(&table, found.rows[0])[1] = 9;
  Check(table.Evict(111, &sequential, &evicted) == 1, "eleven are");
  Check(evicted.keys == Numbers({1}) && evicted.weights[1] == 9, "what it had");
  Check(table.metrics().filtered_keys == 1, "a key that waits");
  Check(table.Evict(116, &sequential, nullptr) == 2 && table.size() == 0, "the others");
  Check(table.metrics().filtered_keys == 0, "and what waited");

  DynamicTableOptions small = OptionsOfOnes(2);
  small.policies.eviction.l2_threshold = 1.0f;
  DynamicTable weights(small);
  FoundRows rows = FindAll(&weights, {1, 2, 3});
  const float below = 1.0f, above = std::sqrt(1.01f);
  std::fill_n(Weights(&weights, rows.rows[0]), 2, 0.99f * below);
  std::fill_n(Weights(&weights, rows.rows[1]), 2, above);
  std::fill_n(Weights(&weights, rows.rows[2]), 2, below);
  rows.hold.reset();
  weights.Evict(1, &sequential, nullptr);
  Check(Keys(&weights) == std::set<int64_t>({2, 3}), "half the squared norm below the threshold");
}

// A table four times its memory budget, with slots that come later, keys that go, and snapshots.
void TestTiers(const std::string& folder) {
  const int64_t dim = 4, num_keys = 60000;
  DynamicTableOptions options = OptionsOfOnes(dim);
  options.policies.tiers.memory_bytes = num_keys * dim * 4 / 4;
  options.policies.tiers.folder = folder;
  DynamicTable table(options);
  Check(table.Initialize(nullptr, 0).ok(), "initialized");
  std::unordered_map<int64_t, float> model;
  std::mt19937 random(9);
  int num_slots = 0;
  std::shared_ptr<TableSnapshot> snapshot;
  for (int step = 0; step < 600; ++step) {
    if (step == 150 || step == 300) {
      Check(table.AddSlot("slot" + std::to_string(step), 0.5f, nullptr).ok(), "a slot more");
      ++num_slots;
    }
    if (step == 200) snapshot = table.Snapshot();
    if (step == 250) snapshot.reset();
    Numbers keys;
    for (int i = 0; i < 1000; ++i) {
      const double u = (random() % 1000000 + 1) / 1e6;
      keys.push_back(static_cast<int64_t>(num_keys * u * u * u) * 31 - 100000);
    }
    const FoundRows found = FindAll(&table, keys, Purpose::kInsert, 2);
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto known = model.emplace(keys[i], 1.0f).first;
      Check(Weights(&table, found.rows[i])[dim - 1] == known->second, "weights");
      for (int slot = 0; slot < num_slots; ++slot) {
        const float value = Weights(&table, found.rows[i], slot)[0];
        Check(value == known->second + slot * 1000 || value == 0.5f, "slots");
        if (known->second != 1.0f && value == 0.5f)
          known->second = Weights(&table, found.rows[i])[0];
      }
    }
    table.WillWrite(found.rows.data(), found.rows.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      const float value = static_cast<float>(random() % 1000000);
      model[keys[i]] = value;
      std::fill_n(Weights(&table, found.rows[i]), dim, value);
      for (int slot = 0; slot < num_slots; ++slot) {
        std::fill_n(Weights(&table, found.rows[i], slot), dim, value + slot * 1000);
      }
    }
    if (step % 100 == 99) {
      model.erase(keys[0]);
      Check(Erase(&table, {keys[0]}) == 1, "erased");
    }
  }
  int64_t kept = 0;
  table.ForEachKey([&](int64_t key, uint32_t row, const RowMetadata&) {
    kept += Weights(&table, row)[0] == model[key];
  });
  Check(kept == int64_t(model.size()) && table.size() == kept, "nothing is lost");
  const DynamicTable::Metrics metrics = table.metrics();
  Check(metrics.promoted > 0 && metrics.found_in_file > 0, "rows came from the file");
  Check(metrics.file_bytes > metrics.row_bytes / 2, "most rows are there");
  Check(table.Initialize(nullptr, 0).ok() && table.metrics().file_bytes == 0, "space given back");
  FindAll(&table, {1, 2, 3});
  Check(table.size() == 3, "and used again");
}

// Keys that come often end up in memory, whatever came first and is scanned meanwhile.
void TestFrequentRowsAreInMemory(const std::string& folder) {
  const int64_t num_keys = 40000, num_frequent = 2000;
  DynamicTableOptions options = OptionsOfOnes(4);
  options.policies.tiers.memory_bytes = 8192 * 16;
  options.policies.tiers.folder = folder;
  DynamicTable table(options);
  Numbers keys(num_keys);
  for (int64_t key = 0; key < num_keys; ++key) keys[key] = key;
  FindAll(&table, keys);
  Numbers frequent(keys.end() - num_frequent, keys.end());
  const auto in_file = [&] {
    const int64_t before = table.metrics().found_in_file;
    FindAll(&table, frequent);
    return table.metrics().found_in_file - before;
  };
  Check(in_file() == num_frequent, "memory went to those that came first");
  std::mt19937 random(4);
  for (int step = 0; step < 100; ++step) {
    Numbers batch;
    for (int i = 0; i < 1000; ++i) batch.push_back(frequent[random() % num_frequent]);
    for (int i = 0; i < 500; ++i) batch.push_back(random() % num_keys);
    FindAll(&table, batch);
  }
  Check(in_file() < num_frequent / 20, "frequent keys came into memory");
  for (int64_t& key : frequent) key -= num_frequent;
  for (int step = 0; step < 100; ++step) FindAll(&table, frequent);
  Check(in_file() < num_frequent / 20, "those that are not read any more made room");
}

void TestFileBudget(const std::string& folder) {
  DynamicTableOptions options = OptionsOfOnes(16);
  options.policies.tiers.memory_bytes = 1 << 20;
  options.policies.tiers.folder = folder;
  options.policies.tiers.file_bytes = 2 << 20;
  DynamicTable table(options);
  Numbers keys(100000);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  FoundRows found;
  const absl::Status full = TryToFind(&table, FindOf(keys), &found, 2);
  Check(absl::IsResourceExhausted(full), "both budgets are used up");
  const std::string message(full.message());
  Check(message.find("table table") != std::string::npos, "names the table: " + message);
  Check(table.metrics().file_bytes <= 2 << 20, "within the budget");
  Check(table.size() > 30000, "which is used");
  options.policies.tiers.folder = "/proc/nowhere";
  DynamicTable nowhere(options);
  const absl::Status status = nowhere.Initialize(nullptr, 0);
  Check(!status.ok() || !TryToFind(&nowhere, FindOf(keys), &found).ok(),
        "a folder that cannot be made");
}

// Several trainers with capacity, filter and file at once.
void TestThreads(const std::string& folder) {
  DynamicTableOptions options = OptionsOfOnes(4);
  options.policies.admission.kind = Admission::kCounter;
  options.policies.admission.filter_freq = 2;
  options.policies.eviction.capacity = 20000;
  options.policies.eviction.order = EvictionOrder::kLfu;
  options.policies.tiers.memory_bytes = 5000 * 16;
  options.policies.tiers.folder = folder;
  DynamicTable table(options);
  std::atomic<int64_t> wrong{0};
  std::vector<std::thread> trainers;
  for (int trainer = 0; trainer < 4; ++trainer) {
    trainers.emplace_back([&, trainer] {
      std::mt19937 random(trainer);
      for (int step = 0; step < 60; ++step) {
        Numbers keys;
        for (int i = 0; i < 1500; ++i) keys.push_back(trainer + 4 * (random() % 20000));
        const FoundRows found = FindAll(&table, keys, Purpose::kInsert, 2);
        const DynamicTable::ReadLock lock(&table);
        table.WillWrite(found.rows.data(), found.rows.size());
        for (size_t i = 0; i < keys.size(); ++i) {
          if (found.rows[i] < table.rows().first_row) continue;
          float* const row = Weights(&table, found.rows[i]);
          wrong += row[0] != 1 && row[0] != static_cast<float>(keys[i]);
          std::fill_n(row, 4, static_cast<float>(keys[i]));
        }
        if (step % 20 == 19) {
          Sequential sequential;
          table.Evict(step, &sequential, nullptr);
        }
      }
    });
  }
  for (std::thread& trainer : trainers) trainer.join();
  Check(wrong == 0, "rows belong to their keys");
  FindAll(&table, {1});
  Check(table.size() <= 20000, "within the capacity");
}

}  // namespace
}  // namespace graph_opt

int main() {
  using graph_opt::EvictionOrder;
  char made[] = "/tmp/dynamic_tiers_XXXXXX";
  const std::string folder = mkdtemp(made);
  graph_opt::TestCounterFilter();
  for (EvictionOrder order : {EvictionOrder::kLru, EvictionOrder::kLfu, EvictionOrder::kEpochLfu,
                              EvictionOrder::kCustom}) {
    graph_opt::TestCapacity(order);
  }
  graph_opt::TestHeldRowsStay();
  graph_opt::TestCheckpointRules();
  graph_opt::TestTiers(folder);
  graph_opt::TestFrequentRowsAreInMemory(folder);
  graph_opt::TestFileBudget(folder);
  graph_opt::TestThreads(folder);
  if (rmdir(folder.c_str()) != 0) {
    std::fprintf(stderr, "failed: files are left in %s\n", folder.c_str());
    return 1;
  }
}
