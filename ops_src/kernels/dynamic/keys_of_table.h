#ifndef GRAPH_OPT_KERNELS_DYNAMIC_KEYS_OF_TABLE_H_
#define GRAPH_OPT_KERNELS_DYNAMIC_KEYS_OF_TABLE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dynamic/dynamic_table.h"
#include "keys/key_owners.h"
#include "lookup/parallel.h"
#include "scratch/scratch_array.h"
#include "tensorflow/core/framework/tensor.h"

namespace graph_opt {

// The keys of all lookups of one table, and the numbers of their rows: row * parts + part.
struct TableKeys {
  std::vector<std::shared_ptr<DynamicTable>> parts;
  KeyOwners owners = KeyOwners::kMod;  // of the parts
  bool skip_negative = false;          // keys below 0 have row -1
  DynamicTable::Purpose purpose = DynamicTable::Purpose::kInsert;

  struct Lookup {
    const tensorflow::Tensor* keys;
    int64_t* rows;  // to be written
  };
  std::vector<Lookup> lookups;

  // As DynamicTable::BytesToFind.
  int64_t BytesToFind() const;

  // Under a ReadLock of each part. Finds the rows of each part at once, so that keys of several
  // lookups agree. Adds the holds.
  absl::Status FindRows(Parallel* parallel, std::vector<std::shared_ptr<Hold>>* holds) const;

 private:
  absl::Status FindAsTheyAre(Parallel* parallel, std::vector<std::shared_ptr<Hold>>* holds) const;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_DYNAMIC_KEYS_OF_TABLE_H_
