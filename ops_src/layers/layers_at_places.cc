#include "layers/layers_at_places.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "layers/layer_kernels.h"
#include "rows/row_kernels.h"

namespace graph_opt {

namespace portable_layers {
extern const LayerKernels kLayerKernels;
}
#if defined(__x86_64__)
namespace avx2_layers {
extern const LayerKernels kLayerKernels;
}
namespace avx512_layers {
extern const LayerKernels kLayerKernels;
}
#endif

namespace {

const LayerKernels* const kCompiled[] = {
    &portable_layers::kLayerKernels,
#if defined(__x86_64__)
    &avx2_layers::kLayerKernels,
    &avx512_layers::kLayerKernels,
#endif
};

// Those of the sets that rows are read with, whose widest GRAPH_OPT_INSTRUCTION_SET may limit.
struct Runnable {
  Runnable() {
    for (const LayerKernels* const kernels : kCompiled) {
      for (const RowKernels* const* rows = RunnableRowKernels(); *rows != nullptr; ++rows) {
        if (std::strcmp((*rows)->name, kernels->name) == 0 && HasProductsWithSums(kernels)) {
          names[count] = kernels->name;
          sets[count++] = kernels;
        }
      }
    }
  }

  // All sets but the portable one are compiled with instructions that multiply and add.
  static bool HasProductsWithSums(const LayerKernels* kernels) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    return kernels == kCompiled[0] || __builtin_cpu_supports("fma");
#else
    return kernels == kCompiled[0];
#endif
  }

  const LayerKernels* sets[4] = {};
  const char* names[4] = {};
  int count = 0;
};

const Runnable& Found() {
  static const Runnable runnable;
  return runnable;
}

void Compute(const LayerKernels& kernels, const PlaceLayers& layers, float* results,
             Parallel* threads) {
  const int64_t blocks = (layers.rows + kRowsOfBlock - 1) / kRowsOfBlock;
  threads->Run(blocks, [&](int64_t block) {
    const int64_t first = block * kRowsOfBlock;
    std::vector<float> scratch(ScratchSize(layers));
    kernels.compute(layers, first, std::min(kRowsOfBlock, layers.rows - first), scratch.data(),
                    results);
  });
}

}  // namespace

void ComputeLayers(const PlaceLayers& layers, float* results, Parallel* threads) {
  Compute(*Found().sets[Found().count - 1], layers, results, threads);
}

const char* const* LayerInstructionSets() { return Found().names; }

void ComputeLayersWith(const char* instruction_set, const PlaceLayers& layers, float* results,
                       Parallel* threads) {
  for (int i = 0; i < Found().count; ++i) {
    if (std::strcmp(Found().names[i], instruction_set) == 0) {
      Compute(*Found().sets[i], layers, results, threads);
    }
  }
}

}  // namespace graph_opt
