#ifndef GRAPH_OPT_EXAMPLES_FEATURE_NAMES_H_
#define GRAPH_OPT_EXAMPLES_FEATURE_NAMES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace graph_opt {

// The numbers of names, which are those of their places in a list.
class FeatureNames {
 public:
  static constexpr int kUnknown = -1;

  explicit FeatureNames(std::vector<std::string> names);

  int size() const { return static_cast<int>(names_.size()); }
  const std::string& operator[](int number) const { return names_[number]; }

  // False where a name occurs twice.
  bool are_distinct() const { return are_distinct_; }

  // The number of a name, or kUnknown.
  int Find(const char* name, int64_t length) const;

  bool Is(int number, const char* name, int64_t length) const {
    const std::string& known = names_[number];
    return static_cast<int64_t>(known.size()) == length &&
           __builtin_memcmp(known.data(), name, length) == 0;
  }

 private:
  static uint64_t HashOf(const char* name, int64_t length);

  std::vector<std::string> names_;
  std::vector<int32_t> places_;  // numbers by hash, kUnknown where there is none
  bool are_distinct_ = true;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_EXAMPLES_FEATURE_NAMES_H_
