// Where the features of serialized tf.train.Examples are.
//
//   Example  { features 1: Features }
//   Features { feature  1: repeated { key 1: string, value 2: Feature } }
//   Feature  { bytes_list 1 | float_list 2 | int64_list 3: { value 1: repeated } }
//
// https://protobuf.dev/programming-guides/encoding has the encoding; numbers are packed. Whatever
// is written otherwise (features that occur twice, several lists in one, numbers that are not
// packed, fields that the messages do not have) is left to TensorFlow's parser, and so is all that
// is wrong: then errors are TensorFlow's.
#ifndef GRAPH_OPT_EXAMPLES_LOCATED_FEATURES_H_
#define GRAPH_OPT_EXAMPLES_LOCATED_FEATURES_H_

#include <cstdint>
#include <vector>

#include "examples/feature_names.h"
#include "lookup/parallel.h"

namespace graph_opt {

enum class ValueKind : uint8_t { kNone = 0, kBytes = 1, kFloat = 2, kInt64 = 3 };

struct SerializedExample {
  const char* data;
  int64_t bytes;
};

// The values of one feature of one example, as they are written.
struct LocatedFeature {
  const char* data = nullptr;  // null: the example does not have the feature
  uint32_t bytes = 0;
  uint32_t count = 0;  // values
};

// The features of a batch of examples.
class LocatedFeatures {
 public:
  // Locates the features that `names` has, each of which must have values of its kind. False if an
  // example is to be left to TensorFlow.
  bool Locate(const std::vector<SerializedExample>& examples, const FeatureNames& names,
              const std::vector<ValueKind>& kinds, Parallel* parallel);

  int64_t num_examples() const { return num_examples_; }

  const LocatedFeature& Of(int64_t example, int feature) const {
    return features_[static_cast<size_t>(example * num_features_ + feature)];
  }

 private:
  int64_t num_examples_ = 0;
  int num_features_ = 0;
  std::vector<LocatedFeature> features_;
};

// Writes the values of a feature, of which there are `count`.
void ReadInt64s(const LocatedFeature& feature, int64_t* values);
void ReadFloats(const LocatedFeature& feature, float* values);

// Calls take(i, data, bytes) for each value.
template <typename Take>
void ReadBytes(const LocatedFeature& feature, Take take);

// Reads a number of at most 64 bits and moves behind it. False if there is none.
inline bool ReadVarint(const char** at, const char* end, uint64_t* value) {
  uint64_t read = 0;
  for (int shift = 0; shift < 64 && *at < end; shift += 7) {
    const uint64_t byte = static_cast<unsigned char>(*(*at)++);
    read |= (byte & 127) << shift;
    if (byte < 128) {
      *value = read;
      return true;
    }
  }
  return false;
}

template <typename Take>
void ReadBytes(const LocatedFeature& feature, Take take) {
  const char* at = feature.data;
  const char* const end = at + feature.bytes;
  for (uint32_t i = 0; i < feature.count; ++i) {
    ++at;  // the tag
    uint64_t bytes = 0;
    ReadVarint(&at, end, &bytes);
    take(i, at, bytes);
    at += bytes;
  }
}

}  // namespace graph_opt

#endif  // GRAPH_OPT_EXAMPLES_LOCATED_FEATURES_H_
