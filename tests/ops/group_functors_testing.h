// Shared by the tests of the group functors: random groups, and their expected results.
#ifndef GRAPH_OPT_TESTS_GROUP_FUNCTORS_TESTING_H_
#define GRAPH_OPT_TESTS_GROUP_FUNCTORS_TESTING_H_

#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "apply/group_apply.h"
#include "functors_testing.h"
#include "lookup/group_gradient.h"
#include "lookup/group_lookup.h"

namespace graph_opt {

using Random = std::mt19937;

inline int64_t Below(Random* random, int64_t end) { return (*random)() % end; }

inline float Number(Random* random) { return static_cast<float>(Below(random, 2001) - 1000) / 256; }

// A table and its shards, in memory of exactly the right size, so that a sanitizer notices each
// access outside it. Rows have `stride` floats, of which the first are the table's.
struct OwnedTable {
  OwnedTable(Random* random, int64_t rows, int64_t dim, int shards, Partition partition,
             int64_t stride = 0)
      : dim(dim), stride(stride == 0 ? dim : stride) {
    std::vector<int64_t> counts;
    for (int s = 0; s < shards; ++s) counts.push_back(rows / shards + (s < rows % shards));
    map = TableShards(partition, counts);
    for (int64_t count : counts) {
      parts.emplace_back(count * this->stride);
      for (float& value : parts.back()) value = Number(random);
    }
  }

  Table AsTable() const {
    Table table;
    table.shards = map;
    table.dim = dim;
    for (const auto& part : parts) table.data.push_back(part.data());
    if (stride != dim) table.strides.assign(parts.size(), stride * sizeof(float));
    return table;
  }

  const float* Row(int64_t id) const {
    return reinterpret_cast<const float*>(AsTable().Row(map.KeyOf(id)));
  }

  int64_t dim;
  int64_t stride;
  TableShards map;
  std::vector<std::vector<float>> parts;
};

// The ids of a lookup, in the requested layout.
struct OwnedBags {
  OwnedBags(Random* random, int64_t bags_wanted, int64_t rows, bool weighted) {
    bags.layout = static_cast<Bags::Layout>(Below(random, 3));
    bags.combiner = static_cast<Combiner>(Below(random, 3));
    bags.default_id = rows > 0 && Below(random, 2) ? Below(random, rows) : -1;
    filled_id = rows > 0 && bags.default_id < 0 && Below(random, 2) ? Below(random, rows) : -1;
    bags.wide_ids = Below(random, 2);
    bags.num_bags = bags_wanted;
    bags.width = Below(random, 4);
    positions.assign(bags.layout == Bags::kRagged ? 1 : 0, 0);
    for (int64_t bag = 0; bag < bags_wanted; ++bag) {
      int64_t size = Below(random, 10) ? Below(random, 5) : Below(random, 40);
      if (bags.layout == Bags::kDense) size = bags.width;
      for (int64_t i = 0; i < size; ++i) {
        ids.push_back(rows == 0 || Below(random, 6) == 0 ? -1 : Below(random, rows));
        weights.push_back(Number(random));
        if (bags.layout == Bags::kSparse) positions.insert(positions.end(), {bag, i});
      }
      if (bags.layout == Bags::kRagged) positions.push_back(static_cast<int64_t>(ids.size()));
    }
    if (bags.layout == Bags::kSparse && Below(random, 4) == 0) Shuffle(random);
    narrow_ids.assign(ids.begin(), ids.end());
    bags.num_ids = static_cast<int64_t>(ids.size());
    bags.ids = bags.wide_ids ? static_cast<const void*>(ids.data()) : narrow_ids.data();
    bags.positions = positions.data();
    bags.stride = 2;
    if (weighted) bags.weights = weights.data();
  }
  OwnedBags(const OwnedBags&) = delete;

  void Shuffle(Random* random) {
    for (int64_t k = static_cast<int64_t>(ids.size()) - 1; k > 0; --k) {
      const int64_t other = Below(random, k + 1);
      std::swap(ids[k], ids[other]);
      std::swap(weights[k], weights[other]);
      std::swap(positions[2 * k], positions[2 * other]);
    }
  }

  Bags bags;
  int64_t filled_id = -1;  // of gradients
  std::vector<int64_t> ids;
  std::vector<int32_t> narrow_ids;
  std::vector<int64_t> positions;
  std::vector<float> weights;
};

struct Occurrence {
  int64_t id;
  double weight;
};

// The bags as lists, as the comment of Bags specifies.
inline std::vector<std::vector<Occurrence>> Lists(const OwnedBags& owned) {
  const Bags& bags = owned.bags;
  std::vector<std::vector<Occurrence>> lists(bags.num_bags);
  int64_t bag = 0;
  for (int64_t k = 0; k < bags.num_ids; ++k) {
    if (bags.layout == Bags::kDense) bag = k / bags.width;
    if (bags.layout == Bags::kSparse) bag = bags.positions[2 * k];
    if (bags.layout == Bags::kRagged) {
      while (bags.positions[bag + 1] <= k) ++bag;
    }
    const float weight = bags.weights == nullptr ? 1 : bags.weights[k];
    if (owned.ids[k] < 0 || (bags.combiner != Combiner::kSum && !(weight > 0))) continue;
    lists[bag].push_back(Occurrence{owned.ids[k], weight});
  }
  for (auto& list : lists) {
    if (list.empty() && bags.default_id >= 0) list.push_back(Occurrence{bags.default_id, 1});
  }
  return lists;
}

inline double NormOf(const std::vector<Occurrence>& list, Combiner combiner) {
  double total = 0;
  for (const Occurrence& one : list) {
    total += combiner == Combiner::kSqrtN ? one.weight * one.weight : one.weight;
  }
  if (combiner == Combiner::kSum) return 1;
  return combiner == Combiner::kMean ? total : std::sqrt(total);
}

inline bool Near(double a, double b) { return std::abs(a - b) <= 2e-4 * (1 + std::abs(a)); }

struct Group {
  // With `many` bags, lookups and tables are split into pieces for the threads. Rows of some tables
  // may have slots beside them.
  Group(Random* random, int num_tables, int num_lookups, bool weighted, bool many,
        bool beside_slots = false) {
    const int64_t dims[] = {1, 3, 4, 7, 8, 10, 16, 17, 33, 64, 67, 130};
    for (int t = 0; t < num_tables; ++t) {
      const Partition partition = Below(random, 2) ? Partition::kMod : Partition::kDiv;
      const int64_t dim = dims[Below(random, 12)];
      // If a table has few ids for its size, its rows are sorted; others are ordered by bits.
      const bool is_long = dim <= 17 && Below(random, 4) == 0;
      tables.emplace_back(random, Below(random, is_long ? 30000 : 60), dim,
                          static_cast<int>(1 + Below(random, 3)), partition,
                          beside_slots && t % 2 == 0 ? 3 * dim : dim);
    }
    for (int i = 0; i < num_lookups; ++i) {
      lookup_tables.push_back(i < num_tables ? i : static_cast<int>(Below(random, num_tables)));
      bags.emplace_back(new OwnedBags(random, Below(random, 50) + (many ? 4000 : 0),
                                      tables[lookup_tables[i]].map.num_rows(),
                                      weighted && Below(random, 2)));
      const int64_t size = bags[i]->bags.num_bags * tables[lookup_tables[i]].dim;
      pooled.emplace_back(size, 77.0f);
      gradients.emplace_back(size);
      for (float& value : gradients.back()) value = Number(random);
    }
  }

  std::vector<Table> Tables() const {
    std::vector<Table> all;
    for (const OwnedTable& table : tables) all.push_back(table.AsTable());
    return all;
  }

  std::vector<Lookup> Lookups() {
    std::vector<Lookup> all(bags.size());
    for (size_t i = 0; i < bags.size(); ++i) {
      all[i].bags = bags[i]->bags;
      all[i].table = lookup_tables[i];
      all[i].pooled = pooled[i].data();
      all[i].pooled_stride = tables[lookup_tables[i]].dim;
    }
    return all;
  }

  std::vector<PooledGradient> Gradients() const {
    std::vector<PooledGradient> all(bags.size());
    for (size_t i = 0; i < bags.size(); ++i) {
      all[i].bags = bags[i]->bags;
      all[i].bags.filled_id = bags[i]->filled_id;
      all[i].table = lookup_tables[i];
      all[i].gradients = gradients[i].data();
      all[i].stride = tables[lookup_tables[i]].dim;
    }
    return all;
  }

  // The gradient of each looked-up row of a table, by key.
  std::map<int64_t, std::vector<double>> Expected(int table) const {
    std::map<int64_t, std::vector<double>> sums;
    const int64_t dim = tables[table].dim;
    for (size_t i = 0; i < bags.size(); ++i) {
      if (lookup_tables[i] != table) continue;
      const auto lists = Lists(*bags[i]);
      for (size_t bag = 0; bag < lists.size(); ++bag) {
        const double norm = NormOf(lists[bag], bags[i]->bags.combiner);
        if (lists[bag].empty() && bags[i]->filled_id >= 0) {
          sums[tables[table].map.KeyOf(bags[i]->filled_id)].resize(dim);
        }
        for (const Occurrence& one : lists[bag]) {
          std::vector<double>& sum = sums[tables[table].map.KeyOf(one.id)];
          sum.resize(dim);
          for (int64_t d = 0; d < dim; ++d) {
            sum[d] += gradients[i][bag * dim + d] * one.weight / norm;
          }
        }
      }
    }
    return sums;
  }

  std::vector<OwnedTable> tables;
  std::vector<int> lookup_tables;
  std::vector<std::unique_ptr<OwnedBags>> bags;
  std::vector<std::vector<float>> pooled;
  std::vector<std::vector<float>> gradients;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_TESTS_GROUP_FUNCTORS_TESTING_H_
