#ifndef GRAPH_OPT_DYNAMIC_RECENT_ROWS_H_
#define GRAPH_OPT_DYNAMIC_RECENT_ROWS_H_

#include <algorithm>
#include <cstdint>

namespace graph_opt {

// The rows that a lookup found last in a stripe, so few that they stay in the first cache: most
// occurrences in a batch are of popular keys, which need neither the index nor their metadata a
// second time. Where keys hardly ever come again it gives up.
class RecentRows {
 public:
  struct Entry {
    int64_t key;
    int64_t again;  // occurrences that the metadata does not know of yet
    uint32_t row;   // 0: none
  };

  // For so many keys. Few are not worth clearing the entries.
  explicit RecentRows(int64_t num_keys) {
    while (bits_ < kMostBits && (kKeysPerEntry << (bits_ + 1)) <= num_keys) ++bits_;
    gave_up_ = bits_ < kLeastBits;
    if (!gave_up_) std::fill_n(entries_, int64_t{1} << bits_, Entry{0, 0, 0});
  }

  // The entry of a key, or null.
  Entry* Find(int64_t key) {
    if (gave_up_) return nullptr;
    if (++asked_ == kAskedAtLeast) gave_up_ = found_ < kAskedAtLeast / kLeastShare;
    Entry* const entry = &entries_[PlaceOf(key)];
    if (entry->row == 0 || entry->key != key) return nullptr;
    ++found_;
    return entry;
  }

  // Keeps the row of a key in the place of another, of which tell(row, again) is told.
  template <typename Tell>
  void Keep(int64_t key, uint32_t row, const Tell& tell) {
    if (gave_up_) return;
    Entry* const entry = &entries_[PlaceOf(key)];
    if (entry->again > 0) tell(entry->row, entry->again);
    *entry = {key, 0, row};
  }

  template <typename Tell>
  void TellAll(const Tell& tell) const {
    if (found_ == 0) return;
    for (int64_t i = 0; i < int64_t{1} << bits_; ++i) {
      if (entries_[i].again > 0) tell(entries_[i].row, entries_[i].again);
    }
  }

 private:
  static constexpr int kLeastBits = 4;
  static constexpr int kMostBits = 8;
  static constexpr int64_t kKeysPerEntry = 4;
  static constexpr int64_t kAskedAtLeast = 128;
  static constexpr int64_t kLeastShare = 8;

  // Of a stripe's keys, whose hashes share bits.
  int64_t PlaceOf(int64_t key) const {
    return static_cast<int64_t>(static_cast<uint64_t>(key) * 0x9e3779b97f4a7c15 >> (64 - bits_));
  }

  int bits_ = 0;
  bool gave_up_;
  int64_t asked_ = 0;
  int64_t found_ = 0;
  Entry entries_[1 << kMostBits];
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_DYNAMIC_RECENT_ROWS_H_
