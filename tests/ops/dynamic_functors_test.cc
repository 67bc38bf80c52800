// Dynamic tables without TensorFlow.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "dynamic_tables_testing.h"

namespace graph_opt {
namespace {

// Of a table whose lookups write nothing, or do.
DynamicTableOptions OptionsThatCount(int64_t dim, bool counts_lookups) {
  DynamicTableOptions options = Options(dim);
  options.counts_lookups = counts_lookups;
  return options;
}

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

void TestEveryNumberIsAKey() {
  DynamicTable table(Options(3));
  const Numbers keys = {0, -1, kLeast, kMost, 0, 1 << 20, -1};
  const FoundRows first = FindAll(&table, keys);
  Check(first.rows[0] == first.rows[4] && first.rows[1] == first.rows[6], "a key has one row");
  Check(table.size() == 5, "five keys");
  for (int64_t row : first.rows) Check(row >= table.rows().first_row, "of their own");
  Check(FindAll(&table, keys, Purpose::kRead).rows == first.rows, "which they keep");
  Check(FindAll(&table, {5}, Purpose::kRead).rows == Numbers({0}), "others read row 0");
  Check(FrequenciesOf(table, {0, 5}) == Numbers({2, 0}), "occurrences");
  Check(VersionsOf(table, {0, 5}) == Numbers({-1, -1}), "no updates");
}

void TestRowsBeginAsTheirKeysSay() {
  DynamicTableOptions options = Options(5);
  options.initial = InitialKind::kKeyed;
  options.initial_values.distribution = Distribution::kNormal;
  options.initial_values.key = 17;
  options.initial_values.second = 1;
  DynamicTable one(options);
  DynamicTable other(options);
  Numbers keys(3000);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<int64_t>(i * 7919) - 5000;
  const Numbers reversed(keys.rbegin(), keys.rend());
  const FoundRows in_order = FindAll(&one, keys, Purpose::kInsert, 4);
  FindAll(&other, reversed);
  const FoundRows again = FindAll(&other, keys);
  for (size_t i = 0; i < keys.size(); ++i) {
    const float* const a = Weights(&one, in_order.rows[i]);
    const float* const b = Weights(&other, again.rows[i]);
    Check(std::equal(a, a + 5, b), "whatever the order and threads");
  }
}

void TestDefaultRowsOfABank() {
  DynamicTableOptions options = Options(2);
  options.initial = InitialKind::kBank;
  options.no_permission = 9;
  DynamicTable table(options);
  const Floats bank = {1, 2, 3, 4, 5, 6};
  Check(!table.is_initialized(), "not yet");
  Check(table.Initialize(bank.data(), 3).ok() && table.is_initialized(), "initialized");
  const FoundRows absent = FindAll(&table, {4, -1}, Purpose::kRead);
  Check(Weights(&table, absent.rows[0])[0] == 3 && Weights(&table, absent.rows[1])[1] == 6,
        "absent keys read the bank");
  Check(table.size() == 0, "and get no rows");
  const FoundRows made = FindAll(&table, {4});
  Check(Weights(&table, made.rows[0])[1] == 4, "new rows are copies");
  Check(Weights(&table, 0)[1] == 9, "row 0 is that without permission");
  Check(table.Initialize(bank.data(), 3).ok() && table.size() == 0, "begins anew");
  const Floats own = {7, 8};
  const Numbers key = {4};
  DynamicTable::Find find = FindOf(key);
  find.initial = own.data();
  FoundRows given;
  Check(TryToFind(&table, find, &given).ok(), "found");
  Check(Weights(&table, given.rows[0])[1] == 8, "begins as the lookup says");
}

void TestDefaultRowsWithoutABank() {
  DynamicTableOptions options = Options(2);
  options.initial_constant = 0.5f;
  options.no_permission = 9;
  const auto read = [&options] {
    DynamicTable table(options);
    Check(table.Initialize(nullptr, 0).ok(), "initialized");
    const FoundRows absent = FindAll(&table, {4}, Purpose::kRead);
    Check(absent.rows == Numbers({0}) && table.size() == 0, "absent keys read row 0");
    return Weights(&table, 0)[1];
  };
  Check(read() == 0.5f, "what rows begin with");
  options.initial = InitialKind::kKeyed;
  options.initial_values.first = 1;
  options.initial_values.second = 2;
  options.initial_values.distribution = Distribution::kUniform;
  Check(read() == 1.5f, "the middle of what is drawn");
  options.initial_values.distribution = Distribution::kTruncatedNormal;
  Check(read() == 1, "the mean of what is drawn");
  options.policies.admission.kind = Admission::kCounter;
  options.policies.admission.filter_freq = 2;
  Check(read() == 9, "without permission");
}

void TestSlotsAreAddedToRows() {
  DynamicTable table(Options(2));
  Numbers keys(5000);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  const FoundRows found = FindAll(&table, keys);
  for (size_t i = 0; i < keys.size(); ++i) Weights(&table, found.rows[i])[1] = i;
  int index = -1;
  Check(table.AddSlot("m", 0.5f, &index).ok() && index == 0, "added");
  Check(table.AddSlot("v", 2, &index).ok() && index == 1, "and another");
  Check(table.AddSlot("m", 0, &index).ok() && index == 0, "once for each name");
  Check(table.num_slots() == 2 && table.SlotIndex("v") == 1 && table.SlotIndex("w") == -1, "names");
  for (size_t i = 0; i < keys.size(); ++i) {
    Check(Weights(&table, found.rows[i])[1] == i, "rows keep their numbers and weights");
    Check(Weights(&table, found.rows[i], 0)[1] == 0.5f, "and have the first");
    Check(Weights(&table, found.rows[i], 1)[0] == 2, "and the second");
  }
  const FoundRows made = FindAll(&table, {-3});
  Check(Weights(&table, made.rows[0], 1)[1] == 2, "new rows too");
}

void TestHeldRowsAreNotGivenToOthers(bool counts) {
  DynamicTable table(OptionsThatCount(1, counts));
  Numbers keys(100);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  FoundRows held = FindAll(&table, keys);
  for (size_t i = 0; i < keys.size(); ++i) *Weights(&table, held.rows[i]) = i;
  Check(Erase(&table, keys) == 100 && table.size() == 0, "erased");
  Numbers others(1000);
  for (size_t i = 0; i < others.size(); ++i) others[i] = 1000 + i;
  FindAll(&table, others);
  for (size_t i = 0; i < keys.size(); ++i) {
    Check(*Weights(&table, held.rows[i]) == i, "whoever holds a row reads what it had");
  }
  Check(table.metrics().free_rows == 100, "they wait");
  held.hold.reset();
  for (int64_t& key : others) key += 10000;
  FindAll(&table, others);
  Check(table.metrics().free_rows == 0, "and are used again");
}

// Lookups are counted in 32 bits of each row.
void TestLookupsForEver(bool counts) {
  DynamicTable table(OptionsThatCount(1, counts));
  FoundRows held = FindAll(&table, {1, 2});
  *Weights(&table, held.rows[0]) = 5;
  for (int round = 0; round < 5; ++round) {
    table.SkipLookups((int64_t{1} << 31) - 5);
    for (int i = 0; i < 20; ++i) FindAll(&table, {3, 4, i + 5});
    Check(Erase(&table, {1}) == (round == 0), "the key goes");
    Numbers others(500);
    for (size_t i = 0; i < others.size(); ++i) others[i] = (round + 1) * 1000 + i;
    FindAll(&table, others);
    Check(*Weights(&table, held.rows[0]) == 5, "its row is held");
    Check(FindAll(&table, {2}, Purpose::kRead).rows[0] == held.rows[1], "the other stays");
  }
  Check(table.metrics().free_rows == 1, "one row waits");
  held.hold.reset();
  Numbers others(500);
  for (size_t i = 0; i < others.size(); ++i) others[i] = -1 - static_cast<int64_t>(i);
  FindAll(&table, others);
  Check(table.metrics().free_rows == 0, "until nobody holds it");
  FoundRows late = FindAll(&table, {2});
  *Weights(&table, late.rows[0]) = 6;
  Erase(&table, {2});
  table.SkipLookups((int64_t{1} << 31) - 100);
  for (int64_t& key : others) key -= 1000;
  FindAll(&table, others);
  Check(*Weights(&table, late.rows[0]) == 6, "a late hold lasts as well");
}

void TestMemoryIsGivenBack(bool counts) {
  DynamicTable table(OptionsThatCount(8, counts));
  Numbers keys(300000);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  FoundRows found = FindAll(&table, keys);
  for (size_t i = 0; i < keys.size(); ++i) *Weights(&table, found.rows[i]) = i;
  const DynamicTable::Metrics before = table.metrics();
  Check(before.index_bytes + before.metadata_bytes <= 40 * before.keys, "at most 40 bytes a key");
  Check(Erase(&table, {keys.begin(), keys.begin() + 290000}) == 290000, "most are gone");
  Check(table.Compact() == 0, "nothing moves while it is held");
  found.hold.reset();
  const Numbers some(keys.begin() + 290000, keys.begin() + 290100);
  FoundRows held = FindAll(&table, some, Purpose::kRead);
  table.Compact();
  Check(FindAll(&table, some, Purpose::kRead).rows == held.rows, "held rows stay");
  held.hold.reset();
  table.Compact();
  const int64_t bytes = table.metrics().given_back_bytes;
  Check(bytes > 150000 * 52, "most of the memory");
  const DynamicTable::Metrics after = table.metrics();
  Check(after.keys == 10000 && after.free_rows == 0, "no holes are left");
  Check(after.index_bytes < before.index_bytes / 8, "the index shrinks");
  const Numbers left(keys.begin() + 290000, keys.end());
  const FoundRows again = FindAll(&table, left, Purpose::kRead);
  for (size_t i = 0; i < left.size(); ++i) {
    Check(*Weights(&table, again.rows[i]) == left[i], "rows moved with their values");
  }
}

void TestASnapshotDoesNotChange(bool counts) {
  DynamicTable table(OptionsThatCount(2, counts));
  Check(table.AddSlot("m", 1, nullptr).ok(), "a slot");
  Numbers keys(2000);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<int64_t>(i) - 700;
  const FoundRows found = FindAll(&table, keys);
  for (size_t i = 0; i < keys.size(); ++i) *Weights(&table, found.rows[i]) = keys[i];
  table.set_step(7);
  table.WillWrite(found.rows.data(), 10);
  const std::shared_ptr<TableSnapshot> snapshot = table.Snapshot();
  table.set_step(8);
  table.WillWrite(found.rows.data(), 1000);
  for (size_t i = 0; i < 1000; ++i) *Weights(&table, found.rows[i], 0) = -1;
  Erase(&table, {keys.begin() + 1500, keys.end()});
  FindAll(&table, {9000, 9001, 9002});
  const std::vector<int64_t> begins = snapshot->SortByBucket(10);
  Check(snapshot->size() == 2000 && begins[10] == 2000, "what was there");
  Numbers read(2000);
  Numbers versions(2000);
  Floats weights(4000);
  Floats slot(4000);
  TableSnapshot::Block block;
  for (int64_t first = 0; first < 2000; first += 500) {
    block.keys = &read[first];
    block.versions = &versions[first];
    block.weights = &weights[2 * first];
    block.slots = {&slot[2 * first]};
    snapshot->Read(first, 500, block);
  }
  int written = 0;
  for (int64_t i = 0; i < 2000; ++i) {
    Check(weights[2 * i] == read[i] && slot[2 * i] == 1, "with the values of that moment");
    Check(begins[((read[i] % 10) + 10) % 10] <= i, "in its bucket");
    written += versions[i] == 7;
  }
  Check(written == 10, "and versions");
}

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)  // which leave few addresses
void TestThousandsOfTables() {
  std::vector<std::unique_ptr<DynamicTable>> tables;
  DynamicTableOptions options = Options(16);
  options.reserved_bytes = DynamicTableOptions().reserved_bytes;
  options.stripes = 2;
  for (int i = 0; i < 3000; ++i) {
    tables.emplace_back(new DynamicTable(options));
    Check(tables.back()->AddSlot("m", 0, nullptr).ok(), "one slot");
    Check(tables.back()->AddSlot("v", 0, nullptr).ok(), "and another");
    FindAll(tables.back().get(), {1, 2, 3});
  }
  Check(AddressRegion::ReservedInAll() < int64_t{64} << 40, "half of the addresses are left");
  tables.clear();
  Check(AddressRegion::ReservedInAll() == 0, "all are given back");
}
#endif

// Whatever the table holds is what a map would.
void TestRandomOperations(int64_t num_operations, int num_threads, bool counts) {
  DynamicTable table(OptionsThatCount(2, counts));
  Check(table.AddSlot("m", 3, nullptr).ok(), "a slot");
  std::unordered_map<int64_t, float> model;
  std::mt19937_64 random(num_threads);
  Threads threads(num_threads);
  for (int64_t done = 0; done < num_operations;) {
    const int64_t count = 1 + random() % 20000;
    done += count;
    Numbers keys(count);
    const int64_t range = int64_t{1} << (4 + random() % 18);
    for (int64_t& key : keys) key = static_cast<int64_t>(random() % range) - range / 2;
    const int choice = random() % 8;
    if (choice == 0) {
      Erase(&table, keys, num_threads);
      for (int64_t key : keys) model.erase(key);
    } else if (choice == 1) {
      table.Compact();
    } else {
      const bool insert = choice < 5;
      const FoundRows found =
          FindAll(&table, keys, insert ? Purpose::kInsert : Purpose::kRead, num_threads);
      table.WillWrite(found.rows.data(), count);
      for (int64_t i = 0; i < count; ++i) {
        const auto known = model.find(keys[i]);
        if (known == model.end() && !insert) {
          Check(found.rows[i] == 0, "no row");
          continue;
        }
        float* const weights = Weights(&table, found.rows[i]);
        if (known == model.end()) {
          Check(weights[0] == 0 && weights[2] == 3, "a new row");
          model[keys[i]] = weights[0] = weights[2] = static_cast<float>(random() % 1000);
        } else {
          Check(weights[0] == known->second && weights[2] == weights[0], "the row of its key");
        }
      }
    }
    Check(table.size() == static_cast<int64_t>(model.size()), "as many keys");
  }
}

// Several lookups beside each other, some of which are held while others erase and compact.
void TestLookupsBesideEachOther(int num_threads, bool counts) {
  DynamicTable table(OptionsThatCount(1, counts));
  const int64_t keys_each = 4000;
  const auto train = [&](int thread) {
    std::mt19937_64 random(thread);
    Numbers keys(keys_each);
    for (int round = 0; round < 30; ++round) {
      for (int64_t& key : keys) key = random() % 50000;
      const FoundRows found = FindAll(&table, keys);
      const DynamicTable::ReadLock lock(&table);
      for (int64_t row : found.rows) Check(row >= table.rows().first_row, "has a row");
    }
  };
  const auto clean = [&] {
    std::mt19937_64 random(0);
    for (int round = 0; round < 200; ++round) {
      Numbers keys(500);
      for (int64_t& key : keys) key = random() % 50000;
      Erase(&table, keys);
      if (round % 20 == 0) table.Compact();
      if (round % 50 == 0) table.Snapshot();
      if (round % 70 == 0) Check(table.AddSlot(std::to_string(round), 0, nullptr).ok(), "a slot");
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < num_threads; ++i) threads.emplace_back(train, i + 1);
  threads.emplace_back(clean);
  for (std::thread& thread : threads) thread.join();
  Numbers keys(50000);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  Numbers rows = FindAll(&table, keys).rows;
  std::sort(rows.begin(), rows.end());
  Check(std::unique(rows.begin(), rows.end()) == rows.end(), "a row belongs to one key");
  Check(table.size() == 50000, "all are there");
}

void TestATableThatIsFullSaysSo() {
  DynamicTableOptions options = Options(64);
  options.stripes = 2;
  options.reserved_bytes = 1;
  DynamicTable table(options);
  Numbers keys(20000);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  FoundRows found;
  const absl::Status full = TryToFind(&table, FindOf(keys), &found);
  Check(absl::IsResourceExhausted(full), "full");
  Check(full.message().find("table table: all ") == 0, "names the table");
  Check(FindAll(&table, {0}, Purpose::kRead).rows[0] != 0, "what is there stays");
}

void TestATableWithALimitRefusesWhole(bool counts) {
  DynamicTableOptions options = OptionsThatCount(2, counts);
  options.policies.limit = {5, "most"};
  DynamicTable table(options);
  FindAll(&table, {1, 2, 3, 1});
  FoundRows found;
  const absl::Status full = TryToFind(&table, FindOf({4, 3, 5, 5, 6}), &found, 3);
  Check(absl::IsResourceExhausted(full), "three keys for two rows");
  Check(full.message().find("table table has 3 of at most 5 rows (most), and 3 new keys") == 0,
        "names the table and its limit");
  Check(table.size() == 3 && FindAll(&table, {4, 5, 6}, Purpose::kRead).rows == Numbers({0, 0, 0}),
        "nothing was added");
  FindAll(&table, {4, 4, 4, 5, 1, 2, 3});
  Check(table.size() == 5, "occurrences are no keys");
  DynamicTable::Contents contents;
  const Numbers more = {5, 6};
  contents.keys = more.data();
  contents.num_keys = 2;
  Sequential alone;
  Check(absl::IsResourceExhausted(table.Import(contents, &alone)), "whoever adds rows");
  Check(table.Erase(more.data(), 1, &alone) == 1 &&
            table.Import(contents, &alone).code() != absl::StatusCode::kOk,
        "a row for two keys");
  FindAll(&table, {6});
}

void TestLookupsAtOnceKeepALimit(bool counts) {
  DynamicTableOptions options = OptionsThatCount(2, counts);
  options.policies.limit = {1000, ""};
  DynamicTable table(options);
  std::atomic<int64_t> added{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      for (int64_t batch = 0; batch < 60; ++batch) {
        Numbers keys(7);
        for (size_t i = 0; i < keys.size(); ++i) keys[i] = (batch * 4 + number) * 7 + i;
        FoundRows found;
        if (TryToFind(&table, FindOf(keys), &found, 2).ok()) added += keys.size();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Check(table.size() == added && added == 1000 / 7 * 7, "all of a batch, or nothing");
}

}  // namespace
}  // namespace graph_opt

// The argument is how many random operations each number of threads does.
int main(int argc, char** argv) {
  const int64_t num_operations = argc > 1 ? std::atoll(argv[1]) : 200000;
  graph_opt::TestEveryNumberIsAKey();
  graph_opt::TestRowsBeginAsTheirKeysSay();
  graph_opt::TestDefaultRowsOfABank();
  graph_opt::TestDefaultRowsWithoutABank();
  graph_opt::TestSlotsAreAddedToRows();
  graph_opt::TestATableThatIsFullSaysSo();
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
  graph_opt::TestThousandsOfTables();
#endif
  for (bool counts : {false, true}) {
    graph_opt::TestHeldRowsAreNotGivenToOthers(counts);
    graph_opt::TestLookupsForEver(counts);
    graph_opt::TestMemoryIsGivenBack(counts);
    graph_opt::TestASnapshotDoesNotChange(counts);
    graph_opt::TestLookupsAtOnceKeepALimit(counts);
    graph_opt::TestATableWithALimitRefusesWhole(counts);
    for (int num_threads : {1, 2, 8}) {
      graph_opt::TestRandomOperations(num_operations / 2, num_threads, counts);
      graph_opt::TestLookupsBesideEachOther(num_threads, counts);
    }
  }
  return 0;
}
