#define GRAPH_OPT_SET avx2
#include "rows/row_kernels_compiled.h"
