#define GRAPH_OPT_SET avx2_layers
#define GRAPH_OPT_SET_NAME "AVX2"
#include "layers/layer_kernels_compiled.h"
