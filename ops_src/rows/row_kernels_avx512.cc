#define GRAPH_OPT_SET avx512
#include "rows/row_kernels_compiled.h"
