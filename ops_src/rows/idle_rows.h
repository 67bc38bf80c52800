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

// How far the weights move in one span, over their kept part, and their average.
struct Moves {
  Floats weights;
  Floats average;
};

template <bool kRooted, bool kAveraged>
inline GRAPH_OPT_INLINED Moves MovesOf(const IdleRows& all, const IdleSpan& span, Floats moment,
                                       Floats root) {
  const Floats scaled = moment * span.moment;
  if (!kRooted) {
    return {scaled * span.sums[0], kAveraged ? scaled * span.averaged_sums[0] : Floats{}};
  }
  const Floats inverse = 1.0f / (root * span.root + all.epsilon);
  const Floats share = 1.0f - all.epsilon * inverse;
  const int last = all.num_sums - 1;
  Floats sum = Broadcast(span.sums[last]);
  Floats averaged = kAveraged ? Broadcast(span.averaged_sums[last]) : Floats{};
  for (int i = last - 1; i >= 0; --i) {
    sum = sum * share + span.sums[i];
    if (kAveraged) averaged = averaged * share + span.averaged_sums[i];
  }
  return {scaled * inverse * sum, scaled * inverse * averaged};
}

// Moves the weights, and their average. Returns bits of which none is set where both are equal.
template <bool kRooted, bool kAveraged>
inline GRAPH_OPT_INLINED Words MoveColumns(const IdleRows& all, const IdleRow& row,
                                           const IdleColumns& columns) {
  float* const place = all.table + columns.at;
  Floats weights = LoadPart(place, columns.some);
  Floats average{};
  Floats moment{};
  Floats root{};
  if (kAveraged) average = LoadPart(all.average + columns.at, columns.some);
  if (row.num_spans > 0) moment = LoadPart(all.slots[all.moment] + columns.at, columns.some);
  if (kRooted) root = SquareRoot(LoadPart(all.slots[all.root] + columns.at, columns.some));
  const IdleSpan* const spans = all.spans + row.first_span;
  for (int64_t i = 0; i < row.num_spans; ++i) {
    const Moves moves = MovesOf<kRooted, kAveraged>(all, spans[i], moment, root);
    if (kAveraged) {
      average -= (average - weights) * spans[i].share + weights * spans[i].lost + moves.average;
    }
    weights = weights * spans[i].kept - moves.weights;
  }
  if (kAveraged) {
    average -= (average - weights) * row.share + weights * row.lost;
    StorePart(average, all.average + columns.at, columns.some);
  }
  weights *= row.kept;
  StorePart(weights, place, columns.some);
  return kAveraged ? (Words)((Words)average ^ (Words)weights) : Words{};
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

template <bool kRooted, bool kAveraged>
inline GRAPH_OPT_INLINED Words CatchUpColumns(const IdleRows& all, const IdleRow& row,
                                              const IdleColumns& columns) {
  if (!kRooted && !kAveraged && all.are_mixed) return MixColumns(all, row.mixing, columns);
  Words apart{};
  if (kAveraged || row.num_spans > 0 || row.kept != 1.0f) {
    apart = MoveColumns<kRooted, kAveraged>(all, row, columns);
  }
  return apart | DecayColumns(all, row, columns);
}

inline bool IsZero(Words bits) {
  uint32_t any = 0;
  for (int i = 0; i < kLanes; ++i) any |= bits[i];
  return any == 0;
}

template <bool kRooted, bool kAveraged>
inline void CatchUpTyped(const IdleRows& given) {
  const IdleRows all = given;  // of its own, which no write to a table could change
  const int64_t dim = all.dim;
  const int64_t ahead = RowsAhead(dim * 4) / (1 + kAveraged + all.num_slots) + 1;
  const auto fetch = [&](int64_t i) GRAPH_OPT_INLINED {
    const int64_t at = all.rows[i].row * dim;
    FetchRow(all.table + at, dim * 4);
    if (kAveraged) FetchRow(all.average + at, dim * 4);
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
      bits |= CatchUpColumns<kRooted, kAveraged>(all, row, columns);
    }
    if (columns.at < end) {
      columns.some = static_cast<int>(end - columns.at);
      bits |= CatchUpColumns<kRooted, kAveraged>(all, row, columns);
    }
    row.may_rest = IsZero(bits);
  }
}

void CatchUpRows(const IdleRows& rows) {
  const bool is_averaged = rows.average != nullptr;
  if (rows.root >= 0) {
    return is_averaged ? CatchUpTyped<true, true>(rows) : CatchUpTyped<true, false>(rows);
  }
  is_averaged ? CatchUpTyped<false, true>(rows) : CatchUpTyped<false, false>(rows);
}

}  // namespace GRAPH_OPT_SET
}  // namespace graph_opt

#endif  // GRAPH_OPT_ROWS_IDLE_ROWS_H_
