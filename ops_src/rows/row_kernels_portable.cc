#define GRAPH_OPT_SET portable
#include "rows/row_kernels_compiled.h"
