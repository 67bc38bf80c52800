#define GRAPH_OPT_SET avx512
#define GRAPH_OPT_SET_NAME "AVX-512"
#include "rows/row_kernels_compiled.h"
