#include "dynamic/index_search.h"

#include <algorithm>

namespace graph_opt {

constexpr int64_t IndexSearch::kAtOnce;

int64_t IndexSearch::Find(int64_t begin, int64_t end, uint32_t* missed) {
  int64_t num_missed = 0, num_elsewhere = 0;
  const RowIndex::Line* lines[kAtOnce];
  Fetch(begin, end);
  for (int64_t from = begin; from < end; from += kAtOnce) {
    const int64_t count = std::min(kAtOnce, end - from);
    std::copy_n(fetched_, count, lines);
    Fetch(from + count, end);
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t row = lines[i]->RowOf(keys_[from + i]);
      rows_[from + i] = row;
      elsewhere_[num_elsewhere] = {from + i, lines[i]};
      num_elsewhere += row == Stripe::kAbsent;
    }
    if (num_elsewhere <= kMostElsewhere - kAtOnce && from + count < end) continue;
    num_missed += FindElsewhere(num_elsewhere, missed + num_missed);
    num_elsewhere = 0;
  }
  return num_missed;
}

void IndexSearch::Fetch(int64_t begin, int64_t end) {
  const int64_t count = std::min(kAtOnce, end - begin);
  for (int64_t i = 0; i < count; ++i) {
    const Stripe::Probe probe(keys_[begin + i]);
    fetched_[i] = StripeOf(probe).Home(probe);
    __builtin_prefetch(fetched_[i]);
  }
}

int64_t IndexSearch::FindElsewhere(int64_t count, uint32_t* missed) {
  std::copy_n(elsewhere_, count, left_);
  for (int64_t left = count; left > 0;) left = SearchOn(left);
  int64_t num_missed = 0;
  for (int64_t e = 0; e < count; ++e) {
    const int64_t place = elsewhere_[e].place;
    if (rows_[place] == Stripe::kAbsent) missed[num_missed++] = static_cast<uint32_t>(place);
  }
  return num_missed;
}

int64_t IndexSearch::SearchOn(int64_t count) {
  int64_t num_left = 0;
  for (int64_t i = 0; i < count; ++i) {
    const Searched searched = left_[i];
    if (searched.line->passed == 0) continue;
    const Stripe::Probe probe(keys_[searched.place]);
    const Stripe& stripe = StripeOf(probe);
    const RowIndex::Line* const next = stripe.Next(searched.line);
    if (next == stripe.Home(probe)) continue;
    __builtin_prefetch(next);
    left_[num_left++] = {searched.place, next};
  }
  int64_t num_further = 0;
  for (int64_t i = 0; i < num_left; ++i) {
    const Searched searched = left_[i];
    const uint32_t row = searched.line->RowOf(keys_[searched.place]);
    rows_[searched.place] = row;
    left_[num_further] = searched;
    num_further += row == Stripe::kAbsent;
  }
  return num_further;
}

}  // namespace graph_opt
