#define GRAPH_OPT_SET avx2
#define GRAPH_OPT_SET_NAME "AVX2"
#include "rows/row_kernels_compiled.h"
