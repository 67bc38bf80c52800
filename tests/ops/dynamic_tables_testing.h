// Shared by the tests of dynamic tables: tables, their rows and keys.
#ifndef GRAPH_OPT_TESTS_DYNAMIC_TABLES_TESTING_H_
#define GRAPH_OPT_TESTS_DYNAMIC_TABLES_TESTING_H_

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "dynamic/dynamic_table.h"
#include "dynamic/table_snapshot.h"
#include "functors_testing.h"

namespace graph_opt {

using Numbers = std::vector<int64_t>;
using Floats = std::vector<float>;
using Purpose = DynamicTable::Purpose;

inline DynamicTableOptions Options(int64_t dim) {
  DynamicTableOptions options;
  options.name = "table";
  options.dim = dim;
  options.reserved_bytes = int64_t{1} << 30;
  return options;
}

struct FoundRows {
  Numbers rows;
  std::shared_ptr<Hold> hold;
};

inline DynamicTable::Find FindOf(const Numbers& keys, Purpose purpose = Purpose::kInsert) {
  DynamicTable::Find find;
  find.keys = keys.data();
  find.num_keys = static_cast<int64_t>(keys.size());
  find.purpose = purpose;
  return find;
}

// As an op does that needs no more than the numbers of rows.
inline absl::Status TryToFind(DynamicTable* table, const DynamicTable::Find& find, FoundRows* found,
                              int num_threads = 1) {
  found->rows.resize(find.num_keys);
  Threads threads(num_threads);
  const DynamicTable::ReadLock lock(table);
  return table->FindRows(find, &threads, found->rows.data(), &found->hold);
}

inline FoundRows FindAll(DynamicTable* table, const Numbers& keys,
                         Purpose purpose = Purpose::kInsert, int num_threads = 1) {
  FoundRows found;
  Check(TryToFind(table, FindOf(keys, purpose), &found, num_threads).ok(), "rows are found");
  return found;
}

inline float* Weights(DynamicTable* table, int64_t row, int slot = -1) {
  const DynamicTable::Rows rows = table->rows();
  Check(row < rows.end, "the row is below the end");
  return reinterpret_cast<float*>(rows.base + row * rows.stride) + (1 + slot) * table->dim();
}

inline bool Has(DynamicTable* table, int64_t key) {
  return FindAll(table, {key}, Purpose::kRead).rows[0] >= table->rows().first_row;
}

inline std::set<int64_t> Keys(DynamicTable* table) {
  std::set<int64_t> keys;
  table->ForEachKey([&](int64_t key, uint32_t, const RowMetadata&) { keys.insert(key); });
  return keys;
}

inline int64_t Erase(DynamicTable* table, const Numbers& keys, int num_threads = 1) {
  Threads threads(num_threads);
  return table->Erase(keys.data(), static_cast<int64_t>(keys.size()), &threads);
}

inline absl::Status Import(DynamicTable* table, const DynamicTable::Contents& contents,
                           int num_threads = 1) {
  Threads threads(num_threads);
  return table->Import(contents, &threads);
}

inline Numbers FrequenciesOf(const DynamicTable& table, const Numbers& keys) {
  Numbers frequencies(keys.size());
  Sequential sequential;
  table.ReadMetadata(keys.data(), static_cast<int64_t>(keys.size()), &sequential,
                     frequencies.data(), nullptr);
  return frequencies;
}

inline Numbers VersionsOf(const DynamicTable& table, const Numbers& keys) {
  Numbers versions(keys.size());
  Sequential sequential;
  table.ReadMetadata(keys.data(), static_cast<int64_t>(keys.size()), &sequential, nullptr,
                     versions.data());
  return versions;
}

// The keys and weights of a snapshot.
struct SnapshotContents {
  explicit SnapshotContents(TableSnapshot* snapshot, int64_t dim)
      : keys(snapshot->size()), weights(snapshot->size() * dim) {
    TableSnapshot::Block block;
    block.keys = keys.data();
    block.weights = weights.data();
    snapshot->Read(0, snapshot->size(), block);
  }

  Numbers keys;
  Floats weights;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_TESTS_DYNAMIC_TABLES_TESTING_H_
