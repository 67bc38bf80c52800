#include <algorithm>
#include <cmath>
#include <cstring>

#include "lookup/bag_order.h"
#include "lookup/group_gradient.h"

namespace graph_opt {
namespace {

float ElementAt(const void* row, int64_t at, RowType type) {
  if (type == RowType::kFloat) return static_cast<const float*>(row)[at];
  if (type == RowType::kHalf) return HalfToFloat(static_cast<const Half*>(row)[at]);
  const uint32_t bits = static_cast<uint32_t>(static_cast<const Bfloat16*>(row)[at].bits) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// The weights of one bag whose rows are found.
class WeightedBag {
 public:
  WeightedBag(const Table& table, const WeightGradient& of) : table_(table), of_(of) {}

  void Add(int64_t k, const char* row, float weight) {
    places_.push_back(k);
    rows_.push_back(row);
    weights_.push_back(weight);
  }

  // The derivative by weight w_k of  sum(w e) / norm  times the pooled row's gradient g:
  //
  //   g e_k / norm  -  g sum(w e) / norm^2 * d norm / d w_k
  //
  // with norm 1, sum(w) or sqrt(sum(w^2)).
  void End(int64_t bag) {
    if (!rows_.empty()) Differentiate(bag);
    places_.clear();
    rows_.clear();
    weights_.clear();
  }

 private:
  void Differentiate(int64_t bag) {
    const Combiner combiner = of_.bags.combiner;
    const char* gradient =
        static_cast<const char*>(of_.gradients) + bag * of_.stride * ByteSize(table_.type);
    double weight_sum = 0;
    for (float w : weights_) {
      weight_sum += IsMean(combiner) ? w : static_cast<double>(w) * w;
    }
    const double norm = combiner == Combiner::kSum ? 1.0
                        : IsMean(combiner)         ? weight_sum
                                                   : std::sqrt(weight_sum);
    const bool is_zero = norm == 0 && !GivesNan(combiner);
    dots_.assign(rows_.size(), 0.0);
    double pooled_dot = 0;
    for (size_t j = 0; j < rows_.size(); ++j) {
      for (int64_t d = 0; d < table_.dim; ++d) {
        dots_[j] += static_cast<double>(ElementAt(gradient, d, table_.type)) *
                    ElementAt(rows_[j], d, table_.type);
      }
      pooled_dot += dots_[j] * weights_[j];
    }
    for (size_t j = 0; j < rows_.size(); ++j) {
      if (places_[j] < 0) continue;  // the default row's weight is not an input
      const double change = combiner == Combiner::kSum ? 0.0
                            : IsMean(combiner)         ? 1.0
                                                       : weights_[j] / norm;
      const double value = is_zero ? 0 : dots_[j] / norm - pooled_dot / (norm * norm) * change;
      of_.weight_gradients[places_[j]] = static_cast<float>(value);
    }
  }

  const Table& table_;
  const WeightGradient& of_;
  std::vector<int64_t> places_;
  std::vector<const char*> rows_;
  std::vector<float> weights_;
  std::vector<double> dots_;
};

BagFault DifferentiateBags(const Table& table, const WeightGradient& of, const BagBlock& block) {
  BagFault fault;
  fault.lookup = block.lookup;
  WeightedBag found(table, of);
  const bool in_order = ForEachOccurrence(
      of.bags, block.begin, block.end, &fault.bag,
      [&](int64_t bag, int64_t k, int64_t id, float weight) {
        const int64_t key = table.shards.KeyOf(id);
        if (key < 0) {
          fault.kind = BagFault::kIdOutOfRange;
          fault.bag = bag;
          fault.id = id;
          return false;
        }
        found.Add(k, table.Row(key), weight);
        return true;
      },
      [&](int64_t bag) { found.End(bag); });
  if (fault.kind == BagFault::kNone && !in_order) fault.kind = BagFault::kPositionsOutOfOrder;
  return fault;
}

BagFault DifferentiateAll(const std::vector<Table>& tables,
                          const std::vector<WeightGradient>& lookups, Parallel* parallel) {
  for (const WeightGradient& of : lookups) {
    std::fill_n(of.weight_gradients, of.bags.num_ids, 0.0f);
  }
  const std::vector<BagBlock> blocks = BlocksOf(RowsOf(tables, lookups), parallel->num_threads());
  FirstFault first;
  parallel->Run(static_cast<int64_t>(blocks.size()), [&](int64_t i) {
    const WeightGradient& of = lookups[blocks[i].lookup];
    const BagFault fault = DifferentiateBags(tables[of.table], of, blocks[i]);
    if (fault.kind != BagFault::kNone) first.Tell(fault);
  });
  return first.fault();
}

}  // namespace

std::vector<RowsOfBags> RowsOf(const std::vector<Table>& tables,
                               const std::vector<WeightGradient>& lookups) {
  std::vector<RowsOfBags> rows;
  for (const WeightGradient& of : lookups) {
    rows.push_back(RowsOfBags{&of.bags, tables[of.table].dim * 8});
  }
  return rows;
}

BagFault GroupWeightGradient(const std::vector<Table>& tables,
                             const std::vector<WeightGradient>& lookups, Parallel* parallel) {
  const BagFault fault = DifferentiateAll(tables, lookups, parallel);
  if (!fault.MayBeOfOrder()) return fault;
  return DifferentiateAll(tables, InBagOrder<WeightGradient>(lookups).in_order(), parallel);
}

}  // namespace graph_opt
