#ifndef GRAPH_OPT_KERNELS_DYNAMIC_KEYS_OF_TABLE_H_
#define GRAPH_OPT_KERNELS_DYNAMIC_KEYS_OF_TABLE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dynamic/dynamic_table.h"
#include "lookup/parallel.h"
#include "scratch/scratch_array.h"
#include "tensorflow/core/framework/tensor.h"

namespace graph_opt {

// How the keys of a table are divided among its parts: by the non-negative remainder of the key, or
// of what remains of it by 1000, by the number of parts.
enum class KeyOwner { kKey, kKey1000 };

inline int64_t NonNegativeRemainder(int64_t key, int64_t divisor) {
  const int64_t remainder = key % divisor;
  return remainder < 0 ? remainder + divisor : remainder;
}

inline int64_t PartOf(int64_t key, int64_t parts, KeyOwner owner) {
  const int64_t number = owner == KeyOwner::kKey ? key : NonNegativeRemainder(key, 1000);
  return NonNegativeRemainder(number, parts);
}

// The keys of all lookups of one table, and the numbers of their rows: row * parts + part.
struct TableKeys {
  std::vector<std::shared_ptr<DynamicTable>> parts;
  KeyOwner owner = KeyOwner::kKey;
  bool skip_negative = false;  // keys below 0 have row -1
  DynamicTable::Purpose purpose = DynamicTable::Purpose::kInsert;

  struct Lookup {
    const tensorflow::Tensor* keys;
    int64_t* rows;  // to be written
  };
  std::vector<Lookup> lookups;

  // Finds the rows of each part at once, so that keys of several lookups agree. Adds the holds.
  absl::Status FindRows(Parallel* parallel, std::vector<std::shared_ptr<Hold>>* holds) const;

 private:
  absl::Status FindAsTheyAre(Parallel* parallel, std::vector<std::shared_ptr<Hold>>* holds) const;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_DYNAMIC_KEYS_OF_TABLE_H_
