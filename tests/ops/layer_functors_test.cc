// Layers over columns of which some are the same in all rows, without TensorFlow.
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "functors_testing.h"
#include "layers/first_row_layer.h"

namespace graph_opt {
namespace {

typedef std::vector<double> Numbers;

constexpr int64_t kWidth = 3;
constexpr int64_t kOther = 2;
constexpr int64_t kColumns = 5;

Numbers Random(int64_t count, int seed) {
  std::mt19937 random(seed);
  Numbers numbers(count);
  for (double& number : numbers) number = std::uniform_real_distribution<double>(-1, 1)(random);
  return numbers;
}

// [h, q, h - q, h * q, r] for a row of q [width] and r [other], at a place of h [places, width].
Numbers Joined(const Numbers& h, const Numbers& q, const Numbers& r, int64_t place) {
  Numbers joined;
  const double* first = h.data() + place * kWidth;
  for (int i = 0; i < kWidth; ++i) joined.push_back(first[i]);
  for (int i = 0; i < kWidth; ++i) joined.push_back(q[i]);
  for (int i = 0; i < kWidth; ++i) joined.push_back(first[i] - q[i]);
  for (int i = 0; i < kWidth; ++i) joined.push_back(first[i] * q[i]);
  joined.insert(joined.end(), r.begin(), r.end());
  return joined;
}

std::vector<LayerPart<double>> Parts(const Numbers& h) {
  std::vector<LayerPart<double>> parts(5);
  for (LayerPart<double>& part : parts) part.width = kWidth;
  parts[0].offset = h.data();
  parts[1].base = 0;
  parts[2].base = 0;
  parts[2].sign = -1;
  parts[2].offset = h.data();
  parts[3].base = 0;
  parts[3].scale = h.data();
  parts[4].base = 1;
  parts[4].width = kOther;
  return parts;
}

void TestThatProductsAreThoseOfJoinedColumns(int64_t places, bool has_bias, Parallel* threads) {
  const Numbers h = Random(places * kWidth, 1);
  const Numbers q = Random(kWidth, 2);
  const Numbers r = Random(kOther, 3);
  const Numbers weights = Random((4 * kWidth + kOther) * kColumns, 4);
  const Numbers bias = Random(kColumns, 5);
  const FirstRowLayer<double> layer(Parts(h), places, kColumns, weights.data(),
                                    has_bias ? bias.data() : nullptr);
  CHECK(layer.matrix_rows() == kWidth + kOther);
  Numbers matrix(layer.matrix_rows() * places * kColumns, 7.0);
  Numbers added(places * kColumns, 7.0);
  layer.Write(matrix.data(), added.data(), threads);
  Numbers bases = q;
  bases.insert(bases.end(), r.begin(), r.end());
  for (int64_t place = 0; place < places; ++place) {
    const Numbers joined = Joined(h, q, r, place);
    for (int64_t column = 0; column < kColumns; ++column) {
      double expected = has_bias ? bias[column] : 0;
      for (size_t i = 0; i < joined.size(); ++i)
        expected += joined[i] * weights[i * kColumns + column];
      const int64_t at = place * kColumns + column;
      double found = added[at];
      for (size_t i = 0; i < bases.size(); ++i)
        found += bases[i] * matrix[i * places * kColumns + at];
      CHECK(std::abs(found - expected) < 1e-12);
    }
  }
}

}  // namespace
}  // namespace graph_opt

int main() {
  for (int count : {1, 4}) {
    graph_opt::Threads threads(count);
    for (int64_t places : {1, 4}) {
      graph_opt::TestThatProductsAreThoseOfJoinedColumns(places, true, &threads);
      graph_opt::TestThatProductsAreThoseOfJoinedColumns(places, false, &threads);
    }
  }
  return 0;
}
