#ifndef GRAPH_OPT_DYNAMIC_ADDRESS_REGION_H_
#define GRAPH_OPT_DYNAMIC_ADDRESS_REGION_H_

#include <cstdint>

#include "absl/status/status.h"

namespace graph_opt {

// Addresses for as much data as an array may ever have. Memory is behind them only where the array
// was grown to and written, so it grows without moving what it has. All offsets and sizes are in
// bytes, and multiples of kPageBytes.
class AddressRegion {
 public:
  static constexpr int64_t kPageBytes = 4096;

  AddressRegion() = default;
  ~AddressRegion();
  AddressRegion(const AddressRegion&) = delete;
  AddressRegion& operator=(const AddressRegion&) = delete;

  // Takes addresses for so many bytes; false if the process cannot have them. Called once.
  bool Reserve(int64_t bytes);

  // Makes [begin, end) readable and writable. It is all zeros where it was never written.
  absl::Status Commit(int64_t begin, int64_t end);

  // The same, in place of whatever was mapped there.
  absl::Status Renew(int64_t begin, int64_t end);

  // Gives the memory of [begin, end) back to the system. It is all zeros afterwards.
  void GiveBack(int64_t begin, int64_t end);

  void Swap(AddressRegion* other);

  // Of all regions of the process, which has at most 128 TiB of addresses.
  static int64_t ReservedInAll();

  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  char* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_DYNAMIC_ADDRESS_REGION_H_
