#ifndef GRAPH_OPT_DYNAMIC_KEYS_BY_STRIPE_H_
#define GRAPH_OPT_DYNAMIC_KEYS_BY_STRIPE_H_

#include <cstdint>
#include <vector>

#include "lookup/parallel.h"
#include "scratch/scratch_array.h"

namespace graph_opt {

// The keys of a lookup by their stripes, each stripe's in the order of their occurrences. A stripe
// is the leading bits of a key's hash.
class KeysByStripe {
 public:
  // Of the keys at these places, which are ascending; or of the first num_keys if null.
  KeysByStripe(const int64_t* keys, const uint32_t* places, int64_t num_keys, int num_stripes,
               int stripe_shift, Parallel* parallel);

  int num_stripes() const { return static_cast<int>(begins_.size()) - 1; }
  int64_t begin(int stripe) const { return begins_[stripe]; }
  int64_t end(int stripe) const { return begins_[stripe + 1]; }

  // Those with keys, the one with most first: popular keys make some stripes long, and whoever does
  // such a one last lets the others wait.
  std::vector<int> StripesBySize() const;

  int64_t key(int64_t i) const { return keys_[i]; }
  // Where among the keys of the lookup it is.
  int64_t place(int64_t i) const { return places_[i]; }

 private:
  std::vector<int64_t> begins_;
  ScratchArray<int64_t> keys_;
  ScratchArray<uint32_t> places_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_DYNAMIC_KEYS_BY_STRIPE_H_
