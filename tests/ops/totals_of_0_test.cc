// Weights that add up to 0, compared with plain loops in double precision.
#include "group_functors_testing.h"

namespace graph_opt {
namespace {

bool IsSame(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : a == b || (std::isfinite(b) && Near(a, b));
}

// One weighted lookup whose bags are {0, 1}, {}, {2} and {1, 2}. The first one's weights add up to
// 0, the third one's only weight is 0.
struct TotalsOf0 {
  TotalsOf0(Random* random, Combiner combiner) : table(random, 3, 19, 1, Partition::kMod) {
    bags.layout = Bags::kRagged;
    bags.ids = ids;
    bags.num_ids = 5;
    bags.positions = splits;
    bags.num_bags = 4;
    bags.weights = weights;
    bags.safe = false;
    bags.combiner = combiner;
    for (float& value : gradients) value = Number(random);
    gradients[0] = 0;
  }

  bool is_mean() const {
    return bags.combiner == Combiner::kMean || bags.combiner == Combiner::kMeanOrNan;
  }

  double Divided(double value, int bag) const {
    double total = 0;
    for (int64_t k = splits[bag]; k < splits[bag + 1]; ++k) {
      total += is_mean() ? weights[k] : weights[k] * weights[k];
    }
    const bool is_0 = bags.combiner == Combiner::kMean || bags.combiner == Combiner::kSqrtN;
    if (total == 0 && is_0) return 0;
    return value / (is_mean() ? total : std::sqrt(total));
  }

  OwnedTable table;
  Bags bags;
  const int64_t ids[5] = {0, 1, 2, 1, 2};
  const float weights[5] = {1.5f, -1.5f, 0.0f, 0.5f, 1.5f};
  const int64_t splits[5] = {0, 2, 2, 3, 5};
  float gradients[4 * 19];
};

void DividesByTotalsOf0(const RowKernels& kernels, Combiner combiner) {
  Random random(3);
  TotalsOf0 of(&random, combiner);
  const int64_t dim = of.table.dim;
  std::vector<float> pooled(4 * dim, 77.0f);
  Lookup lookup;
  lookup.bags = of.bags;
  lookup.table = 0;
  lookup.pooled = pooled.data();
  lookup.pooled_stride = dim;
  Threads threads(2);
  CHECK(GroupLookup({of.table.AsTable()}, {lookup}, kernels, &threads).kind == BagFault::kNone);
  std::vector<double> sums(3 * dim);
  for (int bag = 0; bag < 4; ++bag) {
    for (int64_t d = 0; d < dim; ++d) {
      double sum = 0;
      for (int64_t k = of.splits[bag]; k < of.splits[bag + 1]; ++k) {
        sum += of.weights[k] * of.table.Row(of.ids[k])[d];
        sums[of.ids[k] * dim + d] += of.Divided(of.gradients[bag * dim + d], bag) * of.weights[k];
      }
      CHECK(IsSame(of.Divided(sum, bag), pooled[bag * dim + d]));
    }
  }
  PooledGradient gradient;
  gradient.bags = of.bags;
  gradient.table = 0;
  gradient.gradients = of.gradients;
  gradient.stride = dim;
  GradientTable table;
  table.shards = of.table.map;
  table.dim = dim;
  GroupGradient summed({table}, {gradient}, kernels, &threads);
  CHECK(summed.Sort().kind == BagFault::kNone && summed.NumRows(0, 0) == 3);
  std::vector<int64_t> rows(3);
  std::vector<float> values(3 * dim);
  summed.SumRows({{{rows.data(), values.data()}}});
  for (int64_t i = 0; i < 3 * dim; ++i) CHECK(IsSame(sums[i], values[i]));
}

}  // namespace
}  // namespace graph_opt

int main() {
  using namespace graph_opt;
  for (const RowKernels* const* set = RunnableRowKernels(); *set != nullptr; ++set) {
    std::printf("%s\n", (*set)->name);
    for (Combiner combiner :
         {Combiner::kMean, Combiner::kSqrtN, Combiner::kMeanOrNan, Combiner::kSqrtNOrNan}) {
      DividesByTotalsOf0(**set, combiner);
    }
  }
  return 0;
}
