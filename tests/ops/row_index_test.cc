// The index of dynamic tables, in which so few lines may be that keys have passed all of them by.
#include "dynamic/row_index.h"

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "dynamic_tables_testing.h"
#include "keys/key_hash.h"
#include "rows/row_kernels.h"

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

uint64_t Mixed(int64_t key) { return MixKey(static_cast<uint64_t>(key)); }

// Four indices, each of the keys whose hashes begin with its number.
class Stripes {
 public:
  static constexpr int kShift = 62;

  explicit Stripes(int64_t lines) {
    for (int i = 0; i < 4; ++i) indices_.emplace_back(new RowIndex(lines));
  }

  // Adds a key, or removes it if it has a row.
  void Change(int64_t key, uint32_t row) {
    RowIndex* const index = indices_[Mixed(key) >> kShift].get();
    if (model_.count(key) > 0) {
      index->Remove(key, Mixed(key));
      model_.erase(key);
    } else if (index->size() < kKeysPerLine * index->lines()) {
      index->Add(key, Mixed(key), row);
      model_[key] = row;
    }
  }

  std::vector<KeyLines> lines() const {
    std::vector<KeyLines> lines;
    for (const auto& index : indices_) lines.push_back(index->key_lines());
    return lines;
  }

  uint32_t RowOf(int64_t key) const {
    const auto known = model_.find(key);
    return known == model_.end() ? kNoRow : known->second;
  }

 private:
  std::vector<std::unique_ptr<RowIndex>> indices_;
  std::map<int64_t, uint32_t> model_;
};

// Numbers that a search would take for keys if it compared whole lines.
void AddWordsBesideKeys(const std::vector<KeyLines>& stripes, Numbers* keys) {
  for (const KeyLines& lines : stripes) {
    for (uint64_t i = 0; i < lines.count; ++i) {
      int64_t words[3];
      std::memcpy(words, &lines.first[i], sizeof(words));
      keys->insert(keys->end(), words, words + 3);
    }
  }
}

void TestSearch(const RowKernels& kernels, const Stripes& stripes, const Numbers& keys,
                int64_t begin) {
  const std::vector<KeyLines> lines = stripes.lines();
  const int64_t end = static_cast<int64_t>(keys.size());
  Numbers rows(keys.size(), -1);
  std::vector<uint32_t> missed(keys.size());
  KeySearch search;
  search.stripes = lines.data();
  search.stripe_shift = Stripes::kShift;
  search.keys = keys.data();
  search.begin = begin;
  search.end = end;
  search.rows = rows.data();
  search.missed = missed.data();
  const int64_t num_missed = kernels.search_keys(search);
  int64_t absent = 0;
  for (int64_t i = 0; i < end; ++i) {
    const int64_t row = i < begin ? -1 : int64_t{stripes.RowOf(keys[i])};
    Check(rows[i] == row, "what a map has, for the keys that were asked for");
    if (row == kNoRow) Check(missed[absent++] == i, "the places of keys without a row");
  }
  Check(num_missed == absent, "and their number");
}

// Where keys were removed, lines have them still.
void TestSearchesOfEveryInstructionSet() {
  std::mt19937_64 random(3);
  for (int64_t lines : {1, 3, 50}) {
    Stripes stripes(lines);
    const int64_t range = 30 * lines;
    for (int64_t round = 1; round <= 60; ++round) {
      for (int change = 0; change < 10 * lines; ++change) {
        const uint32_t row = static_cast<uint32_t>(1 + random() % 0xffffffff);
        stripes.Change(static_cast<int64_t>(random() % range) - range / 2, row);
      }
      Numbers keys(random() % 3000);
      for (int64_t& key : keys) key = static_cast<int64_t>(random() % range) - range / 2;
      AddWordsBesideKeys(stripes.lines(), &keys);
      const int64_t begin = static_cast<int64_t>(random() % keys.size());
      for (const RowKernels* const* set = RunnableRowKernels(); *set != nullptr; ++set) {
        TestSearch(**set, stripes, keys, begin);
        TestSearch(**set, stripes, keys, static_cast<int64_t>(keys.size()));
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
  graph_opt::TestSearchesOfEveryInstructionSet();
  for (bool counts : {false, true}) graph_opt::TestSmallTables(counts);
}
