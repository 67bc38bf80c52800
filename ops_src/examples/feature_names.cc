#include "examples/feature_names.h"

#include <cstring>
#include <utility>

namespace graph_opt {

constexpr int FeatureNames::kUnknown;

FeatureNames::FeatureNames(std::vector<std::string> names) : names_(std::move(names)) {
  size_t size = 16;
  while (size < 4 * names_.size()) size *= 2;
  places_.assign(size, kUnknown);
  for (int number = 0; number < static_cast<int>(names_.size()); ++number) {
    const std::string& name = names_[number];
    const int64_t length = static_cast<int64_t>(name.size());
    if (Find(name.data(), length) != kUnknown) are_distinct_ = false;
    size_t at = HashOf(name.data(), length) & (size - 1);
    while (places_[at] != kUnknown) at = (at + 1) & (size - 1);
    places_[at] = number;
  }
}

int FeatureNames::Find(const char* name, int64_t length) const {
  const size_t mask = places_.size() - 1;
  for (size_t at = HashOf(name, length) & mask;; at = (at + 1) & mask) {
    const int number = places_[at];
    if (number == kUnknown || Is(number, name, length)) return number;
  }
}

// Names of one model are few, and differ in a number at their end more often than not.
uint64_t FeatureNames::HashOf(const char* name, int64_t length) {
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15;
  uint64_t hash = static_cast<uint64_t>(length) * kMultiplier;
  for (; length > 0; name += 8, length -= 8) {
    uint64_t word = 0;
    std::memcpy(&word, name, length < 8 ? static_cast<size_t>(length) : 8);
    hash = (hash ^ word) * kMultiplier;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace graph_opt
