// The index of dynamic tables, in which so few lines may be that keys have passed all of them by.
#include "dynamic/row_index.h"

#include <cstdint>
#include <map>
#include <random>

#include "dynamic_tables_testing.h"

namespace graph_opt {
namespace {

// Of a key whose search begins in the first or in the last line.
uint64_t HashOf(int64_t key) { return key % 2 == 0 ? 0 : 0xffffffff; }

void TestSearchesEndWhereAllLinesWerePassedBy() {
  RowIndex index(2);
  for (int64_t key = 2; key <= 12; key += 2) index.Add(key, HashOf(key), key);
  index.Remove(2, HashOf(2));
  for (int64_t key = 1; key <= 9; key += 2) index.Add(key, HashOf(key), key);
  for (int64_t key = 100; key < 102; ++key) {
    Check(index.Find(key, HashOf(key)) == RowIndex::kAbsent, "a key without a row");
  }
  for (int64_t key : {4, 6, 8, 10, 12, 1, 3, 5, 7, 9}) {
    Check(index.Find(key, HashOf(key)) == key, "the row of its key");
  }
}

void TestSmallIndices() {
  std::mt19937_64 random(1);
  for (int64_t lines = 1; lines <= 4; ++lines) {
    RowIndex index(lines);
    std::map<int64_t, uint32_t> model;
    for (uint32_t done = 1; done < 20000; ++done) {
      const int64_t key = static_cast<int64_t>(random() % 40);
      const uint64_t hash = (key % 7) * 0x25000000;
      const auto known = model.find(key);
      Check(index.Find(key, hash) == (known == model.end() ? RowIndex::kAbsent : known->second),
            "what a map has");
      if (known != model.end()) {
        index.Remove(key, hash);
        model.erase(known);
      } else if (index.size() < 5 * lines) {
        index.Add(key, hash, done);
        model[key] = done;
      }
    }
  }
}

// Lookups that are sorted by stripe and those that are not.
void TestSmallTables(bool counts) {
  DynamicTableOptions options = Options(1);
  options.counts_lookups = counts;
  options.stripes = 2;
  DynamicTable table(options);
  std::mt19937_64 random(2);
  std::map<int64_t, bool> model;
  for (int done = 0; done < 20000; ++done) {
    const int64_t key = static_cast<int64_t>(random() % 12);
    if (random() % 2 == 0) {
      FindAll(&table, {key});
      model[key] = true;
    } else {
      Erase(&table, {key}, 1);
      model.erase(key);
    }
    const int64_t other = static_cast<int64_t>(random() % 24);
    Check(Has(&table, other) == (model.count(other) > 0), "a row for each key that has one");
  }
}

}  // namespace
}  // namespace graph_opt

int main() {
  graph_opt::TestSearchesEndWhereAllLinesWerePassedBy();
  graph_opt::TestSmallIndices();
  for (bool counts : {false, true}) graph_opt::TestSmallTables(counts);
}
