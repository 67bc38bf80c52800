#include "keys/key_numbers.h"

namespace graph_opt {
namespace {

constexpr int64_t kFirstPlaces = 1024;

}  // namespace

void KeyNumbers::Grow() {
  num_places_ = num_places_ == 0 ? kFirstPlaces : 4 * num_places_;
  ScratchArray<int64_t> keys(num_places_ / 2 + 1);
  std::copy_n(keys_.data(), size_, keys.data());
  keys_.Swap(&keys);
  places_.Reserve(num_places_);
  std::fill_n(places_.data(), num_places_, -1);
  const uint64_t mask = static_cast<uint64_t>(num_places_) - 1;
  for (int32_t number = 0; number < size_; ++number) {
    uint64_t place = Hash(keys_[number]) & mask;
    while (places_[place] >= 0) place = (place + 1) & mask;
    places_[place] = number;
  }
}

}  // namespace graph_opt
