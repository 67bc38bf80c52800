#ifndef GRAPH_OPT_ROWS_ROW_KERNELS_H_
#define GRAPH_OPT_ROWS_ROW_KERNELS_H_

#include <stdint.h>

#include "optimizers/optimizer.h"
#include "rows/key_lines.h"
#include "rows/row_types.h"

namespace graph_opt {

// Bags whose rows are found already: bag i has rows[offsets[i]] ... rows[offsets[i + 1] - 1].
struct PoolBlock {
  const void* const* rows;
  const int64_t* offsets;  // num_bags + 1, from 0
  int64_t num_bags;
  const float* weights;  // beside rows, or null
  int64_t dim;
  RowType type;
  Combiner combiner;
  void* pooled;  // bag i at element i * pooled_stride
  int64_t pooled_stride;
  RowType pooled_type;  // that of the rows, or kFloat
};

// Bags of one id each: row ids[i] of a table becomes pooled row i, of the same type or as floats.
struct SingleRows {
  const void* ids;
  bool wide_ids;             // int64, else int32
  const int64_t* positions;  // null, or ids[i] belongs to bag positions[i * stride] - first_bag
  int64_t stride;
  int64_t first_bag;
  int64_t count;
  const void* rows;  // [num_rows] of row_bytes each, row_stride bytes apart
  uint64_t num_rows;
  int64_t row_bytes;
  int64_t row_stride;
  void* pooled;  // rows pooled_bytes apart
  int64_t pooled_bytes;
  bool past_caches;  // what is written is more than caches hold
  RowType type;      // of the rows
  RowType pooled_type;
  int64_t dim;  // where both differ
};

// Occurrences of rows, sorted: each is key << payload_bits | payload. Those of one key are a run;
// the key is the number of a table's row, and the payload says where its gradient comes from:
//
//   gradient of an occurrence = pooled_gradient / divisors[payload] * scales[payload]
//
// with pooled_gradient at gradient_rows[payload], or at gradients + payload * stride.
struct Occurrences {
  const uint64_t* sorted;
  int64_t count;
  int payload_bits;
  RowType type;  // of the pooled gradients
  int64_t dim;
  const void* gradients;
  int64_t stride;
  const void* const* gradient_rows;  // or null
  const float* divisors;             // or null; see DividesToZero
  const float* scales;               // or null
};

// Some keys, as bits: bit i of word w is key first_key + 64 * w + i. ranks[w] counts the keys of
// the words before w.
struct KeySet {
  uint64_t first_key;
  const uint64_t* bits;
  const uint32_t* ranks;
};

// Sums of the runs, in order: keys - first_key to indices, one row of `type` each to values.
struct RunSums {
  uint64_t first_key;
  int64_t* indices;
  void* values;
};

// A table, or one shard, with the optimizer's slots, all [rows, dim]: row 0 is first_key. Rows are
// `stride` floats apart: dim, or more if the slots of a row lie beside it.
struct UpdateRows {
  Optimizer optimizer;
  uint64_t first_key;
  int64_t stride;
  float* table;
  float* slots[kMostSlots];  // those the optimizer has
};

// Consecutive steps that a row missed and that move it (deferred/step_history.h):
//
//   weights = weights * kept - m * (sums[0] + sums[1] * y + sums[2] * y^2 + ...) / d
//   m = moment slot * moment    d = sqrt(root slot) * root + epsilon    y = 1 - epsilon / d
//
// or weights * kept - m * sums[0] without a root slot. Slots are as they were before all spans. An
// average of the weights over time moves before them, with averaged_sums in the place of sums:
//
//   average = average - (average - weights) * share - weights * lost - m * (...) / d
struct IdleSpan {
  const float* sums;
  const float* averaged_sums;
  float moment;
  float root;
  float kept;
  float share;
  float lost;
};

// Steps that one row missed and that mix its weights with its first slot:
//
//   slot     = slot_from_slot    * slot + slot_from_weights    * weights
//   weights  = weights_from_slot * slot + weights_from_weights * weights      both the old ones
struct IdleMixing {
  float slot_from_slot;
  float slot_from_weights;
  float weights_from_slot;
  float weights_from_weights;
};

// The steps without gradient that one row missed.
struct IdleRow {
  int64_t row;
  int64_t first_span;
  int64_t num_spans;
  float kept;  // after the spans, as in one without sums
  float share;
  float lost;
  float decays[kMostSlots];  // of the slots, over all steps
  IdleMixing mixing;         // instead of all these, if rows are mixed
  bool may_rest;             // said when they are done: slots are 0, and the average is the weights
};

struct IdleRows {
  float* table;  // [rows, dim], as the slots
  float* slots[kMostSlots];
  int num_slots;
  float* average;  // or null
  int64_t dim;
  int moment;  // slot
  int root;    // slot, or -1
  bool are_mixed;
  float epsilon;
  int num_sums;  // of each span
  const IdleSpan* spans;
  IdleRow* rows;
  int64_t count;
};

// What is compiled once for each instruction set.
struct RowKernels {
  const char* name;  // of the instruction set, for people
  int lanes;         // floats in a vector
  void (*pool)(const PoolBlock& block);
  // Stops before the first id that is not a row, or not the only one of bag i as far as can be told
  // from those before it. Returns how many there were.
  int64_t (*copy_rows)(const SingleRows& block);
  // Adds float gradients to row `rank of its key` of sums, in the order of the occurrences, which
  // need not be sorted.
  void (*add_to_rows)(const Occurrences& occurrences, const KeySet& keys, float* sums);
  // Returns how many runs there were.
  int64_t (*sum_runs)(const Occurrences& occurrences, const RunSums& sums);
  void (*update_runs)(const Occurrences& occurrences, const UpdateRows& rows);
  void (*catch_up_rows)(const IdleRows& rows);
  // Returns how many keys have no row.
  int64_t (*search_keys)(const KeySearch& search);
};

// For each call the fastest that this machine runs, which depends on how wide the rows are.
const RowKernels& BestRowKernels();

// Those that it takes for rows of this width.
const RowKernels& RowKernelsFor(int64_t dim, RowType type);

// For tests: all that this machine runs, the best ones last, null at the end.
const RowKernels* const* RunnableRowKernels();

}  // namespace graph_opt

#endif  // GRAPH_OPT_ROWS_ROW_KERNELS_H_
