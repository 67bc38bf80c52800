#ifndef GRAPH_OPT_DYNAMIC_ROW_METADATA_H_
#define GRAPH_OPT_DYNAMIC_ROW_METADATA_H_

#include <atomic>
#include <cstdint>
#include <limits>

namespace graph_opt {

// What a dynamic table knows of a row besides its values: 20 bytes. All zeros are a free row. The
// key and `read` are guarded by the mutex of the row's stripe; the others may be read at any time.
class RowMetadata {
 public:
  static constexpr int32_t kNeverWritten = -1;
  static constexpr int32_t kMostSteps = (1 << 30) - 2;

  int64_t key() const {
    return static_cast<int64_t>(uint64_t{key_high_} << 32 | uint64_t{key_low_});
  }
  bool is_free() const { return read_ == 0; }

  // The ticket of the last lookup that gave the row out.
  uint32_t read() const { return read_; }
  void set_read(uint32_t ticket) {
    if (ticket > read_) read_ = ticket;
  }
  void LowerRead(uint32_t ticket) { read_ = ticket; }

  // Occurrences of the key in lookups that may insert; stays at the greatest number.
  uint32_t frequency() const { return frequency_.load(std::memory_order_relaxed); }
  void AddFrequency(int64_t count) { set_frequency(frequency() + count); }
  void set_frequency(int64_t frequency) {
    const int64_t most = std::numeric_limits<uint32_t>::max();
    frequency_.store(static_cast<uint32_t>(frequency < most ? frequency : most),
                     std::memory_order_relaxed);
  }

  // The step of the last update, at most kMostSteps. Setting it tells that the row has changed.
  int32_t written() const {
    return static_cast<int32_t>(written_.load(std::memory_order_relaxed) & kStepBits) - 1;
  }
  void set_written(int32_t step) {
    const int32_t least = step < kNeverWritten ? kNeverWritten : step;
    const uint32_t number = static_cast<uint32_t>((least < kMostSteps ? least : kMostSteps) + 1);
    written_.store(kChanged | number, std::memory_order_relaxed);
  }

  void HalveWritten() {
    const uint32_t before = written_.load(std::memory_order_relaxed);
    const uint32_t halved = static_cast<uint32_t>((written() < 0 ? written() : written() / 2) + 1);
    written_.store((before & ~kStepBits) | halved, std::memory_order_relaxed);
  }

  // Whether the row has changed since the last checkpoint that was written to its end. One that
  // begins first calls BeginSaving for all rows, and EndSaving once it has ended; rows may change
  // meanwhile.
  bool is_changed() const { return (written_.load(std::memory_order_relaxed) & ~kStepBits) != 0; }
  void BeginSaving() { Replace(kChanged, kBeingSaved); }
  void EndSaving() { Replace(kBeingSaved, 0); }

  void Begin(int64_t key, uint32_t ticket) {
    key_low_ = static_cast<uint32_t>(key);
    key_high_ = static_cast<uint32_t>(static_cast<uint64_t>(key) >> 32);
    read_ = ticket;
    frequency_.store(0, std::memory_order_relaxed);
    set_written(kNeverWritten);
  }
  void End() { read_ = 0; }
  void CopyFrom(const RowMetadata& other) {
    Begin(other.key(), other.read());
    frequency_.store(other.frequency(), std::memory_order_relaxed);
    written_.store(other.written_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  }

 private:
  static constexpr uint32_t kStepBits = (uint32_t{1} << 30) - 1;
  static constexpr uint32_t kChanged = uint32_t{1} << 30;
  static constexpr uint32_t kBeingSaved = uint32_t{2} << 30;

  void Replace(uint32_t state, uint32_t by) {
    uint32_t before = written_.load(std::memory_order_relaxed);
    while ((before & ~kStepBits) == state &&
           !written_.compare_exchange_weak(before, (before & kStepBits) | by,
                                           std::memory_order_relaxed)) {
    }
  }

  uint32_t key_low_;
  uint32_t key_high_;
  uint32_t read_;
  std::atomic<uint32_t> frequency_;
  std::atomic<uint32_t> written_;  // step + 1, and whether the row has changed
};

static_assert(sizeof(RowMetadata) == 20, "what a key costs");

}  // namespace graph_opt

#endif  // GRAPH_OPT_DYNAMIC_ROW_METADATA_H_
