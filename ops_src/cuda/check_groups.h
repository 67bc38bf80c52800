// The small groups by which kernels are checked (self_check.h).
#ifndef GRAPH_OPT_CUDA_CHECK_GROUPS_H_
#define GRAPH_OPT_CUDA_CHECK_GROUPS_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "cuda/group_embedding_cuda.h"
#include "optimizers/description.h"

namespace graph_opt {

// Memory that is laid out on the host and copied to the device as one piece. A place in it is valid
// for the host's memory and the device's.
class CheckMemory {
 public:
  // Returns the place of `values`.
  template <typename T>
  int64_t Put(const std::vector<T>& values) {
    const int64_t place = Reserve(static_cast<int64_t>(values.size() * sizeof(T)));
    if (!values.empty())
      std::memcpy(bytes_.data() + place, values.data(), values.size() * sizeof(T));
    return place;
  }

  // Returns the place of so many bytes, which are 0xff.
  int64_t Reserve(int64_t bytes) {
    constexpr int64_t kAlignment = 256;
    const int64_t place = static_cast<int64_t>(bytes_.size());
    bytes_.resize(place + (bytes + kAlignment - 1) / kAlignment * kAlignment, '\xff');
    return place;
  }

  char* data() { return bytes_.data(); }
  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }

 private:
  std::vector<char> bytes_;
};

// A group with the arrays that it points to.
struct GivenGroup {
  GraphOptCudaGroup group;
  std::vector<GraphOptCudaTable> tables;
  std::vector<GraphOptCudaShard> shards;
  std::vector<GraphOptCudaLookup> lookups;
};

// A group of which all pointers are places in a CheckMemory.
//
// All lookups' numbers are small multiples of powers of two, so that most sums are exact in any
// order. Each kind of table, layout, combiner and bag that a kernel treats for itself is there.
class CheckGroup {
 public:
  // With optimizers all tables are of float, and have rows and slots for each of them.
  CheckGroup(const std::vector<UsualOptimizer>& optimizers, CheckMemory* memory);

  // The pooled rows, or the gradients of lookups whose `pooled` they then are.
  enum Pooled { kPooled, kGradients };

  // With pointers into memory at `base`. `optimizer` chooses rows and slots, 0 without
  // optimizers.
  GivenGroup At(char* base, Pooled pooled, int optimizer) const;

  // What a lookup is, for people.
  std::string LookupText(int lookup) const;
  std::string TableText(int table) const;

 private:
  struct TablePlaces {
    GraphOptCudaTable table;
    int64_t num_rows;
  };
  struct ShardPlaces {
    int64_t num_rows;
    std::vector<int64_t> rows;  // for each optimizer
    std::vector<int64_t> slots[kMostSlots];
    int64_t indices;
    int64_t sums;
  };
  struct LookupPlaces {
    GraphOptCudaLookup lookup;
    int64_t ids;
    int64_t positions;
    int64_t weights;
    int64_t pooled;
    int64_t gradients;
  };

  uint32_t Below(uint32_t end);
  std::vector<char> Values(int32_t type, int64_t count);
  std::vector<double> Doubles(int64_t count);
  void AddTable(int32_t type, int32_t dim, int32_t shards);
  void PutTrained(const UsualOptimizer& one, int64_t count, ShardPlaces* shard);
  void AddLookup(int table, int kind);

  const std::vector<UsualOptimizer> optimizers_;
  CheckMemory* const memory_;
  uint32_t random_ = 1;
  std::vector<TablePlaces> tables_;
  std::vector<ShardPlaces> shards_;
  std::vector<LookupPlaces> lookups_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_CUDA_CHECK_GROUPS_H_
