// Where the features of Examples are, also of bytes that are none, without TensorFlow.
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "examples/feature_names.h"
#include "examples/located_features.h"
#include "functors_testing.h"

namespace graph_opt {
namespace {

typedef std::vector<int64_t> Int64s;

std::string Varint(uint64_t value) {
  std::string written;
  for (; value >= 128; value >>= 7) written += static_cast<char>(value | 128);
  return written + static_cast<char>(value);
}

std::string Field(int number, const std::string& value) {
  return static_cast<char>(number << 3 | 2) + Varint(value.size()) + value;
}

std::string Feature(const std::string& name, int kind, const std::string& list) {
  return Field(1, Field(1, name) + Field(2, Field(kind, list)));
}

std::string Packed(const Int64s& values) {
  std::string written;
  for (const int64_t value : values) written += Varint(static_cast<uint64_t>(value));
  return Field(1, written);
}

const std::vector<ValueKind>& Kinds() {
  static const auto* const kinds =
      new std::vector<ValueKind>{ValueKind::kInt64, ValueKind::kFloat, ValueKind::kBytes};
  return *kinds;
}

const FeatureNames& Names() {
  static const auto* const names = new FeatureNames({"ids", "weights", "a name of many words"});
  return *names;
}

// Each in memory of its own, whose end a sanitizer knows.
class Batch {
 public:
  explicit Batch(const std::vector<std::string>& examples) {
    for (const std::string& example : examples) {
      memory_.emplace_back(example.begin(), example.end());
    }
  }

  bool Locate(int num_threads, LocatedFeatures* located) const {
    std::vector<SerializedExample> examples;
    for (const std::vector<char>& each : memory_) {
      examples.push_back({each.data(), static_cast<int64_t>(each.size())});
    }
    Threads threads(num_threads);
    return located->Locate(examples, Names(), Kinds(), &threads);
  }

 private:
  std::vector<std::vector<char>> memory_;
};

// Reads all values; returns the integers.
Int64s ReadAll(const LocatedFeatures& located) {
  Int64s integers;
  for (int64_t i = 0; i < located.num_examples(); ++i) {
    const LocatedFeature& ids = located.Of(i, 0);
    Int64s of_example(ids.count);
    ReadInt64s(ids, of_example.data());
    integers.insert(integers.end(), of_example.begin(), of_example.end());
    std::vector<float> weights(located.Of(i, 1).count);
    ReadFloats(located.Of(i, 1), weights.data());
    int64_t bytes = 0;
    ReadBytes(located.Of(i, 2), [&](uint32_t, const char* data, uint64_t count) {
      for (uint64_t k = 0; k < count; ++k) bytes += data[k];
    });
    if (bytes == 1) integers.push_back(bytes);
  }
  return integers;
}

std::string Usual(const Int64s& ids) {
  const std::string weights(4 * ids.size(), '\1');
  return Field(1, Feature("ids", 3, Packed(ids)) + Feature("unknown", 9, "whatever") +
                      Feature("weights", 2, Field(1, weights)) +
                      Feature("a name of many words", 1, Field(1, "one") + Field(1, "")));
}

void TestUsualExamples() {
  const Int64s all = {0, -1, 127, 128, INT64_MAX, INT64_MIN};
  for (const int num_threads : {1, 3}) {
    LocatedFeatures located;
    std::vector<std::string> examples(2000, Usual({5}));
    examples[7] = Usual(all);
    examples[8] = "";
    const Batch batch(examples);
    CHECK(batch.Locate(num_threads, &located));
    CHECK(located.Of(7, 0).count == all.size() && located.Of(7, 1).count == all.size());
    CHECK(located.Of(7, 2).count == 2);
    CHECK(located.Of(8, 0).data == nullptr && located.Of(8, 0).count == 0);
    const Int64s read = ReadAll(located);
    CHECK(read.size() == 1998 + all.size());
    CHECK(Int64s(read.begin() + 7, read.begin() + 7 + all.size()) == all);
  }
}

void TestUnusualExamplesAreLeft() {
  const std::string id = Feature("ids", 3, Packed({5}));
  const std::vector<std::string> unusual = {
      Field(1, id + id),                                                      // twice
      Field(1, id) + Field(1, id),                                            // in two messages
      Field(1, Feature("ids", 2, Packed({5}))),                               // another kind
      Field(1, Feature("ids", 3, "\x08\x05")),                                // not packed
      Field(1, Feature("ids", 3, Field(1, "\x85"))),                          // no whole number
      Field(1, Feature("ids", 3, Field(1, std::string(10, '\x85') + '\1'))),  // more than 64 bits
      Field(1, Feature("weights", 2, Field(1, "abc"))),                       // no whole float
      Field(2, id),
      Field(1, id).substr(0, 9),
  };
  for (const std::string& example : unusual) {
    LocatedFeatures located;
    CHECK(!Batch({Usual({5}), example}).Locate(1, &located));
  }
}

void TestBytesThatAreNoExamples() {
  std::mt19937 random(7);
  const std::string whole = Usual({1, 1000, -1, 77});
  int located_some = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = whole.substr(0, random() % (whole.size() + 1));
    for (int k = static_cast<int>(random() % 3); k > 0 && !bytes.empty(); --k) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    LocatedFeatures located;
    const Batch batch({bytes});
    if (!batch.Locate(1, &located)) continue;
    ReadAll(located);
    ++located_some;
  }
  CHECK(located_some > 100);
}

void TestNames() {
  CHECK(Names().Find("ids", 3) == 0 && Names().Find("id", 2) == FeatureNames::kUnknown);
  CHECK(Names().are_distinct() && !FeatureNames({"a", "b", "a"}).are_distinct());
}

}  // namespace
}  // namespace graph_opt

int main() {
  graph_opt::TestNames();
  graph_opt::TestUsualExamples();
  graph_opt::TestUnusualExamplesAreLeft();
  graph_opt::TestBytesThatAreNoExamples();
  return 0;
}
