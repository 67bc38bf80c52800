#ifndef GRAPH_OPT_PACKED_ROW_UPDATE_H_
#define GRAPH_OPT_PACKED_ROW_UPDATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "lookup/parallel.h"
#include "rows/row_kernels.h"

namespace graph_opt {

// The gradients that a server gets, in one tensor of bytes:
//
//   for each of the server's shards   int64 count, int64 width
//   for each of them                  int64 rows[count], ascending, each once
//   for each of them                  float values[count, width]
struct UpdateBlock {  // the part of one shard
  int64_t count;
  int64_t width;
  int64_t* rows;
  float* values;
};

// Bytes of an update; reads `count` and `width`.
int64_t UpdateBytes(const std::vector<UpdateBlock>& blocks);

// Writes the counts and widths, and says where rows and values go.
void LayOutUpdate(char* bytes, std::vector<UpdateBlock>* blocks);

// A shard of floats on its server, with the optimizer's slots.
struct UpdatedShard {
  std::string table;  // its name, for errors
  float* rows;        // [num_rows, dim], as the slots
  float* slots[2];
  int64_t num_rows;
  int64_t dim;
};

// Takes an update apart, and checks it wholly. `bytes` must be aligned for int64. Returns what is
// wrong, or nothing.
std::string ReadUpdate(char* bytes, int64_t size, const std::vector<UpdatedShard>& shards,
                       Parallel* parallel, std::vector<UpdateBlock>* blocks);

// Updates the rows, by the rule, and no others.
void ApplyUpdate(UpdateRule rule, const UpdateNumbers& numbers,
                 const std::vector<UpdatedShard>& shards, const std::vector<UpdateBlock>& blocks,
                 const RowKernels& kernels, Parallel* parallel);

}  // namespace graph_opt

#endif  // GRAPH_OPT_PACKED_ROW_UPDATE_H_
