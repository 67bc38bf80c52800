#ifndef GRAPH_OPT_DYNAMIC_INDEX_SEARCH_H_
#define GRAPH_OPT_DYNAMIC_INDEX_SEARCH_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "dynamic/stripe.h"

namespace graph_opt {

// Finds keys in the indices of all stripes, in the order in which they come, and changes nothing.
// Lines are fetched some time before they are looked at; keys that are not in their first line
// come to the next one together, so memory is not waited for either.
class IndexSearch {
 public:
  // `stripe_shift`: the bits of a hash that do not say of which stripe a key is.
  IndexSearch(const std::vector<std::unique_ptr<Stripe>>& stripes, int stripe_shift,
              const int64_t* keys, int64_t* rows)
      : stripes_(stripes), stripe_shift_(stripe_shift), keys_(keys), rows_(rows) {}

  // Writes the rows of keys [begin, end). Returns how many have none, and writes which, ascending.
  int64_t Find(int64_t begin, int64_t end, uint32_t* missed);

 private:
  static constexpr int64_t kAtOnce = 64;
  static constexpr int64_t kMostElsewhere = 1024;

  // A key that is not in this line, nor in those before.
  struct Searched {
    int64_t place;
    const RowIndex::Line* line;
  };

  const Stripe& StripeOf(const Stripe::Probe& probe) const {
    return *stripes_[probe.hash >> stripe_shift_];
  }
  void Fetch(int64_t begin, int64_t end);
  // Finds the first keys of elsewhere_. Returns how many have no row, and writes which.
  int64_t FindElsewhere(int64_t count, uint32_t* missed);
  // Looks the first keys of left_ up in their next lines. Returns how many may be further on, and
  // moves them to the front.
  int64_t SearchOn(int64_t count);

  const std::vector<std::unique_ptr<Stripe>>& stripes_;
  const int stripe_shift_;
  const int64_t* const keys_;
  int64_t* const rows_;
  const RowIndex::Line* fetched_[kAtOnce];
  Searched elsewhere_[kMostElsewhere];  // keys that are not in their first line
  Searched left_[kMostElsewhere];       // those of them that may be further on
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_DYNAMIC_INDEX_SEARCH_H_
