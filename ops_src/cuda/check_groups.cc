#include "cuda/check_groups.h"

#include <algorithm>
#include <utility>

#include "rows/row_types.h"

namespace graph_opt {
namespace {

constexpr int64_t kNone = -1;
constexpr int64_t kRows = 40;
// More ids than a team of threads sums: the whole block sums such a bag, or a row's gradients.
constexpr int64_t kLongBag = 700;
constexpr int64_t kRowsOfLongBag = 2;
// The dimensions that the kinds of lookups enumerate.
constexpr int kKinds = 8;

int64_t BytesOf(int32_t type) { return type == GRAPH_OPT_CUDA_FLOAT ? 4 : 2; }

char* Pointer(char* base, int64_t place) { return place == kNone ? nullptr : base + place; }

const char* TypeText(int32_t type) {
  return type == GRAPH_OPT_CUDA_FLOAT  ? "float32"
         : type == GRAPH_OPT_CUDA_HALF ? "float16"
                                       : "bfloat16";
}

}  // namespace

uint32_t CheckGroup::Below(uint32_t end) {
  random_ = random_ * 1664525u + 1013904223u;
  return (random_ >> 8) % end;
}

// Multiples of 1/16 between -2 and 2, which all types represent exactly.
std::vector<char> CheckGroup::Values(int32_t type, int64_t count) {
  std::vector<char> bytes(count * BytesOf(type));
  for (int64_t i = 0; i < count; ++i) {
    const float value = (static_cast<float>(Below(64)) - 31.5f) / 16.0f;
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    const uint16_t narrow =
        type == GRAPH_OPT_CUDA_HALF ? FloatToHalf(value).bits : static_cast<uint16_t>(bits >> 16);
    if (type == GRAPH_OPT_CUDA_FLOAT) std::memcpy(&bytes[i * 4], &value, 4);
    if (type != GRAPH_OPT_CUDA_FLOAT) std::memcpy(&bytes[i * 2], &narrow, 2);
  }
  return bytes;
}

CheckGroup::CheckGroup(const std::vector<UsualOptimizer>& optimizers, CheckMemory* memory)
    : optimizers_(optimizers), memory_(memory) {
  const int types = optimizers.empty() ? 3 : 1;
  for (int32_t type = 0; type < types; ++type) {
    AddTable(type, 16, 1);  // rows that are read in vectors
    AddTable(type, 5, 3);   // and rows that are not
  }
  for (size_t table = 0; table < tables_.size(); ++table) {
    for (int kind = 0; kind < kKinds; ++kind) AddLookup(static_cast<int>(table), kind);
  }
}

void CheckGroup::AddTable(int32_t type, int32_t dim, int32_t shards) {
  GraphOptCudaTable table = {};
  table.first_shard = static_cast<int32_t>(shards_.size());
  table.num_shards = shards;
  table.dim = dim;
  table.type = type;
  table.partition = tables_.size() % 4 == 1 ? GRAPH_OPT_CUDA_DIV : GRAPH_OPT_CUDA_MOD;
  tables_.push_back(TablePlaces{table, kRows});
  for (int32_t s = 0; s < shards; ++s) {
    ShardPlaces shard = {};
    shard.num_rows = kRows / shards + (s < kRows % shards);
    const int64_t count = shard.num_rows * dim;
    if (optimizers_.empty()) shard.rows.push_back(memory_->Put(Values(type, count)));
    for (const UsualOptimizer& one : optimizers_) PutTrained(one, count, &shard);
    shard.indices = memory_->Reserve(shard.num_rows * 8);
    shard.sums = memory_->Reserve(count * BytesOf(type));
    shards_.push_back(std::move(shard));
  }
}

// Rows and slots as some steps of the optimizer leave them: moments that no step could have made
// may give roots of negative numbers.
void CheckGroup::PutTrained(const UsualOptimizer& one, int64_t count, ShardPlaces* shard) {
  constexpr int kSteps = 2;
  std::vector<double> rows = Doubles(count);
  std::vector<std::vector<double>> slots;
  std::vector<double*> pointers;
  for (float initial : one.initial_slots) slots.emplace_back(count, initial);
  for (std::vector<double>& slot : slots) pointers.push_back(slot.data());
  for (int step = 0; step < kSteps; ++step) {
    graph_opt_update_exactly(&one.optimizer, count, Doubles(count).data(), rows.data(),
                             pointers.data());
  }
  shard->rows.push_back(memory_->Put(std::vector<float>(rows.begin(), rows.end())));
  for (int slot = 0; slot < kMostSlots; ++slot) {
    const bool has = slot < static_cast<int>(slots.size());
    if (has) {
      const std::vector<float> values(slots[slot].begin(), slots[slot].end());
      shard->slots[slot].push_back(memory_->Put(values));
    } else {
      shard->slots[slot].push_back(kNone);
    }
  }
}

std::vector<double> CheckGroup::Doubles(int64_t count) {
  const std::vector<char> bytes = Values(GRAPH_OPT_CUDA_FLOAT, count);
  std::vector<float> values(count);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return std::vector<double>(values.begin(), values.end());
}

// Of the eight kinds of each table, one has a long bag.
void CheckGroup::AddLookup(int table, int kind) {
  const GraphOptCudaTable& of = tables_[table].table;
  LookupPlaces places = {};
  GraphOptCudaLookup& lookup = places.lookup;
  const bool is_long = kind == 6;
  lookup.table = table;
  lookup.layout = (kind + table) % 3;
  if (is_long) lookup.layout = table % 2 ? GRAPH_OPT_CUDA_RAGGED : GRAPH_OPT_CUDA_SPARSE;
  lookup.combiner = (kind + table / 2) % 3;
  lookup.wide_ids = kind % 2;
  lookup.safe = kind != 3;
  const bool is_weighted = kind / 2 % 2 == 1;
  const bool may_be_nan = !lookup.safe && is_weighted && optimizers_.empty();
  if (may_be_nan && lookup.combiner == GRAPH_OPT_CUDA_MEAN) {
    lookup.combiner = GRAPH_OPT_CUDA_MEAN_OR_NAN;
  } else if (may_be_nan && lookup.combiner == GRAPH_OPT_CUDA_SQRTN) {
    lookup.combiner = GRAPH_OPT_CUDA_SQRTN_OR_NAN;
  }
  lookup.default_id = kind % 4 == 1 ? 7 : -1;
  lookup.filled_id = kind % 4 == 2 ? 0 : -1;
  lookup.num_bags = 12;
  lookup.stride = 1;
  lookup.width = 3;
  lookup.num_sizes = 1;
  const bool is_dense = lookup.layout == GRAPH_OPT_CUDA_DENSE;
  const bool has_sizes = lookup.layout == GRAPH_OPT_CUDA_SPARSE && kind >= 4;
  if (has_sizes) {
    lookup.num_sizes = 2;
    lookup.sizes[0] = 3;
    lookup.sizes[1] = 4;
  }
  if (lookup.layout == GRAPH_OPT_CUDA_SPARSE) lookup.stride = has_sizes ? 3 : 2;
  std::vector<int64_t> ids;
  std::vector<int64_t> splits(1, 0);
  std::vector<int64_t> positions;
  for (int64_t bag = 0; bag < lookup.num_bags; ++bag) {
    const int64_t few = Below(3) == 0 ? 0 : 1 + Below(4);
    const int64_t count = is_dense ? lookup.width : is_long && bag == 5 ? kLongBag : few;
    for (int64_t i = 0; i < count; ++i) {
      int64_t id = count == kLongBag ? i % kRowsOfLongBag : Below(kRows);
      if (lookup.safe && count != kLongBag && Below(5) == 0) id = -1;
      ids.push_back(id);
      if (has_sizes) positions.push_back(bag / 4);
      positions.push_back(has_sizes ? bag % 4 : bag);
      positions.push_back(i);
    }
    splits.push_back(static_cast<int64_t>(ids.size()));
  }
  lookup.num_ids = static_cast<int64_t>(ids.size());
  const std::vector<int32_t> narrow(ids.begin(), ids.end());
  places.ids = lookup.wide_ids ? memory_->Put(ids) : memory_->Put(narrow);
  places.positions = is_dense                                 ? kNone
                     : lookup.layout == GRAPH_OPT_CUDA_RAGGED ? memory_->Put(splits)
                                                              : memory_->Put(positions);
  places.weights = kNone;
  if (is_weighted) {
    std::vector<float> weights;
    for (size_t i = 0; i < ids.size(); ++i) {
      weights.push_back(static_cast<float>(Below(5)) / 4.0f);  // some are 0, which may be dropped
      if (!lookup.safe && weights.back() == 0) weights.back() = 0.5f;
    }
    places.weights = memory_->Put(weights);
  }
  // Every second table's rows are columns of a wider tensor.
  lookup.pooled_stride = of.dim + (table % 2 ? 3 : 0);
  const std::vector<char> gradients = Values(of.type, lookup.num_bags * lookup.pooled_stride);
  places.pooled = memory_->Reserve(static_cast<int64_t>(gradients.size()));
  places.gradients = memory_->Put(gradients);
  lookups_.push_back(places);
}

GivenGroup CheckGroup::At(char* base, Pooled pooled, int optimizer) const {
  GivenGroup given = {};
  for (const TablePlaces& table : tables_) given.tables.push_back(table.table);
  for (const ShardPlaces& from : shards_) {
    GraphOptCudaShard shard = {};
    shard.num_rows = from.num_rows;
    shard.rows = Pointer(base, from.rows[optimizer]);
    for (int slot = 0; slot < kMostSlots; ++slot) {
      if (from.slots[slot].empty()) continue;
      shard.slots[slot] = reinterpret_cast<float*>(Pointer(base, from.slots[slot][optimizer]));
    }
    shard.indices = reinterpret_cast<int64_t*>(Pointer(base, from.indices));
    shard.sums = Pointer(base, from.sums);
    given.shards.push_back(shard);
  }
  for (const LookupPlaces& from : lookups_) {
    GraphOptCudaLookup lookup = from.lookup;
    lookup.ids = Pointer(base, from.ids);
    lookup.positions = reinterpret_cast<const int64_t*>(Pointer(base, from.positions));
    lookup.weights = reinterpret_cast<const float*>(Pointer(base, from.weights));
    lookup.pooled = Pointer(base, pooled == kPooled ? from.pooled : from.gradients);
    given.lookups.push_back(lookup);
  }
  given.group.shards = given.shards.data();
  given.group.tables = given.tables.data();
  given.group.lookups = given.lookups.data();
  given.group.num_shards = static_cast<int32_t>(given.shards.size());
  given.group.num_tables = static_cast<int32_t>(given.tables.size());
  given.group.num_lookups = static_cast<int32_t>(given.lookups.size());
  return given;
}

std::string CheckGroup::TableText(int table) const {
  const GraphOptCudaTable& of = tables_[table].table;
  return std::string(TypeText(of.type)) + " rows of " + std::to_string(of.dim);
}

std::string CheckGroup::LookupText(int lookup) const {
  const GraphOptCudaLookup& of = lookups_[lookup].lookup;
  static const char* const layouts[] = {"dense", "ragged", "sparse"};
  static const char* const combiners[] = {"sum", "mean", "sqrtn", "mean or nan", "sqrtn or nan"};
  return TableText(of.table) + ", " + layouts[of.layout] + " ids, " + combiners[of.combiner] +
         (lookups_[lookup].weights == kNone ? "" : ", weights");
}

}  // namespace graph_opt
