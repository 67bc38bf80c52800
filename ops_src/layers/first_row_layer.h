#ifndef GRAPH_OPT_LAYERS_FIRST_ROW_LAYER_H_
#define GRAPH_OPT_LAYERS_FIRST_ROW_LAYER_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "lookup/parallel.h"

namespace graph_opt {

// Some columns of a joined matrix: sign * scale * base + offset_sign * offset, where scale and
// offset are the same in all rows of a request. `width` rows of the weights belong to them.
template <typename T>
struct LayerPart {
  int64_t width = 0;
  int base = -1;  // which of the tensors that vary; -1: none
  T sign = 1;
  const T* scale = nullptr;   // [places, width]; nullptr: 1
  const T* offset = nullptr;  // [places, width]; nullptr: 0
  T offset_sign = 1;
};

// A layer over such columns, of which what varies is the same in all places of a row:
//
//     joined columns * weights + bias  =  bases * matrix + added
//
// with `matrix` [widths of all bases, places * columns] and `added` [places * columns].
template <typename T>
class FirstRowLayer {
 public:
  FirstRowLayer(const std::vector<LayerPart<T>>& parts, int64_t places, int64_t columns,
                const T* weights, const T* bias)
      : places_(places), columns_(columns), bias_(bias) {
    for (const LayerPart<T>& part : parts) {
      if (part.base >= 0) {
        if (part.base >= static_cast<int>(bases_.size())) bases_.resize(part.base + 1);
        Add(part, part.scale, part.sign, weights, &bases_[part.base]);
      }
      if (part.offset != nullptr) Add(part, part.offset, part.offset_sign, weights, &offsets_);
      weights += part.width * columns;
    }
  }

  int64_t matrix_rows() const {
    int64_t total = 0;
    for (const Terms& terms : bases_) total += terms[0].width;
    return total;
  }

  void Write(T* matrix, T* added, Parallel* threads) const {
    const int64_t rows = matrix_rows();
    threads->Run(rows + places_, [&](int64_t i) {
      if (i < rows) {
        WriteRow(i, matrix + i * places_ * columns_);
      } else {
        WriteAdded(i - rows, added + (i - rows) * columns_);
      }
    });
  }

 private:
  // sign * factors * weights, with factors [places, width], or 1 if they are nullptr.
  struct Term {
    const T* factors;
    int64_t width;
    T sign;
    const T* weights;    // [width, columns]
    std::vector<T> sum;  // where these are, if they are those of several parts
  };
  typedef std::vector<Term> Terms;

  // Parts that are multiplied with the same have their weights added up once, not in each place.
  void Add(const LayerPart<T>& part, const T* factors, T sign, const T* weights, Terms* terms) {
    const auto same = std::find_if(terms->begin(), terms->end(), [&](const Term& each) {
      return each.factors == factors && each.width == part.width;
    });
    if (same == terms->end()) {
      terms->push_back({factors, part.width, sign, weights, {}});
      return;
    }
    if (same->sum.empty()) {
      same->sum.resize(part.width * columns_);
      AddTo(part.width * columns_, same->sign, same->weights, same->sum.data());
      same->sign = 1;
      same->weights = same->sum.data();
    }
    AddTo(part.width * columns_, sign, weights, same->sum.data());
  }

  // What one column of a base is multiplied by, in all places.
  void WriteRow(int64_t row, T* to) const {
    auto terms = bases_.begin();
    for (; row >= (*terms)[0].width; ++terms) row -= (*terms)[0].width;
    std::fill(to, to + places_ * columns_, T(0));
    for (const Term& term : *terms) {
      const T* weights = term.weights + row * columns_;
      for (int64_t place = 0; place < places_; ++place) {
        const T factor = term.factors == nullptr ? T(1) : term.factors[place * term.width + row];
        AddTo(columns_, term.sign * factor, weights, to + place * columns_);
      }
    }
  }

  void WriteAdded(int64_t place, T* to) const {
    if (bias_ == nullptr) {
      std::fill(to, to + columns_, T(0));
    } else {
      std::copy(bias_, bias_ + columns_, to);
    }
    for (const Term& term : offsets_) {
      for (int64_t row = 0; row < term.width; ++row) {
        const T factor = term.sign * term.factors[place * term.width + row];
        AddTo(columns_, factor, term.weights + row * columns_, to);
      }
    }
  }

  static void AddTo(int64_t count, T factor, const T* from, T* to) {
    for (int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
  }

  const int64_t places_;
  const int64_t columns_;
  const T* const bias_;  // [columns]; nullptr: 0
  std::vector<Terms> bases_;
  Terms offsets_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_LAYERS_FIRST_ROW_LAYER_H_
