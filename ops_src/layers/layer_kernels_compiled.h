// The functions of layer_kernels.h, compiled once for each instruction set (rows/vector_lanes.h).
//
// Lanes of a vector are rows of the request, so that layers of any number of columns fill vectors:
// attention ends with a layer of one column. Where rows would leave most lanes empty, lanes are
// columns.
#ifndef GRAPH_OPT_LAYERS_LAYER_KERNELS_COMPILED_H_
#define GRAPH_OPT_LAYERS_LAYER_KERNELS_COMPILED_H_

#include "layers/layer_kernels.h"
#include "rows/vector_lanes.h"

namespace graph_opt {
namespace GRAPH_OPT_SET {

constexpr int kFewRows = kLanes / 4;  // of so many, each is computed by itself
constexpr int kMostParts = 2;         // vectors of a step, which read each weight once
// Columns whose sums are kept in registers: AVX-512 has 32 of them, the others 16.
constexpr int kColumnsAtOnce = kLanes == 16 ? 8 : 4;
static_assert(kRowsOfBlock % (kMostParts * kLanes) == 0, "a block is whole steps");

// Broadcast adds the value to 0, which takes an instruction; one that is read needs none.
inline GRAPH_OPT_INLINED Floats LoadOne(const float* from) { return *from - Floats{}; }

// As the compiler writes choices, they take several instructions.
inline GRAPH_OPT_INLINED Floats Between(Floats x, Floats least, Floats most) {
#if defined(__AVX512F__)
  return _mm512_maskz_max_ps(0xffff, least, _mm512_maskz_min_ps(0xffff, most, x));
#elif defined(__AVX2__)
  return _mm256_max_ps(least, _mm256_min_ps(most, x));
#elif defined(__SSE2__)
  return _mm_max_ps(least, _mm_min_ps(most, x));
#else
  return Greatest(Least(x, most), least);
#endif
}

// e^x of -87 to 87, by a polynomial of what is left of x / ln 2 beside the nearest whole number.
inline GRAPH_OPT_INLINED Floats Exponential(Floats x) {
  const Floats bounded = Between(x, Broadcast(-87.0f), Broadcast(87.0f));
  // Adding it rounds to whole numbers, which are then in the lowest bits.
  const Floats rounding = Broadcast(12582912.0f);
  const Floats shifted = bounded * 1.44269504088896341f + rounding;
  const Floats whole = shifted - rounding;
  const Floats rest = (bounded - whole * 0.693359375f) - whole * -2.12194440e-4f;
  Floats power = Broadcast(1.9875691500e-4f);
  power = power * rest + 1.3981999507e-3f;
  power = power * rest + 8.3334519073e-3f;
  power = power * rest + 4.1665795894e-2f;
  power = power * rest + 1.6666665459e-1f;
  power = power * rest + 5.0000001201e-1f;
  power = power * (rest * rest) + rest + 1.0f;
  return (Floats)((Words)power + ((Words)shifted << 23));
}

template <Activation kActivation>
inline GRAPH_OPT_INLINED Floats Activated(Floats x) {
  switch (kActivation) {
    case Activation::kRelu:
      return Between(x, Broadcast(0.0f), Broadcast(INFINITY));
    case Activation::kSigmoid:
      return 1.0f / (1.0f + Exponential(-x));
    case Activation::kNone:
      break;
  }
  return x;
}

// Some columns of a layer, for kParts * kLanes rows: `from` has a column of kRowsOfBlock rows for
// each input.
template <Activation kActivation, int kParts, int kColumns>
inline GRAPH_OPT_INLINED void SomeColumns(const float* from, int64_t inputs, const float* weights,
                                          int64_t stride, const float* bias, float* to) {
  Floats sums[kColumns][kParts];
  for (int column = 0; column < kColumns; ++column) {
    for (int part = 0; part < kParts; ++part) sums[column][part] = LoadOne(bias + column);
  }
  for (int64_t input = 0; input < inputs; ++input) {
    Floats lanes[kParts];
    for (int part = 0; part < kParts; ++part) {
      lanes[part] = Load(from + input * kRowsOfBlock + part * kLanes);
    }
    for (int column = 0; column < kColumns; ++column) {
      const Floats weight = LoadOne(weights + input * stride + column);
      for (int part = 0; part < kParts; ++part) sums[column][part] += weight * lanes[part];
    }
  }
#pragma GCC unroll 8
  for (int column = 0; column < kColumns; ++column) {
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
      const Floats lanes = Activated<kActivation>(sums[column][part]);
      Store(lanes, to + column * kRowsOfBlock + part * kLanes);
    }
  }
}

template <Activation kActivation, int kParts>
void ColumnsOf(const float* from, int64_t inputs, const PlaceLayer& layer, int64_t stride,
               float* to) {
  int64_t column = 0;
  for (; column + kColumnsAtOnce <= layer.columns; column += kColumnsAtOnce) {
    SomeColumns<kActivation, kParts, kColumnsAtOnce>(from, inputs, layer.weights + column, stride,
                                                     layer.bias + column,
                                                     to + column * kRowsOfBlock);
  }
  for (; column < layer.columns; ++column) {
    SomeColumns<kActivation, kParts, 1>(from, inputs, layer.weights + column, stride,
                                        layer.bias + column, to + column * kRowsOfBlock);
  }
}

template <int kParts>
void Apply(const PlaceLayer& layer, const float* from, int64_t inputs, int64_t stride, float* to) {
  switch (layer.activation) {
    case Activation::kNone:
      return ColumnsOf<Activation::kNone, kParts>(from, inputs, layer, stride, to);
    case Activation::kRelu:
      return ColumnsOf<Activation::kRelu, kParts>(from, inputs, layer, stride, to);
    case Activation::kSigmoid:
      return ColumnsOf<Activation::kSigmoid, kParts>(from, inputs, layer, stride, to);
  }
}

// The results of one place are in turns in either half: those of the last layer in
// halves[num_others % 2].
template <int kParts>
void AllLayers(const PlaceLayers& layers, int64_t place, const float* bases, float* const* halves) {
  PlaceLayer first = layers.first;
  first.weights += place * first.columns;
  first.bias += place * first.columns;
  Apply<kParts>(first, bases, layers.width, layers.places * first.columns, halves[0]);
  int64_t inputs = first.columns;
  for (int64_t i = 0; i < layers.num_others; ++i) {
    const PlaceLayer& layer = layers.others[i];
    Apply<kParts>(layer, halves[i % 2], inputs, layer.columns, halves[(i + 1) % 2]);
    inputs = layer.columns;
  }
}

// Some columns of a layer, for one row; `some` as for LoadPart.
template <Activation kActivation, int kVectors>
inline GRAPH_OPT_INLINED void SomeOfRow(const float* from, int64_t inputs, const float* weights,
                                        int64_t stride, const float* bias, int some, float* to) {
  Floats sums[kVectors];
  for (int i = 0; i < kVectors; ++i) sums[i] = LoadPart(bias + i * kLanes, some);
  for (int64_t input = 0; input < inputs; ++input) {
    const Floats value = LoadOne(from + input);
    for (int i = 0; i < kVectors; ++i) {
      sums[i] += value * LoadPart(weights + input * stride + i * kLanes, some);
    }
  }
  for (int i = 0; i < kVectors; ++i) {
    StorePart(Activated<kActivation>(sums[i]), to + i * kLanes, some);
  }
}

// A layer of one column, whose weights are side by side.
template <Activation kActivation>
void OnlyColumn(const float* from, int64_t inputs, const PlaceLayer& layer, float* to) {
  Floats products{};
  int64_t input = 0;
  for (; input + kLanes <= inputs; input += kLanes) {
    products += Load(from + input) * Load(layer.weights + input);
  }
  if (input < inputs) {
    const int some = static_cast<int>(inputs - input);
    products += LoadSome(from + input, some) * LoadSome(layer.weights + input, some);
  }
  float sum = layer.bias[0];
  for (int lane = 0; lane < kLanes; ++lane) sum += products[lane];
  StoreSome(Activated<kActivation>(Broadcast(sum)), to, 1);
}

template <Activation kActivation>
void RowOf(const float* from, int64_t inputs, const PlaceLayer& layer, int64_t stride, float* to) {
  constexpr int kAtOnce = 4;
  if (stride == 1) return OnlyColumn<kActivation>(from, inputs, layer, to);
  int64_t column = 0;
  for (; column + kAtOnce * kLanes <= layer.columns; column += kAtOnce * kLanes) {
    SomeOfRow<kActivation, kAtOnce>(from, inputs, layer.weights + column, stride,
                                    layer.bias + column, 0, to + column);
  }
  for (; column < layer.columns; column += kLanes) {
    const int64_t left = layer.columns - column;
    const int some = left < kLanes ? static_cast<int>(left) : 0;
    SomeOfRow<kActivation, 1>(from, inputs, layer.weights + column, stride, layer.bias + column,
                              some, to + column);
  }
}

void ApplyToRow(const PlaceLayer& layer, const float* from, int64_t inputs, int64_t stride,
                float* to) {
  switch (layer.activation) {
    case Activation::kNone:
      return RowOf<Activation::kNone>(from, inputs, layer, stride, to);
    case Activation::kRelu:
      return RowOf<Activation::kRelu>(from, inputs, layer, stride, to);
    case Activation::kSigmoid:
      return RowOf<Activation::kSigmoid>(from, inputs, layer, stride, to);
  }
}

void ComputeRow(const PlaceLayers& layers, const float* base, float* scratch, float* results) {
  float* const halves[2] = {scratch, scratch + WidestLayer(layers)};
  for (int64_t place = 0; place < layers.places; ++place) {
    PlaceLayer first = layers.first;
    first.weights += place * first.columns;
    first.bias += place * first.columns;
    ApplyToRow(first, base, layers.width, layers.places * first.columns, halves[0]);
    int64_t inputs = first.columns;
    for (int64_t i = 0; i < layers.num_others; ++i) {
      const PlaceLayer& layer = layers.others[i];
      float* const to = i + 1 < layers.num_others ? halves[(i + 1) % 2] : results;
      ApplyToRow(layer, halves[i % 2], inputs, layer.columns, to);
      inputs = layer.columns;
    }
    results += inputs;
  }
}

void Compute(const PlaceLayers& layers, int64_t first, int64_t count, float* scratch,
             float* results) {
  const float* const rows = layers.bases + first * layers.width;
  const int64_t last = layers.others[layers.num_others - 1].columns;
  float* const found_rows = results + first * layers.places * last;
  if (count <= kFewRows) {
    for (int64_t row = 0; row < count; ++row) {
      ComputeRow(layers, rows + row * layers.width, scratch,
                 found_rows + row * layers.places * last);
    }
    return;
  }
  float* const bases = scratch;  // [width, rows of a block]
  for (int64_t column = 0; column < layers.width; ++column) {
    for (int64_t row = 0; row < kRowsOfBlock; ++row) {
      const int64_t taken = row < count ? row : 0;
      bases[column * kRowsOfBlock + row] = rows[taken * layers.width + column];
    }
  }
  float* const columns = scratch + layers.width * kRowsOfBlock;
  float* const halves[2] = {columns, columns + WidestLayer(layers) * kRowsOfBlock};
  for (int64_t place = 0; place < layers.places; ++place) {
    for (int64_t row = 0; row < count; row += kMostParts * kLanes) {
      float* const moved[2] = {halves[0] + row, halves[1] + row};
      if (count - row > kLanes) {
        AllLayers<kMostParts>(layers, place, bases + row, moved);
      } else {
        AllLayers<1>(layers, place, bases + row, moved);
      }
    }
    const float* const found = halves[layers.num_others % 2];
    for (int64_t row = 0; row < count; ++row) {
      float* const to = found_rows + (row * layers.places + place) * last;
      for (int64_t column = 0; column < last; ++column) {
        to[column] = found[column * kRowsOfBlock + row];
      }
    }
  }
}

extern const LayerKernels kLayerKernels;
const LayerKernels kLayerKernels = {GRAPH_OPT_SET_NAME, Compute};

}  // namespace GRAPH_OPT_SET
}  // namespace graph_opt

#endif  // GRAPH_OPT_LAYERS_LAYER_KERNELS_COMPILED_H_
