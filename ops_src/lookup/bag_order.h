#ifndef GRAPH_OPT_LOOKUP_BAG_ORDER_H_
#define GRAPH_OPT_LOOKUP_BAG_ORDER_H_

#include <cstdint>
#include <mutex>
#include <vector>

#include "lookup/bags.h"

namespace graph_opt {

// Sorts sparse ids by bag, as tf.nn.safe_embedding_lookup_sparse does, by setting `places`; ids of
// the same bag keep their order. Returns false and sets nothing if they are sorted already, if a
// bag does not exist, or if the lookup is not `safe`: TensorFlow's unsafe lookup reports an error
// for unsorted ids.
bool PutInBagOrder(Bags* bags, std::vector<int64_t>* places);

// Lookups as they were given, and with their sparse ids sorted by bag. Sorting is done on demand,
// after a fault has shown that they may be unsorted: checking first would read all positions
// twice. A LookupType has `bags`.
template <typename LookupType>
class InBagOrder {
 public:
  explicit InBagOrder(const std::vector<LookupType>& given) : given_(given) {}

  const std::vector<LookupType>& given() const { return given_; }

  // May be called from any thread.
  const std::vector<LookupType>& in_order() {
    std::call_once(once_, [this] {
      in_order_ = given_;
      places_.resize(in_order_.size());
      for (size_t i = 0; i < in_order_.size(); ++i) {
        PutInBagOrder(&in_order_[i].bags, &places_[i]);
      }
    });
    return in_order_;
  }

 private:
  const std::vector<LookupType>& given_;
  std::once_flag once_;
  std::vector<LookupType> in_order_;
  std::vector<std::vector<int64_t>> places_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_LOOKUP_BAG_ORDER_H_
