#define GRAPH_OPT_SET portable
#define GRAPH_OPT_SET_NAME "portable"
#include "rows/row_kernels_compiled.h"
