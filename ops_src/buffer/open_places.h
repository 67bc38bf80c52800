#ifndef GRAPH_OPT_BUFFER_OPEN_PLACES_H_
#define GRAPH_OPT_BUFFER_OPEN_PLACES_H_

#include <cstdint>
#include <iterator>
#include <set>

namespace graph_opt {

// The place of an element that leaves in order of arrival.
constexpr int64_t kNoPlace = -1;

// The places of a stage's steps that are still awaited.
//
// Each step has a place: its number among those of the stage. Places are open until they are
// settled, in any order.
//
//   place     0   1   2   3   4   5 ...      lowest open: 1
//   state     x   o   o   x   o   o          OpenBefore(4) = 2: 1 and 2 are waited for
class OpenPlaces {
 public:
  explicit OpenPlaces(int64_t first = 0) : lowest_(first) {}

  int64_t lowest() const { return lowest_; }

  bool IsOpen(int64_t place) const { return place >= lowest_ && settled_.count(place) == 0; }

  // Number of open places before this one.
  int64_t OpenBefore(int64_t place) const {
    if (place <= lowest_) return 0;
    const auto settled = std::distance(settled_.begin(), settled_.lower_bound(place));
    return place - lowest_ - settled;
  }

  // Stops waiting for this place. Returns false if it was settled before.
  bool Settle(int64_t place) {
    if (!IsOpen(place)) return false;
    settled_.insert(place);
    while (!settled_.empty() && *settled_.begin() == lowest_) {
      settled_.erase(settled_.begin());
      ++lowest_;
    }
    return true;
  }

 private:
  int64_t lowest_;             // open; all before it are settled
  std::set<int64_t> settled_;  // after it; as many as steps overtook it, so few
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_BUFFER_OPEN_PLACES_H_
