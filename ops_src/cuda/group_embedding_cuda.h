/* Group lookups on an NVIDIA GPU, without TensorFlow: plain C functions.
 *
 * Pointers in the structures are to device memory. The structures themselves are on the host, and
 * free again when a call returns. All work is queued on `stream` (a cudaStream_t); only
 * graph_opt_cuda_count_rows and copies to and from the host wait for it. A call gives 0, a
 * cudaError_t, or a negative number of GraphOptCudaStatus.
 *
 * Results are those of the functors in ops_src/lookup and ops_src/apply except for the order of
 * additions, and the same in each run. An id that its table does not have counts as a row of zeros
 * and has no gradient, as in tf.gather on a GPU; it is reported in `fault` if that is given.
 */
#ifndef GRAPH_OPT_CUDA_GROUP_EMBEDDING_CUDA_H_
#define GRAPH_OPT_CUDA_GROUP_EMBEDDING_CUDA_H_

#include <stdint.h>

#include "optimizers/optimizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Dimensions of sparse ids before the last one. */
#define GRAPH_OPT_CUDA_MOST_SIZES 8
/* What the device word `fault` holds while nothing is wrong; the caller sets it. */
#define GRAPH_OPT_CUDA_NO_FAULT UINT64_MAX

enum GraphOptCudaStatus {
  GRAPH_OPT_CUDA_TOO_MANY = -1,  /* 2^31 ids or bags, or 65,535 lookups, or more */
  GRAPH_OPT_CUDA_BAD_GROUP = -2, /* a structure contradicts itself */
  GRAPH_OPT_CUDA_NO_DEVICE = -3, /* no GPU, or no driver for it */
};

enum GraphOptCudaType { GRAPH_OPT_CUDA_FLOAT, GRAPH_OPT_CUDA_HALF, GRAPH_OPT_CUDA_BFLOAT16 };
enum GraphOptCudaLayout { GRAPH_OPT_CUDA_DENSE, GRAPH_OPT_CUDA_RAGGED, GRAPH_OPT_CUDA_SPARSE };
enum GraphOptCudaCombiner {
  GRAPH_OPT_CUDA_SUM,
  GRAPH_OPT_CUDA_MEAN,
  GRAPH_OPT_CUDA_SQRTN,
  GRAPH_OPT_CUDA_MEAN_OR_NAN, /* as row_types.h says */
  GRAPH_OPT_CUDA_SQRTN_OR_NAN,
  GRAPH_OPT_CUDA_COMBINERS, /* how many there are */
};
enum GraphOptCudaPartition { GRAPH_OPT_CUDA_MOD, GRAPH_OPT_CUDA_DIV };
enum GraphOptCudaFaultKind { GRAPH_OPT_CUDA_ID_OUT_OF_RANGE = 1, GRAPH_OPT_CUDA_OUT_OF_ORDER = 2 };

/* One part of a table. */
typedef struct {
  int64_t num_rows;
  void* rows;                         /* [num_rows, dim]; lookup, apply */
  float* slots[GRAPH_OPT_MOST_SLOTS]; /* like rows; apply, those that the optimizer has */
  int64_t* indices;                   /* [rows that are in the ids]; sum: written */
  void* sums;                         /* [rows that are in the ids, dim]; sum: written */
} GraphOptCudaShard;

typedef struct {
  int32_t first_shard;
  int32_t num_shards;
  int32_t dim;
  int32_t type;
  int32_t partition;
} GraphOptCudaTable;

/* One lookup; bags.h says what the fields mean. */
typedef struct {
  const void* ids;          /* [num_ids], int64 where wide_ids, else int32 */
  const int64_t* positions; /* ragged: [num_bags + 1]; sparse: [num_ids, stride]; else null */
  const float* weights;     /* [num_ids] or null */
  void* pooled;             /* [num_bags, dim] of the table's type: lookup writes it; sort takes
                               the gradients there */
  int64_t pooled_stride;    /* elements from row to row */
  int64_t num_ids;
  int64_t num_bags;
  int64_t stride;
  int64_t width;      /* dense: ids of a bag */
  int64_t default_id; /* or -1 */
  int64_t filled_id;  /* sort: of an empty bag without default, with a gradient of 0; or -1 */
  int64_t sizes[GRAPH_OPT_CUDA_MOST_SIZES]; /* sparse with num_sizes > 1: the bag is the place of
                                               the first num_sizes positions in this shape */
  int32_t num_sizes;                        /* else 1 */
  int32_t table;
  int32_t layout;
  int32_t combiner;
  int32_t wide_ids;
  int32_t safe;
} GraphOptCudaLookup;

typedef struct {
  const GraphOptCudaShard* shards; /* those of one table one after another, in order of tables */
  const GraphOptCudaTable* tables;
  const GraphOptCudaLookup* lookups;
  int32_t num_shards;
  int32_t num_tables;
  int32_t num_lookups;
} GraphOptCudaGroup;

/* Bytes of device memory, aligned to 256, that a call needs as `workspace`; negative: a status. */
int64_t graph_opt_cuda_lookup_workspace(const GraphOptCudaGroup* group);
int64_t graph_opt_cuda_sort_workspace(const GraphOptCudaGroup* group);

/* Pools the rows of all lookups. */
int32_t graph_opt_cuda_lookup(const GraphOptCudaGroup* group, void* workspace, uint64_t* fault,
                              void* stream);

/* Sorts the ids by row, and leaves what it finds in the workspace for the calls below, which take
 * the same group; only `rows`, `slots`, `indices` and `sums` may have changed. */
int32_t graph_opt_cuda_sort(const GraphOptCudaGroup* group, void* workspace, uint64_t* fault,
                            void* stream);

/* How many rows of each shard are in the ids, to host memory; waits for the stream. */
int32_t graph_opt_cuda_count_rows(const GraphOptCudaGroup* group, void* workspace, int64_t* counts,
                                  void* stream);

/* Each row's sum of gradients, rows ascending. */
int32_t graph_opt_cuda_sum(const GraphOptCudaGroup* group, void* workspace, void* stream);

/* Updates by its sum of gradients each row that is in the ids. Tables of float only. */
int32_t graph_opt_cuda_apply(const GraphOptCudaGroup* group, const GraphOptOptimizer* optimizer,
                             void* workspace, void* stream);

/* Queues that a fault word says that nothing is wrong, or a copy of it to pinned host memory. */
int32_t graph_opt_cuda_clear_fault(uint64_t* fault, void* stream);
int32_t graph_opt_cuda_read_fault(const uint64_t* fault, uint64_t* copied, void* stream);

/* Copies from device to host memory and waits for the stream. */
int32_t graph_opt_cuda_download(const void* from, int64_t bytes, void* to, void* stream);

/* Copies `count` rows of `bytes` each, which are `stride` bytes apart on the device and one after
 * another on the host, and waits for the stream. */
int32_t graph_opt_cuda_download_rows(const void* from, int64_t stride, int64_t bytes, int64_t count,
                                     void* to, void* stream);
int32_t graph_opt_cuda_upload_rows(const void* from, int64_t bytes, int64_t count, void* to,
                                   int64_t stride, void* stream);

/* What a status means; never null. */
const char* graph_opt_cuda_message(int32_t status);

/* The parts of a fault: a kind, or 0 for none, the lookup and the bag. */
static inline int32_t graph_opt_cuda_fault_kind(uint64_t fault) {
  return fault == GRAPH_OPT_CUDA_NO_FAULT ? 0 : (int32_t)(fault & 3);
}
static inline int64_t graph_opt_cuda_fault_lookup(uint64_t fault) { return (int64_t)(fault >> 48); }
static inline int64_t graph_opt_cuda_fault_bag(uint64_t fault) {
  return (int64_t)(fault >> 2 & ((UINT64_C(1) << 46) - 1));
}

#ifdef __cplusplus
}
#endif

#endif /* GRAPH_OPT_CUDA_GROUP_EMBEDDING_CUDA_H_ */
