// The functors of group lookups without TensorFlow, on random groups, compared with plain loops in
// double precision.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <utility>
#include <vector>

#include "group_functors_testing.h"
#include "lookup/radix_sort.h"
#include "scratch/scratch_pool.h"

namespace graph_opt {
namespace {

void PoolsAsTheLoopDoes(const RowKernels& kernels, int seed) {
  Random random(seed);
  Group group(&random, 3, 5, seed % 2 == 1, seed % 10 == 4 || seed % 10 == 7, seed % 5 == 0);
  Threads threads(1 + seed % 3);
  CHECK(GroupLookup(group.Tables(), group.Lookups(), kernels, &threads).kind == BagFault::kNone);
  for (size_t i = 0; i < group.bags.size(); ++i) {
    const OwnedTable& table = group.tables[group.lookup_tables[i]];
    const auto lists = Lists(*group.bags[i]);
    for (size_t bag = 0; bag < lists.size(); ++bag) {
      const double norm = NormOf(lists[bag], group.bags[i]->bags.combiner);
      std::vector<double> sums(table.dim);
      for (const Occurrence& one : lists[bag]) {
        const float* row = table.Row(one.id);
        for (int64_t d = 0; d < table.dim; ++d) sums[d] += row[d] * one.weight;
      }
      for (int64_t d = 0; d < table.dim; ++d) {
        const double expected = lists[bag].empty() ? 0 : sums[d] / norm;
        CHECK(Near(expected, group.pooled[i][bag * table.dim + d]));
      }
    }
  }
}

void SumsGradientsByRow(const RowKernels& kernels, int seed) {
  Random random(seed);
  const Group group(&random, 2, 4, seed % 2 == 1, seed % 10 == 4 || seed % 10 == 7);
  std::vector<GradientTable> tables(group.tables.size());
  for (size_t t = 0; t < tables.size(); ++t) {
    tables[t].shards = group.tables[t].map;
    tables[t].dim = group.tables[t].dim;
  }
  Threads threads(1 + seed % 3);
  GroupGradient gradient(tables, group.Gradients(), kernels, &threads);
  CHECK(gradient.Sort().kind == BagFault::kNone);
  std::vector<std::vector<std::vector<int64_t>>> indices(tables.size());
  std::vector<std::vector<std::vector<float>>> values(tables.size());
  std::vector<std::vector<GroupGradient::ShardSums>> sums(tables.size());
  for (size_t t = 0; t < tables.size(); ++t) {
    for (int shard = 0; shard < tables[t].shards.num_shards(); ++shard) {
      const int64_t rows = gradient.NumRows(static_cast<int>(t), shard);
      indices[t].emplace_back(rows);
      values[t].emplace_back(rows * tables[t].dim);
      sums[t].push_back({indices[t].back().data(), values[t].back().data()});
    }
  }
  gradient.SumRows(sums);
  for (size_t t = 0; t < tables.size(); ++t) {
    const auto expected = group.Expected(static_cast<int>(t));
    auto next = expected.begin();
    for (int shard = 0; shard < tables[t].shards.num_shards(); ++shard) {
      for (size_t j = 0; j < indices[t][shard].size(); ++j, ++next) {
        CHECK(next != expected.end());
        CHECK(next->first == tables[t].shards.first_key(shard) + indices[t][shard][j]);
        for (int64_t d = 0; d < tables[t].dim; ++d) {
          CHECK(Near(next->second[d], values[t][shard][j * tables[t].dim + d]));
        }
      }
    }
    CHECK(next == expected.end());
  }
}

void UpdatesOnlyRowsLookedUp(const RowKernels& kernels, int seed) {
  Random random(seed);
  Group group(&random, 2, 3, false, seed % 10 == 4 || seed % 10 == 7, seed % 5 == 0);
  const int64_t first_row = seed % 3;
  const std::vector<OwnedTable> before = group.tables;
  std::vector<UpdatedTable> updated(group.tables.size());
  for (size_t t = 0; t < updated.size(); ++t) {
    updated[t].table.shards = group.tables[t].map;
    updated[t].table.dim = group.tables[t].dim;
    for (auto& part : group.tables[t].parts) {
      UpdatedTable::Shard shard = {part.data(), {}};
      shard.stride = group.tables[t].stride;
      shard.first_row = first_row;
      updated[t].shards.push_back(shard);
    }
  }
  const float learning_rate = 0.5f;
  Optimizer optimizer;
  CHECK(graph_opt_make_optimizer("GradientDescent", &learning_rate, 1, nullptr, 0, &optimizer) ==
        nullptr);
  Threads threads(1 + seed % 3);
  CHECK(GroupApply(optimizer, updated, group.Gradients(), kernels, &threads).kind ==
        BagFault::kNone);
  for (size_t t = 0; t < updated.size(); ++t) {
    auto expected = group.Expected(static_cast<int>(t));
    for (int64_t id = 0; id < before[t].map.num_rows(); ++id) {
      const int64_t key = before[t].map.KeyOf(id);
      std::vector<double>& sum = expected[key];
      const int64_t row = key - before[t].map.first_key(before[t].map.ShardOf(key));
      const bool looked_up = !sum.empty() && row >= first_row;
      sum.resize(before[t].dim);
      const float* was = before[t].Row(id);
      const float* is = group.tables[t].Row(id);
      for (int64_t d = 0; d < before[t].dim; ++d) {
        CHECK(looked_up ? Near(was[d] - 0.5 * sum[d], is[d]) : is[d] == was[d]);
      }
    }
  }
}

void SixteenBitRowsAreRoundedOnce(const RowKernels& kernels) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const Half half = {static_cast<uint16_t>(bits)};
    const bool is_nan = (bits & 0x7c00) == 0x7c00 && (bits & 0x3ff) != 0;
    CHECK(is_nan || FloatToHalf(HalfToFloat(half)).bits == bits);
  }
  CHECK(FloatToHalf(65519.0f).bits == 0x7bff && FloatToHalf(65520.0f).bits == 0x7c00);
  CHECK(FloatToHalf(2049.0f).bits == FloatToHalf(2048.0f).bits);
  for (RowType type : {RowType::kHalf, RowType::kBfloat16}) {
    const int64_t dim = 19;
    const uint16_t one = type == RowType::kHalf ? 0x3c00 : 0x3f80;
    std::vector<uint16_t> row(dim, one);
    std::vector<uint16_t> pooled(dim);
    std::vector<const void*> rows(3, row.data());
    const int64_t offsets[] = {0, 3};
    PoolBlock block{rows.data(),    offsets,       1,   nullptr, dim, type,
                    Combiner::kSum, pooled.data(), dim, type};
    kernels.pool(block);
    for (uint16_t value : pooled) CHECK(value == (type == RowType::kHalf ? 0x4200 : 0x4040));
  }
}

// The shards of a table in another type; the table's floats become what they stand for.
struct LowPrecision {
  LowPrecision(OwnedTable* table, RowType type) : type(type) {
    for (auto& part : table->parts) {
      const int64_t row_bytes = RowBytesOf(type, table->dim);
      const int64_t rows = static_cast<int64_t>(part.size()) / table->dim;
      parts.emplace_back(rows * row_bytes);
      for (int64_t row = 0; row < rows; ++row) {
        Encode(part.data() + row * table->dim, table->dim, parts.back().data() + row * row_bytes);
      }
    }
  }

  void Encode(float* row, int64_t dim, char* to) const {
    const float scale = 0.01f + std::abs(row[0]) / 127;
    if (type == RowType::kScaledBytes) std::memcpy(to, &scale, sizeof(scale));
    for (int64_t d = 0; d < dim; ++d) {
      if (type == RowType::kScaledBytes) {
        const int8_t number = static_cast<int8_t>(row[d] * 32);
        row[d] = static_cast<float>(number) * scale;
        to[kScaleBytes + d] = static_cast<char>(number);
      } else if (type == RowType::kHalf) {
        const Half half = FloatToHalf(row[d]);
        row[d] = HalfToFloat(half);
        std::memcpy(to + 2 * d, &half, sizeof(half));
      } else {
        uint32_t bits;
        std::memcpy(&bits, &row[d], sizeof(bits));
        bits &= 0xffff0000;
        std::memcpy(&row[d], &bits, sizeof(bits));
        bits >>= 16;
        std::memcpy(to + 2 * d, &bits, 2);
      }
    }
  }

  Table AsTable(const OwnedTable& of) const {
    Table table;
    table.shards = of.map;
    table.dim = of.dim;
    table.type = type;
    for (const auto& part : parts) table.data.push_back(part.data());
    return table;
  }

  RowType type;
  std::vector<std::vector<char>> parts;
};

// The same bits as of a table of floats with the same values.
void TablesOfLowPrecisionArePooledIntoFloats(const RowKernels& kernels, int seed) {
  for (RowType type : {RowType::kHalf, RowType::kBfloat16, RowType::kScaledBytes}) {
    Random random(seed);
    Group group(&random, 3, 6, seed % 2 == 1, seed % 10 == 4);
    if (seed % 3 == 0) {  // bags of one id, whose rows are not pooled
      for (auto& one : group.bags) {
        one->bags.layout = Bags::kDense;
        one->bags.width = 1;
        one->bags.num_bags = one->bags.num_ids = std::min(one->bags.num_bags, one->bags.num_ids);
      }
    }
    std::vector<LowPrecision> low;
    std::vector<Table> tables;
    for (OwnedTable& table : group.tables) low.emplace_back(&table, type);
    for (size_t t = 0; t < low.size(); ++t) tables.push_back(low[t].AsTable(group.tables[t]));
    Threads threads(1 + seed % 3);
    const auto lookups = group.Lookups();
    CHECK(GroupLookup(group.Tables(), lookups, kernels, &threads).kind == BagFault::kNone);
    const auto expected = group.pooled;
    for (auto& pooled : group.pooled) std::fill(pooled.begin(), pooled.end(), 77.0f);
    CHECK(GroupLookup(tables, lookups, kernels, &threads).kind == BagFault::kNone);
    CHECK(group.pooled == expected);
  }
}

void FaultsAreFound(const RowKernels& kernels) {
  Random random(1);
  const OwnedTable table(&random, 10, 4, 1, Partition::kMod);
  std::vector<int64_t> ids = {1, 2, 10, 3};
  std::vector<int64_t> rows = {0, 1, 1, 2};
  std::vector<float> pooled(3 * 4);
  Lookup lookup;
  lookup.bags.layout = Bags::kSparse;
  lookup.bags.ids = ids.data();
  lookup.bags.num_ids = 4;
  lookup.bags.positions = rows.data();
  lookup.bags.num_bags = 3;
  lookup.pooled = pooled.data();
  lookup.pooled_stride = 4;
  Threads threads(2);
  const auto fault = [&] { return GroupLookup({table.AsTable()}, {lookup}, kernels, &threads); };
  CHECK(fault().kind == BagFault::kIdOutOfRange && fault().bag == 1 && fault().id == 10);
  ids[2] = std::numeric_limits<int64_t>::max();
  CHECK(fault().kind == BagFault::kIdOutOfRange);
  ids[2] = 9;
  CHECK(fault().kind == BagFault::kNone);
  for (bool safe : {false, true}) {
    lookup.bags.safe = safe;
    for (const std::vector<int64_t>& bad :
         std::vector<std::vector<int64_t>>{{0, 1, 1, 3}, {-1, 0, 0, 0}, {2, 3, 1, 0}}) {
      rows = bad;
      lookup.bags.positions = rows.data();
      CHECK(fault().kind == BagFault::kPositionsOutOfOrder);
    }
    for (const std::vector<int64_t>& other :
         std::vector<std::vector<int64_t>>{{0, 1, 0, 2}, {2, 1, 1, 0}}) {
      rows = other;
      lookup.bags.positions = rows.data();
      CHECK(fault().kind == (safe ? BagFault::kNone : BagFault::kPositionsOutOfOrder));
    }
  }
  lookup.bags.layout = Bags::kRagged;
  for (const std::vector<int64_t>& bad : std::vector<std::vector<int64_t>>{
           {1, 2, 3, 4}, {0, 3, 2, 4}, {0, 1, 2, 3}, {0, 1, 2, 5}, {0, -1, 2, 4}}) {
    rows = bad;
    lookup.bags.positions = rows.data();
    CHECK(fault().kind == BagFault::kPositionsOutOfOrder);
  }
  lookup.bags.num_bags = 0;
  CHECK(fault().kind == BagFault::kPositionsOutOfOrder);
}

// Writing past the caches gives the same, and a copy stops at bags that are not single ids.
void CopiesSingleRowsUntilOneIsNone(const RowKernels& kernels) {
  constexpr int64_t kCount = 200;
  constexpr int64_t kRows = 50;
  for (int64_t dim : {1, 2, 3, 5, 9, 16, 20, 27, 64}) {
    const int64_t stride = dim == 16 ? 2 * dim : dim;
    const std::vector<float> table = [stride] {
      std::vector<float> rows(kRows * stride);
      for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i);
      return rows;
    }();
    for (int64_t stop : {int64_t{0}, int64_t{1}, int64_t{150}, kCount}) {
      for (int kind = 0; kind < 6; ++kind) {  // bad position, id too large, negative; cached or not
        std::vector<int64_t> ids(kCount);
        std::vector<int64_t> positions(2 * kCount);
        for (int64_t i = 0; i < kCount; ++i) ids[i] = i * 7 % kRows;
        for (int64_t i = 0; i < kCount; ++i) positions[2 * i] = 5 + i;
        if (stop < kCount && kind % 3 == 0) positions[2 * stop] -= 1;
        if (stop < kCount && kind % 3 == 1) ids[stop] = std::numeric_limits<int64_t>::max();
        if (stop < kCount && kind % 3 == 2) ids[stop] = -1;
        std::vector<float> memory(kCount * dim + 16, -1.0f);
        float* pooled = memory.data();
        while (reinterpret_cast<uintptr_t>(pooled) % 64 != 0) ++pooled;
        SingleRows block = {};
        block.ids = ids.data();
        block.wide_ids = true;
        block.positions = positions.data();
        block.stride = 2;
        block.first_bag = 5;
        block.count = kCount;
        block.rows = table.data();
        block.num_rows = kRows;
        block.row_bytes = dim * 4;
        block.row_stride = stride * 4;
        block.pooled = pooled;
        block.pooled_bytes = dim * 4;
        block.past_caches = kind >= 3;
        CHECK(kernels.copy_rows(block) == stop);
        for (int64_t i = 0; i < kCount * dim; ++i) {
          const int64_t bag = i / dim;
          CHECK(pooled[i] == (bag < stop ? table[ids[bag] * stride + i % dim] : -1.0f));
        }
      }
    }
  }
}

// Whatever the width of rows, those of 16 bits are copied, widened, summed and rounded as single
// elements are, and nothing beside them is written.
void SixteenBitRowsOfAnyWidth(const RowKernels& kernels) {
  constexpr uint16_t kGuard = 0x5a5a;
  constexpr int64_t kMostWidth = 70;
  Random random(11);
  for (RowType type : {RowType::kHalf, RowType::kBfloat16}) {
    std::vector<uint16_t> table(2 * kMostWidth);
    for (uint16_t& element : table) {  // small whole numbers, of which sums are exact
      const float value = static_cast<float>(static_cast<int>(random() % 64) - 32);
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof(bits));
      element = type == RowType::kHalf ? FloatToHalf(value).bits : uint16_t(bits >> 16);
    }
    const auto value_of = [type](uint16_t element) {
      const uint32_t bits = uint32_t{element} << 16;
      float value;
      std::memcpy(&value, &bits, sizeof(value));
      return type == RowType::kHalf ? HalfToFloat(Half{element}) : value;
    };
    for (int64_t dim = 1; dim <= kMostWidth; ++dim) {
      const void* rows[] = {table.data(), table.data(), table.data() + dim};
      const int64_t offsets[] = {0, 1, 3};  // a bag of one id, and one of two
      std::vector<uint16_t> narrow(2 * dim + 1, kGuard);
      std::vector<float> wide(2 * dim + 1, 77.0f);
      PoolBlock block = {};
      block.rows = rows;
      block.offsets = offsets;
      block.num_bags = 2;
      block.dim = dim;
      block.type = type;
      block.combiner = Combiner::kSum;
      block.pooled = narrow.data();
      block.pooled_stride = dim;
      block.pooled_type = type;
      kernels.pool(block);
      block.pooled = wide.data();
      block.pooled_type = RowType::kFloat;
      kernels.pool(block);
      for (int64_t d = 0; d < dim; ++d) {
        const float sum = value_of(table[d]) + value_of(table[dim + d]);
        CHECK(narrow[d] == table[d] && wide[d] == value_of(table[d]));
        CHECK(wide[dim + d] == sum && value_of(narrow[dim + d]) == sum);
      }
      CHECK(narrow[2 * dim] == kGuard && wide[2 * dim] == 77.0f);
      std::vector<uint16_t> copied(2 * dim + 1, kGuard);
      const int32_t ids[] = {1, 0};
      SingleRows single = {};
      single.ids = ids;
      single.count = 2;
      single.rows = table.data();
      single.num_rows = 2;
      single.row_bytes = single.row_stride = single.pooled_bytes = 2 * dim;
      single.pooled = copied.data();
      single.type = single.pooled_type = type;
      single.dim = dim;
      CHECK(kernels.copy_rows(single) == 2);
      for (int64_t d = 0; d < dim; ++d) {
        CHECK(copied[d] == table[dim + d] && copied[dim + d] == table[d]);
      }
      CHECK(copied[2 * dim] == kGuard);
    }
  }
}

void SortsAndKeepsTheOrderOfEqualKeys() {
  for (const auto& shape : std::vector<std::pair<size_t, int>>{
           {0, 5}, {5, 3}, {191, 9}, {192, 1}, {1000, 0}, {5000, 13}, {3000, 40}}) {
    Random random(static_cast<uint32_t>(shape.first));
    const int low = 20;
    std::vector<uint64_t> words;
    for (size_t i = 0; i < shape.first; ++i) {
      const uint64_t wide = uint64_t{random()} << 32 | random();
      const uint64_t key = wide & ((uint64_t{1} << shape.second) - 1);
      words.push_back(key << low | i);
    }
    std::vector<uint64_t> expected = words;
    std::sort(expected.begin(), expected.end());
    ScratchArray<uint64_t> sorted(static_cast<int64_t>(words.size()));
    ScratchArray<uint64_t> scratch;
    std::copy(words.begin(), words.end(), sorted.data());
    RadixSort(low, low + shape.second, &sorted, &scratch, shape.first);
    CHECK(std::equal(expected.begin(), expected.end(), sorted.data()));
  }
}

// Memory of a large call is returned to the system once enough calls have not needed it.
void MemoryOfALargeCallIsGivenBack() {
  constexpr int64_t kLarge = 1 << 26;
  constexpr int64_t kSmall = 1 << 20;
  ScratchPool pool;
  pool.AddUser();
  const ScratchPool::Block large = pool.Take(kLarge);
  CHECK(large.bytes >= kLarge && reinterpret_cast<uintptr_t>(large.data) % 64 == 0);
  large.data[0] = large.data[large.bytes - 1] = 1;
  CHECK(pool.use().held_bytes == large.bytes && pool.use().idle_bytes == 0);
  pool.GiveBack(large);
  CHECK(pool.use().idle_bytes == large.bytes);
  const auto call = [&](int64_t bytes) {
    pool.BeginCall();
    const ScratchPool::Block block = pool.Take(bytes);
    pool.GiveBack(block);
    return block;
  };
  const char* const kept = call(kSmall).data;
  CHECK(kept != large.data);                  // it would keep all of it in use
  CHECK(call(kSmall).data == kept);           // used again
  CHECK(call(kSmall * 9 / 10).data == kept);  // large enough
  CHECK(call(kLarge * 2 / 3).data == large.data);
  for (int64_t i = 0; i < ScratchPool::kCallsKept / 2; ++i) call(kSmall);
  CHECK(pool.use().idle_bytes > kLarge);
  for (int64_t i = 0; i < ScratchPool::kCallsKept; ++i) call(kSmall);
  CHECK(pool.use().idle_bytes < 2 * kSmall && pool.use().held_bytes == pool.use().idle_bytes);
  CHECK(pool.use().peak_bytes >= kLarge + kSmall);
  pool.RemoveUser();
  CHECK(pool.use().held_bytes == 0);
}

void ScratchBlocksAreAsLargeAsAsked() {
  ScratchPool pool;
  for (int64_t bytes = 1; bytes < int64_t{1} << 31; bytes += bytes / 3 + 1) {
    for (int64_t wanted : {bytes, bytes + 1}) {
      const ScratchPool::Block block = pool.Take(wanted);
      CHECK(block.bytes >= wanted && (wanted < 4096 || block.bytes < 2 * wanted + 1));
      pool.GiveBack(block);
    }
  }
  bool refused = false;
  try {
    pool.Take(int64_t{1} << 60);
  } catch (const std::bad_alloc&) {
    refused = true;
  }
  CHECK(refused);
}

void OnlyManyBytesTakeMoreThreads() {
  const std::pair<int64_t, int> cases[] = {{0, 1}, {100 << 10, 1}, {300 << 10, 2}, {1 << 30, 4}};
  for (const auto& bytes_and_threads : cases) {
    CHECK(ThreadsForBytes(4, bytes_and_threads.first) == bytes_and_threads.second);
  }
  CHECK(ThreadsForBytes(4, std::numeric_limits<int64_t>::max()) == 4);
  CHECK(ThreadsForBytes(1, 1 << 30) == 1);
}

}  // namespace
}  // namespace graph_opt

int main(int argc, char** argv) {
  using namespace graph_opt;
  const int seeds = argc > 1 ? std::atoi(argv[1]) : 60;
  MemoryOfALargeCallIsGivenBack();
  ScratchBlocksAreAsLargeAsAsked();
  SortsAndKeepsTheOrderOfEqualKeys();
  OnlyManyBytesTakeMoreThreads();
  int sets = 0;
  for (const RowKernels* const* set = RunnableRowKernels(); *set != nullptr; ++set, ++sets) {
    std::printf("%s\n", (*set)->name);
    SixteenBitRowsAreRoundedOnce(**set);
    SixteenBitRowsOfAnyWidth(**set);
    FaultsAreFound(**set);
    CopiesSingleRowsUntilOneIsNone(**set);
    for (int seed = 0; seed < seeds; ++seed) {
      PoolsAsTheLoopDoes(**set, seed);
      TablesOfLowPrecisionArePooledIntoFloats(**set, seed);
      SumsGradientsByRow(**set, seed);
      UpdatesOnlyRowsLookedUp(**set, seed);
    }
  }
  CHECK(sets >= 1);
  return 0;
}
