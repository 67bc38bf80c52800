// Layers at each place of a row, by every instruction set of this machine, without TensorFlow.
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "functors_testing.h"
#include "layers/layers_at_places.h"

namespace graph_opt {
namespace {

typedef std::vector<float> Numbers;

constexpr int64_t kWidth = 3;
constexpr int64_t kPlaces = 4;

Numbers Random(int64_t count, int seed) {
  std::mt19937 random(seed);
  Numbers numbers(count);
  for (float& number : numbers) number = std::uniform_real_distribution<float>(-2, 2)(random);
  return numbers;
}

double Activated(double x, Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return x < 0 ? 0 : x;
    case Activation::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::kNone:
      break;
  }
  return x;
}

// A layer by itself, at one place of one row.
std::vector<double> Through(const PlaceLayer& layer, int64_t stride, int64_t column,
                            const std::vector<double>& inputs) {
  std::vector<double> results;
  for (int64_t i = column; i < column + layer.columns; ++i) {
    double sum = layer.bias[i];
    for (size_t j = 0; j < inputs.size(); ++j) sum += inputs[j] * layer.weights[j * stride + i];
    results.push_back(Activated(sum, layer.activation));
  }
  return results;
}

void TestThatResultsAreThoseOfOneLayerAfterTheOther(const char* instruction_set, int64_t rows,
                                                    const std::vector<int64_t>& columns,
                                                    Activation activation, Parallel* threads) {
  const Numbers bases = Random(rows * kWidth, 1);
  const Numbers matrix = Random(kWidth * kPlaces * columns[0], 2);
  const Numbers added = Random(kPlaces * columns[0], 3);
  std::vector<Numbers> numbers;
  for (size_t i = 1; i < columns.size(); ++i) {
    numbers.push_back(Random(columns[i - 1] * columns[i], 2 * i + 2));
    numbers.push_back(Random(columns[i], 2 * i + 3));
  }
  std::vector<PlaceLayer> others;
  for (size_t i = 1; i < columns.size(); ++i) {
    others.push_back({numbers[2 * i - 2].data(), numbers[2 * i - 1].data(), columns[i],
                      i + 1 < columns.size() ? activation : Activation::kNone});
  }
  PlaceLayers layers;
  layers.bases = bases.data();
  layers.rows = rows;
  layers.width = kWidth;
  layers.places = kPlaces;
  layers.first = {matrix.data(), added.data(), columns[0], activation};
  layers.others = others.data();
  layers.num_others = others.size();
  Numbers results(rows * kPlaces * columns.back() + 1, 7.0f);
  ComputeLayersWith(instruction_set, layers, results.data(), threads);
  for (int64_t row = 0; row < rows; ++row) {
    const std::vector<double> base(bases.begin() + row * kWidth,
                                   bases.begin() + (row + 1) * kWidth);
    for (int64_t place = 0; place < kPlaces; ++place) {
      std::vector<double> expected =
          Through(layers.first, kPlaces * columns[0], place * columns[0], base);
      for (const PlaceLayer& other : others) {
        expected = Through(other, other.columns, 0, expected);
      }
      const float* const found = results.data() + (row * kPlaces + place) * columns.back();
      for (int64_t i = 0; i < columns.back(); ++i) {
        CHECK(std::abs(found[i] - expected[i]) <= 1e-5 * (1 + std::abs(expected[i])));
      }
    }
  }
  CHECK(results.back() == 7.0f);  // nothing behind the last row
}

// One layer of one column at one place, and one behind it that passes it on.
float Alone(const char* instruction_set, float x, Activation activation) {
  const float one = 1;
  const float zero = 0;
  const PlaceLayer other = {&one, &zero, 1, Activation::kNone};
  const PlaceLayers layers = {&x, 1, 1, 1, {&one, &zero, 1, activation}, &other, 1};
  float result = 7;
  Sequential threads;
  ComputeLayersWith(instruction_set, layers, &result, &threads);
  return result;
}

void TestThatActivationsAreExact(const char* instruction_set) {
  for (float x = -80; x < 80; x += 0.37f) {
    const double expected = Activated(x, Activation::kSigmoid);
    const double found = Alone(instruction_set, x, Activation::kSigmoid);
    CHECK(std::abs(found - expected) <= 3e-7 * expected);
    CHECK(Alone(instruction_set, x, Activation::kRelu) == Activated(x, Activation::kRelu));
  }
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float large : {200.0f, 1e30f, infinity}) {
    CHECK(Alone(instruction_set, large, Activation::kSigmoid) == 1);
    CHECK(Alone(instruction_set, -large, Activation::kSigmoid) < 1e-37f);
    CHECK(Alone(instruction_set, -large, Activation::kSigmoid) >= 0);
    CHECK(Alone(instruction_set, large, Activation::kRelu) == large);
    CHECK(Alone(instruction_set, -large, Activation::kRelu) == 0);
  }
  for (const Activation activation : {Activation::kNone, Activation::kRelu, Activation::kSigmoid}) {
    const float unknown = std::numeric_limits<float>::quiet_NaN();
    CHECK(std::isnan(Alone(instruction_set, unknown, activation)));
  }
}

void TestThatTheWidestSetIsUsed() {
  const Numbers numbers = Random(64, 9);
  const PlaceLayer other = {numbers.data(), numbers.data() + 8, 1, Activation::kNone};
  const PlaceLayers layers = {
      numbers.data(), 5, 2, 2, {numbers.data() + 16, numbers.data() + 40, 3, Activation::kSigmoid},
      &other,         1};
  const char* widest = nullptr;
  for (const char* const* each = LayerInstructionSets(); *each != nullptr; ++each) widest = *each;
  Numbers best(10);
  Numbers named(10);
  Sequential threads;
  ComputeLayers(layers, best.data(), &threads);
  ComputeLayersWith(widest, layers, named.data(), &threads);
  CHECK(best == named);
}

}  // namespace
}  // namespace graph_opt

int main() {
  using graph_opt::Activation;
  for (const char* const* each = graph_opt::LayerInstructionSets(); *each != nullptr; ++each) {
    graph_opt::TestThatActivationsAreExact(*each);
    for (int count : {1, 3}) {
      graph_opt::Threads threads(count);
      for (int64_t rows : {0, 1, 3, 15, 17, 33, 70}) {
        for (Activation activation : {Activation::kNone, Activation::kRelu, Activation::kSigmoid}) {
          graph_opt::TestThatResultsAreThoseOfOneLayerAfterTheOther(*each, rows, {9, 1}, activation,
                                                                    &threads);
          graph_opt::TestThatResultsAreThoseOfOneLayerAfterTheOther(*each, rows, {5, 19, 3},
                                                                    activation, &threads);
        }
      }
    }
  }
  graph_opt::TestThatTheWidestSetIsUsed();
  return 0;
}
