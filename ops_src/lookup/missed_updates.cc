#include "lookup/missed_updates.h"

#include <algorithm>
#include <cstring>

namespace graph_opt {
namespace {

template <typename Id, typename Visit>
void ForEachKeyOf(const TableShards& shards, const NamedRows& rows, const Visit& visit) {
  const Id* const ids = static_cast<const Id*>(rows.ids);
  const int64_t first = rows.shard < 0 ? 0 : shards.first_key(rows.shard);
  const int64_t end = rows.shard < 0 ? 0 : shards.end_key(rows.shard);
  for (int64_t k = 0; k < rows.num_ids; ++k) {
    const int64_t id = ids[k];
    const int64_t key = rows.shard < 0 ? shards.KeyOf(id) : first + id;
    if (id >= 0 && key >= 0 && (rows.shard < 0 || key < end)) visit(key);
  }
}

template <typename Visit>
void ForEachKey(const TableShards& shards, const NamedRows& rows, const Visit& visit) {
  if (rows.wide) return ForEachKeyOf<int64_t>(shards, rows, visit);
  ForEachKeyOf<int32_t>(shards, rows, visit);
}

inline float ToFloat(float value) { return value; }
inline float ToFloat(Half value) { return HalfToFloat(value); }
inline float ToFloat(Bfloat16 value) {
  const uint32_t bits = static_cast<uint32_t>(value.bits) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

template <typename T>
void AddSquaresOf(const Columns& used, const Columns& fresh, Squares* sums) {
  for (int64_t row = 0; row < fresh.num_rows; ++row) {
    const T* const a = static_cast<const T*>(used.data) + row * used.stride + used.first;
    const T* const b = static_cast<const T*>(fresh.data) + row * fresh.stride + fresh.first;
    float difference = 0;
    float value = 0;
    for (int64_t column = 0; column < fresh.width; ++column) {
      const float now = ToFloat(b[column]);
      const float by = ToFloat(a[column]) - now;
      difference += by * by;
      value += now * now;
    }
    sums->difference += difference;
    sums->value += value;
  }
}

}  // namespace

void MissedUpdates::Use(const NamedRows& rows) {
  ForEachKey(shards_, rows, [this](int64_t key) { rows_.NumberOf(key); });
}

void MissedUpdates::Miss(const std::vector<NamedRows>& rows) {
  counts_.resize(rows_.size());
  ++num_updates_;
  for (const NamedRows& some : rows) {
    ForEachKey(shards_, some, [this](int64_t key) {
      const int32_t number = rows_.Find(key);
      if (number < 0 || counts_[number].last == num_updates_) return;
      ++counts_[number].updates;
      counts_[number].last = num_updates_;
    });
  }
}

std::vector<int64_t> MissedUpdates::Histogram(int size) const {
  std::vector<int64_t> histogram(size, 0);
  histogram[0] = rows_.size() - static_cast<int64_t>(counts_.size());
  for (const Count& count : counts_) ++histogram[std::min(count.updates, size - 1)];
  return histogram;
}

void AddSquares(const Columns& used, const Columns& fresh, Squares* sums) {
  switch (fresh.type) {
    case RowType::kFloat:
      return AddSquaresOf<float>(used, fresh, sums);
    case RowType::kHalf:
      return AddSquaresOf<Half>(used, fresh, sums);
    case RowType::kBfloat16:
      return AddSquaresOf<Bfloat16>(used, fresh, sums);
    case RowType::kScaledBytes:
      break;  // has no updates
  }
}

}  // namespace graph_opt
