#include "network/call_counter.h"

#include <algorithm>
#include <cstring>

namespace graph_opt {
namespace {

constexpr unsigned char kHeaders = 1;  // the type of a frame

}  // namespace

int CallCounter::Take(const char* data, size_t size) {
  int calls = 0;
  while (size > 0) {
    const size_t step = std::min(size, skipped_ > 0 ? skipped_ : kHeaderBytes - known_);
    if (skipped_ > 0) {
      skipped_ -= step;
    } else {
      std::memcpy(header_ + known_, data, step);
      known_ += step;
    }
    data += step;
    size -= step;
    if (known_ == kHeaderBytes) {
      calls += header_[3] == kHeaders;
      skipped_ = size_t{header_[0]} << 16 | size_t{header_[1]} << 8 | size_t{header_[2]};
      known_ = 0;
    }
  }
  return calls;
}

}  // namespace graph_opt
