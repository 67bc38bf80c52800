#include "examples/located_features.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace graph_opt {
namespace {

constexpr char kLengthDelimited = 2;
constexpr int64_t kMostBytes = int64_t{1} << 31;

constexpr char TagOf(int field) { return static_cast<char>(field << 3 | kLengthDelimited); }

// A part of a message.
struct Bytes {
  const char* at;
  const char* end;

  bool empty() const { return at == end; }

  // Takes a field with this tag, which has a length. False if it is not what comes next.
  bool Take(char tag, Bytes* field) {
    if (at == end || *at != tag) return false;
    const char* next = at + 1;
    uint64_t length = 0;
    if (!ReadVarint(&next, end, &length)) return false;
    if (length > static_cast<uint64_t>(end - next)) return false;
    field->at = next;
    field->end = next + length;
    at = field->end;
    return true;
  }
};

// How many numbers end in these bytes: each has one byte below 128, its last.
uint32_t CountVarints(const char* at, const char* end) {
  uint32_t count = 0;
  for (; end - at >= 8; at += 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    count += static_cast<uint32_t>(__builtin_popcountll(~word & 0x8080808080808080));
  }
  for (; at < end; ++at) count += static_cast<unsigned char>(*at) < 128;
  return count;
}

// Whether the bytes are numbers of at most 64 bits, the last of which is whole.
bool AreVarints(const char* at, const char* end) {
  constexpr int64_t kMostBytesOfOne = 10;
  if (at == end) return true;
  if (static_cast<unsigned char>(end[-1]) >= 128) return false;
  if (end - at <= kMostBytesOfOne) return true;
  int64_t length = 0;
  for (; at < end; ++at) {
    length = static_cast<unsigned char>(*at) < 128 ? 0 : length + 1;
    if (length >= kMostBytesOfOne) return false;
  }
  return true;
}

bool LocateNumbers(Bytes list, ValueKind kind, LocatedFeature* located) {
  Bytes packed = {list.at, list.at};
  if (!list.empty() && !(list.Take(TagOf(1), &packed) && list.empty())) return false;
  located->data = packed.at;
  located->bytes = static_cast<uint32_t>(packed.end - packed.at);
  if (kind == ValueKind::kFloat) {
    located->count = located->bytes / sizeof(float);
    return located->bytes % sizeof(float) == 0;
  }
  located->count = CountVarints(packed.at, packed.end);
  return AreVarints(packed.at, packed.end);
}

bool LocateBytes(Bytes list, LocatedFeature* located) {
  located->data = list.at;
  located->bytes = static_cast<uint32_t>(list.end - list.at);
  located->count = 0;
  for (Bytes value; !list.empty(); ++located->count) {
    if (!list.Take(TagOf(1), &value)) return false;
  }
  return true;
}

bool LocateValues(Bytes feature, ValueKind kind, LocatedFeature* located) {
  Bytes list;
  if (!feature.Take(TagOf(static_cast<int>(kind)), &list) || !feature.empty()) return false;
  return kind == ValueKind::kBytes ? LocateBytes(list, located)
                                   : LocateNumbers(list, kind, located);
}

// Locates the features of one example after the other.
class Locator {
 public:
  Locator(const FeatureNames& names, const std::vector<ValueKind>& kinds)
      : names_(names), kinds_(kinds), next_(names.size() + 1, 0) {}

  bool Locate(const SerializedExample& example, LocatedFeature* located) {
    if (example.bytes >= kMostBytes) return false;
    Bytes left = {example.data, example.data + example.bytes};
    Bytes features;
    if (left.empty()) return true;
    if (!left.Take(TagOf(1), &features) || !left.empty()) return false;
    int before = names_.size();
    for (Bytes entry; !features.empty();) {
      Bytes key, feature;
      if (!features.Take(TagOf(1), &entry) || !entry.Take(TagOf(1), &key) ||
          !entry.Take(TagOf(2), &feature) || !entry.empty()) {
        return false;
      }
      const int number = NumberOf(key, before);
      if (number == FeatureNames::kUnknown) continue;
      before = number;
      if (located[number].data != nullptr) return false;  // it occurs twice
      if (!LocateValues(feature, kinds_[number], &located[number])) return false;
    }
    return true;
  }

 private:
  // Examples tend to have their features in the same order, which this remembers.
  int NumberOf(const Bytes& key, int before) {
    const int64_t length = key.end - key.at;
    int* const guess = &next_[before];
    if (*guess >= names_.size() || !names_.Is(*guess, key.at, length)) {
      const int found = names_.Find(key.at, length);
      if (found == FeatureNames::kUnknown) return found;
      *guess = found;
    }
    return *guess;
  }

  const FeatureNames& names_;
  const std::vector<ValueKind>& kinds_;
  std::vector<int> next_;  // by the number before, and at the end the first
};

}  // namespace

bool LocatedFeatures::Locate(const std::vector<SerializedExample>& examples,
                             const FeatureNames& names, const std::vector<ValueKind>& kinds,
                             Parallel* parallel) {
  constexpr int64_t kLeastBytesOfTask = 16384;
  num_examples_ = static_cast<int64_t>(examples.size());
  num_features_ = names.size();
  features_.assign(examples.size() * static_cast<size_t>(num_features_), LocatedFeature());
  int64_t bytes = 0;
  for (const SerializedExample& example : examples) bytes += example.bytes;
  const int64_t most = std::min<int64_t>(num_examples_, 4 * parallel->num_threads());
  const int64_t tasks = std::max<int64_t>(1, std::min(most, bytes / kLeastBytesOfTask));
  std::atomic<bool> is_regular{true};
  parallel->Run(tasks, [&](int64_t task) {
    Locator locator(names, kinds);
    const int64_t end = (task + 1) * num_examples_ / tasks;
    for (int64_t i = task * num_examples_ / tasks; i < end && is_regular; ++i) {
      if (!locator.Locate(examples[i], features_.data() + i * num_features_)) is_regular = false;
    }
  });
  return is_regular;
}

void ReadInt64s(const LocatedFeature& feature, int64_t* values) {
  const char* at = feature.data;
  const char* const end = at + feature.bytes;
  for (uint32_t i = 0; i < feature.count; ++i) {
    uint64_t value = 0;
    ReadVarint(&at, end, &value);
    values[i] = static_cast<int64_t>(value);
  }
}

void ReadFloats(const LocatedFeature& feature, float* values) {
  if (feature.count > 0) std::memcpy(values, feature.data, feature.bytes);
}

}  // namespace graph_opt
