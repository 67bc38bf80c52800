#ifndef GRAPH_OPT_DYNAMIC_ADMISSION_H_
#define GRAPH_OPT_DYNAMIC_ADMISSION_H_

#include <cstdint>
#include <memory>
#include <vector>

namespace graph_opt {

// Which keys get a row when they are looked up.
enum class Admission {
  kAll,
  kCounter,      // keys that came filter_freq times, this lookup included
  kBloom,        // keys that came filter_freq times before this lookup; counts are approximate
  kProbability,  // each lookup of a key admits it with `probability`
};

struct AdmissionOptions {
  Admission kind = Admission::kAll;
  int64_t filter_freq = 0;                   // kCounter, kBloom
  int64_t most_counted = 0;                  // kCounter: keys that wait, 0 for any number
  int64_t expected_keys = 0;                 // kBloom
  double false_positive_probability = 0.01;  // kBloom, within (0, 1)
  double probability = 1.0;                  // kProbability
};

// A key that was counted, but has no row.
struct FilteredKey {
  int64_t key;
  int64_t frequency;
  int64_t version;
};

// Decides for the keys of one stripe that have no row. Not thread-safe.
class AdmissionFilter {
 public:
  virtual ~AdmissionFilter() = default;

  // Whether a key gets a row, of which the lookup with this number (1, 2, ...) has `count`
  // occurrences. Adds to its frequency, and takes it out of the filter if it is admitted.
  // `frequency` is what its row begins with.
  virtual bool Admit(int64_t key, int64_t count, uint32_t lookup, int64_t* frequency) = 0;

  // Tells that all keys of a lookup were seen.
  virtual void EndLookup() {}

  virtual int64_t Frequency(int64_t key) const = 0;

  // Tells that a key got a row without being asked for here.
  virtual void Forget(int64_t key) = 0;

  // Takes a key back from a checkpoint.
  virtual void Restore(const FilteredKey& key) = 0;

  // Appends all keys that wait. Filters that keep no keys have none.
  virtual void Export(std::vector<FilteredKey>* keys) const = 0;

  // At a checkpoint: keys without a version get this step, and those whose version is more than
  // `steps_to_live` before it are forgotten.
  virtual void Expire(int64_t step, int64_t steps_to_live) = 0;

  virtual void Clear() = 0;
  virtual int64_t size() const = 0;
  virtual int64_t bytes() const = 0;
};

// The filter of each of `stripes` stripes that have equal shares of the keys, or null if all keys
// are admitted. Filters of the same seed admit the same.
std::unique_ptr<AdmissionFilter> MakeAdmissionFilter(const AdmissionOptions& options, uint64_t seed,
                                                     int stripes);

}  // namespace graph_opt

#endif  // GRAPH_OPT_DYNAMIC_ADMISSION_H_
