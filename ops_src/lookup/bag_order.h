#ifndef GRAPH_OPT_LOOKUP_BAG_ORDER_H_
#define GRAPH_OPT_LOOKUP_BAG_ORDER_H_

#include <cstdint>
#include <mutex>
#include <vector>

#include "lookup/bags.h"

namespace graph_opt {

// Sets `places` of sparse ids that are not in the order of their bags, ids of a bag in the order in
// which they stand: as tf.nn.safe_embedding_lookup_sparse does. False, and nothing is set, where
// they are in order already, where a bag does not exist, and where not `safe`: TensorFlow's unsafe
// lookup has an error for them.
bool PutInBagOrder(Bags* bags, std::vector<int64_t>* places);

// Lookups as they were given, and with sparse ids in the order of their bags. They are put in order
// when that is asked for, which is when a fault says that they may not be: to look first would be
// to read all positions twice. A LookupType has `bags`.
template <typename LookupType>
class InBagOrder {
 public:
  explicit InBagOrder(const std::vector<LookupType>& given) : given_(given) {}

  const std::vector<LookupType>& given() const { return given_; }

  // Any thread may call it.
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
