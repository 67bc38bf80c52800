#ifndef GRAPH_OPT_LAYERS_LAYERS_AT_PLACES_H_
#define GRAPH_OPT_LAYERS_LAYERS_AT_PLACES_H_

#include <stdint.h>

#include "lookup/parallel.h"

namespace graph_opt {

enum class Activation { kNone, kRelu, kSigmoid };

// A layer: activation(inputs * weights + bias).
struct PlaceLayer {
  const float* weights;  // [columns of the layer before, columns]
  const float* bias;     // [columns]
  int64_t columns;
  Activation activation;
};

// Layers over each place of each row, the first of which has weights of its own for each place:
//
//     first [rows, places, columns] = activation(bases [rows, width] * matrix + added)
//
// with `matrix` [width, places * columns] and `added` [places * columns], as FirstRowLayer writes
// them. The others have the same weights in all places.
struct PlaceLayers {
  const float* bases;
  int64_t rows;
  int64_t width;
  int64_t places;
  PlaceLayer first;  // its weights are the matrix, its bias is what is added
  const PlaceLayer* others;
  int64_t num_others;  // at least one
};

// The results of the last layer, [rows, places, columns]. What is between two layers stays in the
// caches: several rows are taken through all layers, a place at a time.
void ComputeLayers(const PlaceLayers& layers, float* results, Parallel* threads);

// The same for every instruction set that this machine has, for tests: null ends the names.
const char* const* LayerInstructionSets();
void ComputeLayersWith(const char* instruction_set, const PlaceLayers& layers, float* results,
                       Parallel* threads);

}  // namespace graph_opt

#endif  // GRAPH_OPT_LAYERS_LAYERS_AT_PLACES_H_
