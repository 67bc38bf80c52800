// Steps without gradient, many at once; part of row_kernels_compiled.h.
#ifndef GRAPH_OPT_ROWS_IDLE_ROWS_H_
#define GRAPH_OPT_ROWS_IDLE_ROWS_H_

#include "rows/row_kernels.h"
#include "rows/run_sums.h"
#include "rows/vector_lanes.h"

namespace graph_opt {
namespace GRAPH_OPT_SET {

// Numbers too small for a normal float become 0, as on the threads of TensorFlow's kernels.
inline Floats FlushToZero(Floats x) {
  const Words magnitude = (Words)x & 0x7fffffff;
  return (Floats)((Words)x & (Words)(magnitude >= 0x00800000));
}

// Where the columns that are worked on lie.
struct IdleColumns {
  int64_t at;  // from the start of the table
  int some;    // how many, where they are fewer than a vector; else 0
};

// How far the weights move, over their kept part, in one span.
template <bool kRooted>
inline GRAPH_OPT_INLINED Floats MoveBy(const IdleRows& all, const IdleSpan& span, Floats moment,
                                       Floats root) {
  Floats scaled = moment * span.moment;
  if (!kRooted) return scaled * span.sums[0];
  const Floats inverse = 1.0f / (root * span.root + all.epsilon);
  const Floats share = 1.0f - all.epsilon * inverse;
  Floats sum = Broadcast(span.sums[all.num_sums - 1]);
  for (int i = all.num_sums - 2; i >= 0; --i) sum = sum * share + span.sums[i];
  return scaled * inverse * sum;
}

template <bool kRooted>
inline GRAPH_OPT_INLINED void MoveColumns(const IdleRows& all, const IdleRow& row,
                                          const IdleColumns& columns) {
  float* const place = all.table + columns.at;
  Floats weights = LoadPart(place, columns.some);
  Floats moment{};
  Floats root{};
  if (row.num_spans > 0) moment = LoadPart(all.slots[all.moment] + columns.at, columns.some);
  if (kRooted) root = SquareRoot(LoadPart(all.slots[all.root] + columns.at, columns.some));
  const IdleSpan* const spans = all.spans + row.first_span;
  for (int64_t i = 0; i < row.num_spans; ++i) {
    weights = weights * spans[i].kept - MoveBy<kRooted>(all, spans[i], moment, root);
  }
  StorePart(weights * row.kept, place, columns.some);
}

// Returns the bits of the slots, of which none is set where all are 0.
inline GRAPH_OPT_INLINED Words DecayColumns(const IdleRows& all, const IdleRow& row,
                                            const IdleColumns& columns) {
  Words bits{};
  for (int slot = 0; slot < all.num_slots; ++slot) {
    float* const place = all.slots[slot] + columns.at;
    const Floats decayed = FlushToZero(LoadPart(place, columns.some) * row.decays[slot]);
    StorePart(decayed, place, columns.some);
    bits |= (Words)decayed & 0x7fffffff;
  }
  return bits;
}

// Returns the bits of the slot.
inline GRAPH_OPT_INLINED Words MixColumns(const IdleRows& all, const IdleMixing& by,
                                          const IdleColumns& columns) {
  float* const of_weights = all.table + columns.at;
  float* const of_slot = all.slots[0] + columns.at;
  const Floats weights = LoadPart(of_weights, columns.some);
  const Floats slot = LoadPart(of_slot, columns.some);
  const Floats mixed = FlushToZero(slot * by.slot_from_slot + weights * by.slot_from_weights);
  StorePart(mixed, of_slot, columns.some);
  StorePart(slot * by.weights_from_slot + weights * by.weights_from_weights, of_weights,
            columns.some);
  return (Words)mixed & 0x7fffffff;
}

template <bool kRooted>
inline GRAPH_OPT_INLINED Words BringColumns(const IdleRows& all, const IdleRow& row,
                                            const IdleColumns& columns) {
  if (!kRooted && all.are_mixed) return MixColumns(all, row.mixing, columns);
  if (row.num_spans > 0 || row.kept != 1.0f) MoveColumns<kRooted>(all, row, columns);
  return DecayColumns(all, row, columns);
}

inline bool IsZero(Words bits) {
  uint32_t any = 0;
  for (int i = 0; i < kLanes; ++i) any |= bits[i];
  return any == 0;
}

template <bool kRooted>
inline void BringTyped(const IdleRows& given) {
  const IdleRows all = given;  // of its own, which no write to a table could change
  const int64_t dim = all.dim;
  const int64_t ahead = RowsAhead(dim * 4) / (1 + all.num_slots) + 1;
  const auto fetch = [&](int64_t i) GRAPH_OPT_INLINED {
    const int64_t at = all.rows[i].row * dim;
    FetchRow(all.table + at, dim * 4);
    for (int slot = 0; slot < all.num_slots; ++slot) FetchRow(all.slots[slot] + at, dim * 4);
  };
  for (int64_t i = 0; i < ahead && i < all.count; ++i) fetch(i);
  for (int64_t i = 0; i < all.count; ++i) {
    if (i + ahead < all.count) fetch(i + ahead);
    IdleRow& row = all.rows[i];
    IdleColumns columns = {row.row * dim, 0};
    const int64_t end = columns.at + dim;
    Words bits{};
    for (; columns.at + kLanes <= end; columns.at += kLanes) {
      bits |= BringColumns<kRooted>(all, row, columns);
    }
    if (columns.at < end) {
      columns.some = static_cast<int>(end - columns.at);
      bits |= BringColumns<kRooted>(all, row, columns);
    }
    row.slots_are_zero = IsZero(bits);
  }
}

void BringRows(const IdleRows& rows) {
  if (rows.root >= 0) return BringTyped<true>(rows);
  BringTyped<false>(rows);
}

}  // namespace GRAPH_OPT_SET
}  // namespace graph_opt

#endif  // GRAPH_OPT_ROWS_IDLE_ROWS_H_
