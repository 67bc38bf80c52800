#include "lookup/bag_order.h"

#include <algorithm>
#include <numeric>

namespace graph_opt {

bool PutInBagOrder(Bags* bags, std::vector<int64_t>* places) {
  if (!bags->safe || bags->layout != Bags::kSparse) return false;
  const auto bag_of = [bags](int64_t place) { return bags->positions[place * bags->stride]; };
  bool in_order = true;
  for (int64_t k = 0; k < bags->num_ids; ++k) {
    if (bag_of(k) < 0 || bag_of(k) >= bags->num_bags) return false;
    in_order &= k == 0 || bag_of(k - 1) <= bag_of(k);
  }
  if (in_order) return false;
  places->resize(bags->num_ids);
  std::iota(places->begin(), places->end(), int64_t{0});
  std::stable_sort(places->begin(), places->end(),
                   [&](int64_t a, int64_t b) { return bag_of(a) < bag_of(b); });
  bags->places = places->data();
  return true;
}

}  // namespace graph_opt
