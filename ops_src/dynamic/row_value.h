#ifndef GRAPH_OPT_DYNAMIC_ROW_VALUE_H_
#define GRAPH_OPT_DYNAMIC_ROW_VALUE_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace graph_opt {

// Which rows a table gives up first when it is full.
enum class EvictionOrder {
  kLru,       // those that were not read for longest
  kLfu,       // those of the lowest frequency
  kEpochLfu,  // those last read in the earliest epoch, and of them those of the lowest frequency
  kCustom,    // those of the lowest score: the `counts` of their last lookup
};

// What a row is worth. Rows that compare equal by the order itself compare by the other figure.
struct RowValue {
  uint64_t first;
  uint32_t second;

  bool operator<(const RowValue& other) const {
    return first != other.first ? first < other.first : second < other.second;
  }
  bool operator==(const RowValue& other) const {
    return first == other.first && second == other.second;
  }
  static RowValue Highest() {
    return {std::numeric_limits<uint64_t>::max(), std::numeric_limits<uint32_t>::max()};
  }
};

class RowValues {
 public:
  explicit RowValues(EvictionOrder order) : order_(order) {}

  // `read` is the number of the lookup that read the row last.
  RowValue Of(uint32_t frequency, uint32_t read) const {
    switch (order_) {
      case EvictionOrder::kLru:
        return {read, frequency};
      case EvictionOrder::kEpochLfu:
        return {uint64_t{Epoch(read)} << 32 | frequency, read};
      default:
        return {frequency, read};
    }
  }

  // Lookups of higher numbers than this one belong to another epoch than those up to it.
  void EndEpoch(uint32_t lookup) {
    if (epochs_.empty() || epochs_.back() < lookup) epochs_.push_back(lookup);
  }

  // Lookups are numbered from this much lower on; numbers of long ago are lost.
  void LowerBy(uint32_t difference) {
    for (uint32_t& lookup : epochs_) lookup = lookup > difference ? lookup - difference : 0;
  }

 private:
  uint32_t Epoch(uint32_t read) const {
    return static_cast<uint32_t>(std::lower_bound(epochs_.begin(), epochs_.end(), read) -
                                 epochs_.begin());
  }

  EvictionOrder order_;
  std::vector<uint32_t> epochs_;  // the last lookup of each
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_DYNAMIC_ROW_VALUE_H_
