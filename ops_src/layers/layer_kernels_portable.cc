#define GRAPH_OPT_SET portable_layers
#define GRAPH_OPT_SET_NAME "portable"
#include "layers/layer_kernels_compiled.h"
