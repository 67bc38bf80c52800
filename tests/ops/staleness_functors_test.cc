// How many updates rows have missed, without TensorFlow: against counts that look at each row.
#include <algorithm>
#include <random>
#include <set>

#include "functors_testing.h"
#include "lookup/missed_updates.h"

namespace graph_opt {
namespace {

// Numbers below a bound, the same on every machine.
class Random {
 public:
  explicit Random(int seed) : bits_(seed) {}
  int64_t Below(int64_t bound) { return static_cast<int64_t>(bits_() % bound); }

 private:
  std::mt19937 bits_;
};

template <typename Id>
NamedRows Named(const std::vector<Id>& ids, int shard) {
  NamedRows rows;
  rows.wide = sizeof(Id) == 8;
  rows.ids = ids.data();
  rows.num_ids = static_cast<int64_t>(ids.size());
  rows.shard = shard;
  return rows;
}

template <typename Id>
std::vector<Id> RandomIds(Random* random, int64_t rows) {
  std::vector<Id> ids(random->Below(30));
  for (Id& id : ids) id = static_cast<Id>(random->Below(rows + 2)) - 1;  // some name no row
  return ids;
}

template <typename Id>
void HistogramIsThatOfARowByRowCount(int seed) {
  Random random(seed);
  const Partition partition = seed % 2 == 0 ? Partition::kMod : Partition::kDiv;
  std::vector<int64_t> sizes(1 + seed % 3, 7);
  if (partition == Partition::kMod && seed % 4 == 0) sizes[0] = 8;
  const TableShards shards(partition, sizes);
  const std::vector<Id> used = RandomIds<Id>(&random, shards.num_rows());
  MissedUpdates rows(shards);
  rows.Use(Named(used, -1));
  rows.Use(Named(used, -1));
  std::vector<int> counts(shards.num_rows(), 0);
  for (int update = seed % 5; update > 0; --update) {
    const std::vector<Id> of_table = RandomIds<Id>(&random, shards.num_rows());
    const int shard = static_cast<int>(random.Below(shards.num_shards()));
    const std::vector<Id> of_shard = RandomIds<Id>(&random, sizes[shard]);
    std::set<int64_t> written;
    for (Id id : of_table) written.insert(shards.KeyOf(id));
    for (Id row : of_shard) {
      if (row >= 0 && row < sizes[shard]) written.insert(shards.first_key(shard) + row);
    }
    for (int64_t key : written) {
      if (key >= 0) ++counts[key];
    }
    rows.Miss({Named(of_table, -1), Named(of_shard, shard)});
  }
  std::set<int64_t> keys;
  for (Id id : used) keys.insert(shards.KeyOf(id));
  keys.erase(-1);
  std::vector<int64_t> expected(3, 0);
  for (int64_t key : keys) ++expected[std::min(counts[key], 2)];
  CHECK(rows.Histogram(3) == expected);
}

void SquaresAreThoseOfTheColumns() {
  const std::vector<float> used = {1, 2, 3, 4, 5, 6};
  const std::vector<float> fresh = {1, 2, 5, 4, 4, 6};
  Columns before;
  before.data = used.data();
  before.num_rows = 2;
  before.stride = 3;
  before.first = 1;
  before.width = 2;
  Columns now = before;
  now.data = fresh.data();
  Squares sums;
  AddSquares(before, now, &sums);
  CHECK(sums.difference == 5.0);
  CHECK(sums.value == 4.0 + 25.0 + 16.0 + 36.0);
  const Half halves[] = {FloatToHalf(1.5f), FloatToHalf(-2.0f)};
  const Bfloat16 ones[] = {Bfloat16{0x3f80}, Bfloat16{0x4000}};  // 1 and 2
  for (const bool half : {true, false}) {
    now.type = half ? RowType::kHalf : RowType::kBfloat16;
    now.data = half ? static_cast<const void*>(halves) : ones;
    now.num_rows = 1;
    now.first = 0;
    Squares own;
    AddSquares(now, now, &own);
    CHECK(own.difference == 0.0);
    CHECK(own.value == (half ? 6.25 : 5.0));
  }
}

}  // namespace
}  // namespace graph_opt

int main() {
  for (int seed = 0; seed < 200; ++seed) {
    graph_opt::HistogramIsThatOfARowByRowCount<int64_t>(seed);
    graph_opt::HistogramIsThatOfARowByRowCount<int32_t>(seed);
  }
  graph_opt::SquaresAreThoseOfTheColumns();
  return 0;
}
