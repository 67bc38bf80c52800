#ifndef GRAPH_OPT_PACKED_ROW_UPDATE_H_
#define GRAPH_OPT_PACKED_ROW_UPDATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "deferred/deferred_rows.h"
#include "lookup/parallel.h"
#include "packed/key_request.h"
#include "packed/packed_bags.h"
#include "rows/row_kernels.h"

namespace graph_opt {

// The gradients that a server gets, in one tensor of bytes:
//
//   for each of the server's shards   int64 count, width, lookups, words
//   for each of them                  int64 rows[count], ascending, each once, where lookups is 0
//                                     int64 keys[count], each once, where lookups is kByKey
//                                     rows and kRowsAndAsked: a bit for each in int64 asked[]
//                                     else the bags of that many lookups, int64[words]
//   for each of them                  float values[count, width], of the rows or of the bags
constexpr int64_t kRowsAndAsked = -2;

struct UpdateBlock {  // the part of one shard
  int64_t count;
  int64_t width;
  int64_t lookups;  // 0 or kRowsAndAsked: rows; kByKey: keys
  int64_t words;    // of rows, keys or bags
  int64_t* rows;    // or keys or bags
  float* values;
};

// Words of rows with a bit for each: whether its new value is asked for.
inline int64_t WordsOfAskedRows(int64_t count) { return count + (count + 63) / 64; }

// The bits of a block of kRowsAndAsked.
inline int64_t* AskedBits(const UpdateBlock& block) { return block.rows + block.count; }

inline bool IsAsked(const UpdateBlock& block, int64_t place) {
  return (static_cast<uint64_t>(AskedBits(block)[place / 64]) >> (place % 64)) & 1;
}

// An update taken apart.
struct RowUpdate {
  std::vector<UpdateBlock> blocks;              // of each shard
  std::vector<std::vector<UnpackedBags>> bags;  // of each shard: of its lookups
};

// Bytes of an update; reads `count`, `width` and `words`.
int64_t UpdateBytes(const std::vector<UpdateBlock>& blocks);

// Writes what goes before the rows, and says where rows and values go.
void LayOutUpdate(char* bytes, std::vector<UpdateBlock>* blocks);

// A shard of floats on its server, with the optimizer's slots.
struct UpdatedShard {
  std::string table;         // its name, for errors
  float* rows;               // [num_rows, dim], as the slots
  float* slots[kMostSlots];  // those the optimizer has
  int64_t num_rows;
  int64_t dim;
  int64_t stride = 0;                    // elements from row to row, as of the slots; 0: dim
  bool by_key = false;                   // whether updates name keys
  int64_t first_row = 0;                 // of those by key: rows before it are not updated
  DeferredRows* deferred = nullptr;      // within a DeferredUpdate of it; null: all are current
  const Optimizer* optimizer = nullptr;  // with hyperparameters of its own; null: those of all
};

// Takes an update apart, and checks it wholly. `bytes` must be aligned for int64.
absl::Status ReadUpdate(char* bytes, int64_t size, const std::vector<UpdatedShard>& shards,
                        Parallel* parallel, RowUpdate* update);

// What ApplyUpdate costs, as bytes of rows that would be read meanwhile.
int64_t BytesOf(const RowUpdate& update);

// Updates the rows, by the optimizer, and no others. Blocks of keys must have the keys' rows by
// then.
void ApplyUpdate(const Optimizer& optimizer, const std::vector<UpdatedShard>& shards,
                 const RowUpdate& update, const RowKernels& kernels, Parallel* parallel);

// The answer to an update: a number that grows from answer to answer of the same server, and the
// rows asked for as they are after the update, shard by shard.
constexpr int64_t kAnswerHeaderBytes = sizeof(int64_t);

// Numbers asked for.
int64_t AnswerSize(const RowUpdate& update);

void WriteAnswer(const std::vector<UpdatedShard>& shards, const RowUpdate& update, float* values);

}  // namespace graph_opt

#endif  // GRAPH_OPT_PACKED_ROW_UPDATE_H_
