// The sum of many rows, by one thread for some columns, or by a whole block.
#ifndef GRAPH_OPT_CUDA_SUM_ROWS_H_
#define GRAPH_OPT_CUDA_SUM_ROWS_H_

#include "cuda/device_code.h"

namespace graph_opt {
namespace gpu {

// More rows than this are summed by a whole block: about what one thread reads in ten or so
// microseconds.
constexpr int64_t kLongSum = 256;
// Columns that a thread has at most: 16 bytes of two-byte numbers.
constexpr int kMostColumns = 8;

// A row times `scale` after division by `divisor`; no row is a row of zeros.
struct Term {
  const void* row;
  float divisor;
  float scale;
};

// As in row_types.h, of which a GPU has only what is constant.
GRAPH_OPT_GPU bool DividesToZero(float divisor) {
  return FloatToBits(divisor) == FloatToBits(kDividesToZero);
}

template <typename T, int kColumns>
GRAPH_OPT_GPU void LoadColumns(const void* row, int64_t column, float* values) {
  typedef Pack<T, kColumns> Columns;
  const Columns loaded = *reinterpret_cast<const Columns*>(static_cast<const T*>(row) + column);
  GRAPH_OPT_UNROLL
  for (int c = 0; c < kColumns; ++c) values[c] = ToFloat(loaded.columns[c]);
}

template <typename T, int kColumns>
GRAPH_OPT_GPU void StoreColumns(const float* values, void* row, int64_t column) {
  typedef Pack<T, kColumns> Columns;
  Columns stored;
  GRAPH_OPT_UNROLL
  for (int c = 0; c < kColumns; ++c) FromFloat(values[c], &stored.columns[c]);
  *reinterpret_cast<Columns*>(static_cast<T*>(row) + column) = stored;
}

// Adds the columns from `column` on of rows [begin, end) to `total`, in order. `terms.At(i)` is the
// i-th Term.
template <typename T, int kColumns, typename Terms>
GRAPH_OPT_GPU void AddRows(const Terms& terms, int64_t begin, int64_t end, int64_t column,
                           float* total) {
  // Rows that are loaded at the same time: as many as registers hold.
  constexpr int kRowsAtOnce = kColumns > 4 ? 2 : 4;
  for (int64_t first = begin; first < end; first += kRowsAtOnce) {
    Term term[kRowsAtOnce];
    float values[kRowsAtOnce][kColumns];
    GRAPH_OPT_UNROLL
    for (int i = 0; i < kRowsAtOnce; ++i) {
      term[i] = first + i < end ? terms.At(first + i) : Term{nullptr, 1.0f, 1.0f};
    }
    GRAPH_OPT_UNROLL
    for (int i = 0; i < kRowsAtOnce; ++i) {
      if (term[i].row != nullptr) LoadColumns<T, kColumns>(term[i].row, column, values[i]);
    }
    GRAPH_OPT_UNROLL
    for (int i = 0; i < kRowsAtOnce; ++i) {
      if (term[i].row == nullptr) continue;
      GRAPH_OPT_UNROLL
      for (int c = 0; c < kColumns; ++c) {
        float value = values[i][c];
        if (DividesToZero(term[i].divisor)) {
          value = 0;
        } else if (term[i].divisor != 1) {
          value /= term[i].divisor;
        }
        total[c] += value * term[i].scale;
      }
    }
  }
}

// A block's memory for sums: column c of thread t at [c][t].
struct PartialSums {
  float columns[kMostColumns][kThreads];
};

// Sums the rows [begin, end) by the whole block: `kThreads / lanes` teams add up a slice each, and
// the slices' sums are added in a tree; both the same in each run. Calls finish(column, sums) once
// for each kColumns columns.
template <typename T, int kColumns, typename Block, typename Terms, typename Finish>
GRAPH_OPT_GPU void SumByBlock(const Block& block, PartialSums* partial, const Terms& terms,
                              int64_t begin, int64_t end, int64_t dim, int32_t lanes,
                              const Finish& finish) {
  const int32_t teams = kThreads / lanes;
  const int64_t slice = (end - begin + teams - 1) / teams;
  for (int64_t first_column = 0; first_column < dim; first_column += lanes * kColumns) {
    block.Each([&](int thread) {
      const int64_t column = first_column + thread % lanes * kColumns;
      const int64_t from = Least(begin + thread / lanes * slice, end);
      float total[kColumns] = {};
      if (column < dim) {
        AddRows<T, kColumns>(terms, from, Least(from + slice, end), column, total);
      }
      for (int c = 0; c < kColumns; ++c) partial->columns[c][thread] = total[c];
    });
    for (int32_t half = teams / 2; half > 0; half /= 2) {
      block.Each([&](int thread) {
        if (thread >= half * lanes) return;
        for (int c = 0; c < kColumns; ++c) {
          partial->columns[c][thread] += partial->columns[c][thread + half * lanes];
        }
      });
    }
    block.Each([&](int thread) {
      const int64_t column = first_column + thread * kColumns;
      if (thread >= lanes || column >= dim) return;
      float total[kColumns];
      for (int c = 0; c < kColumns; ++c) total[c] = partial->columns[c][thread];
      finish(column, total);
    });
  }
}

}  // namespace gpu
}  // namespace graph_opt

#endif  // GRAPH_OPT_CUDA_SUM_ROWS_H_
