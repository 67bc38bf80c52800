#ifndef GRAPH_OPT_LAYERS_LAYER_KERNELS_H_
#define GRAPH_OPT_LAYERS_LAYER_KERNELS_H_

#include "layers/layers_at_places.h"

namespace graph_opt {

constexpr int64_t kRowsOfBlock = 32;  // two of the widest vectors

// What is compiled once for each instruction set: layer_kernels_<set>.cc.
struct LayerKernels {
  const char* name;
  // Takes rows [first, first + count) through all layers, with at most kRowsOfBlock of them.
  // `scratch` has ScratchSize floats.
  void (*compute)(const PlaceLayers& layers, int64_t first, int64_t count, float* scratch,
                  float* results);
};

inline int64_t WidestLayer(const PlaceLayers& layers) {
  int64_t widest = layers.first.columns;
  for (int64_t i = 0; i < layers.num_others; ++i) {
    if (layers.others[i].columns > widest) widest = layers.others[i].columns;
  }
  return widest;
}

// Of the bases, and of the results of two layers, for each row of a block.
inline int64_t ScratchSize(const PlaceLayers& layers) {
  return (layers.width + 2 * WidestLayer(layers)) * kRowsOfBlock;
}

}  // namespace graph_opt

#endif  // GRAPH_OPT_LAYERS_LAYER_KERNELS_H_
