#include "dynamic/admission.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "dynamic/bloom_counters.h"
#include "keys/key_hash.h"

namespace graph_opt {
namespace {

class CounterFilter : public AdmissionFilter {
 public:
  CounterFilter(int64_t filter_freq, int64_t most_counted)
      : filter_freq_(filter_freq), most_counted_(most_counted) {}

  bool Admit(int64_t key, int64_t count, uint32_t, int64_t* frequency) override {
    const auto found = counted_.find(key);
    *frequency = count + (found == counted_.end() ? 0 : found->second.frequency);
    if (*frequency >= filter_freq_) {
      if (found != counted_.end()) counted_.erase(found);
      return true;
    }
    if (found != counted_.end()) {
      found->second.frequency = static_cast<uint32_t>(*frequency);
    } else {
      Insert({key, *frequency, -1});
    }
    return false;
  }

  int64_t Frequency(int64_t key) const override {
    const auto found = counted_.find(key);
    return found == counted_.end() ? 0 : found->second.frequency;
  }

  void Forget(int64_t key) override { counted_.erase(key); }

  void Restore(const FilteredKey& key) override {
    Forget(key.key);
    Insert(key);
  }

  void Export(std::vector<FilteredKey>* keys) const override {
    for (const auto& counted : counted_) {
      keys->push_back({counted.first, counted.second.frequency, counted.second.version});
    }
  }

  void Expire(int64_t step, int64_t steps_to_live) override {
    for (auto counted = counted_.begin(); counted != counted_.end();) {
      int32_t* version = &counted->second.version;
      if (*version < 0) *version = static_cast<int32_t>(step);
      if (step - *version > steps_to_live) {
        counted_.erase(counted++);
      } else {
        ++counted;
      }
    }
    GiveMemoryBack();
  }

  void Clear() override { Counted().swap(counted_); }
  int64_t size() const override { return static_cast<int64_t>(counted_.size()); }
  int64_t bytes() const override {
    return static_cast<int64_t>(counted_.capacity() * (sizeof(Counted::value_type) + 1));
  }

 private:
  struct Count {
    uint32_t frequency;
    int32_t version;
  };
  using Counted = absl::flat_hash_map<int64_t, Count>;

  void Insert(const FilteredKey& key) {
    if (most_counted_ > 0 && size() >= most_counted_) ForgetRareKeys();
    const int64_t most = std::numeric_limits<uint32_t>::max();
    counted_.emplace(key.key, Count{static_cast<uint32_t>(std::min(key.frequency, most)),
                                    static_cast<int32_t>(key.version)});
  }

  // Halves all counts and forgets keys that have none left, as often as half of the keys remain.
  void ForgetRareKeys() {
    while (size() > most_counted_ / 2) {
      for (auto counted = counted_.begin(); counted != counted_.end();) {
        counted->second.frequency /= 2;
        if (counted->second.frequency == 0) {
          counted_.erase(counted++);
        } else {
          ++counted;
        }
      }
    }
  }

  void GiveMemoryBack() {
    if (counted_.capacity() < 64 || counted_.size() * 4 > counted_.capacity()) return;
    Counted(counted_.begin(), counted_.end()).swap(counted_);
  }

  const int64_t filter_freq_;
  const int64_t most_counted_;
  Counted counted_;
};

// Counts are added at the end of a lookup, so that all occurrences in it are judged by what was
// before.
class BloomFilter : public AdmissionFilter {
 public:
  BloomFilter(int64_t filter_freq, int64_t expected_keys, double false_positive_probability)
      : filter_freq_(filter_freq),
        counters_(expected_keys, false_positive_probability, MostCounted(filter_freq)) {}

  bool Admit(int64_t key, int64_t count, uint32_t, int64_t* frequency) override {
    const int64_t before = counters_.Count(key);
    *frequency = before + count;
    if (before >= filter_freq_) return true;
    refused_.emplace_back(key, count);
    return false;
  }

  void EndLookup() override {
    for (const auto& refused : refused_) counters_.Add(refused.first, refused.second);
    refused_.clear();
  }

  int64_t Frequency(int64_t key) const override { return counters_.Count(key); }
  void Forget(int64_t) override {}
  void Restore(const FilteredKey& key) override { counters_.Add(key.key, key.frequency); }
  void Export(std::vector<FilteredKey>*) const override {}
  void Expire(int64_t, int64_t) override {}
  void Clear() override { counters_.Clear(); }
  int64_t size() const override { return 0; }
  int64_t bytes() const override {
    return counters_.bytes() + static_cast<int64_t>(refused_.capacity() * sizeof(refused_[0]));
  }

 private:
  // Higher counts need not be told apart.
  static uint32_t MostCounted(int64_t filter_freq) {
    const int64_t most = std::numeric_limits<uint32_t>::max();
    return static_cast<uint32_t>(std::max<int64_t>(1, std::min(filter_freq, most)));
  }

  const int64_t filter_freq_;
  BloomCounters counters_;
  std::vector<std::pair<int64_t, int64_t>> refused_;
};

class ProbabilityFilter : public AdmissionFilter {
 public:
  ProbabilityFilter(double probability, uint64_t seed) : probability_(probability), seed_(seed) {}

  // Drawn once for all occurrences of a key in a lookup.
  bool Admit(int64_t key, int64_t count, uint32_t lookup, int64_t* frequency) override {
    *frequency = count;
    const uint64_t word = MixKey(MixKey(static_cast<uint64_t>(key) ^ seed_) + lookup);
    return std::ldexp(static_cast<double>(word >> 11), -53) < probability_;
  }

  int64_t Frequency(int64_t) const override { return 0; }
  void Forget(int64_t) override {}
  void Restore(const FilteredKey&) override {}
  void Export(std::vector<FilteredKey>*) const override {}
  void Expire(int64_t, int64_t) override {}
  void Clear() override {}
  int64_t size() const override { return 0; }
  int64_t bytes() const override { return 0; }

 private:
  const double probability_;
  const uint64_t seed_;
};

}  // namespace

std::unique_ptr<AdmissionFilter> MakeAdmissionFilter(const AdmissionOptions& options, uint64_t seed,
                                                     int stripes) {
  const auto share = [stripes](int64_t keys) { return (keys + stripes - 1) / stripes; };
  AdmissionFilter* filter = nullptr;
  switch (options.kind) {
    case Admission::kAll:
      break;
    case Admission::kCounter:
      filter = new CounterFilter(options.filter_freq, share(options.most_counted));
      break;
    case Admission::kBloom:
      filter = new BloomFilter(options.filter_freq, share(options.expected_keys),
                               options.false_positive_probability);
      break;
    case Admission::kProbability:
      filter = new ProbabilityFilter(options.probability, MixKey(seed));
      break;
  }
  return std::unique_ptr<AdmissionFilter>(filter);
}

}  // namespace graph_opt
