#define GRAPH_OPT_SET avx512_layers
#define GRAPH_OPT_SET_NAME "AVX-512"
#include "layers/layer_kernels_compiled.h"
