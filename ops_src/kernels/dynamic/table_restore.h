#ifndef GRAPH_OPT_KERNELS_DYNAMIC_TABLE_RESTORE_H_
#define GRAPH_OPT_KERNELS_DYNAMIC_TABLE_RESTORE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dynamic/dynamic_table.h"
#include "dynamic/key_buckets.h"
#include "kernels/dynamic/stored_slot.h"
#include "kernels/dynamic/stored_tensors.h"
#include "lookup/parallel.h"

namespace graph_opt {

// Reads the keys of one part of a table from a checkpoint that has the table in any number of
// parts: in DeepRec's layout, as a variable whose row k is that of key k, or as one with the keys
// of its rows beside it, in NAME/keys. Only the ranges of buckets that the part owns are read
// (dynamic/key_buckets.h).
class TableRestore {
 public:
  TableRestore(StoredTensors* stored, DynamicTable* table, const KeyOwner& owner,
               Parallel* parallel)
      : stored_(stored), table_(table), owner_(owner), parallel_(parallel) {}

  // Rows with frequencies and versions, counted keys, and where rows of new keys start. With
  // `changes`, keys that were removed lose their rows first. Fails if there is no table of that
  // name.
  tensorflow::Status ReadRows(const std::string& name, bool changes);

  // A slot of the keys that have rows; `pattern` has {} for the name of the table or its part.
  // Tells whether the checkpoint has it.
  tensorflow::Status ReadSlot(const std::string& name, const std::string& pattern, int slot,
                              const StoredSlot& stored, bool* found);

  int64_t num_keys() const { return num_keys_; }
  int64_t num_slot_keys() const { return num_slot_keys_; }

 private:
  // Tensors with one row for each key; those that are absent have no name.
  struct Source {
    std::string name;
    int64_t count = 0;
    bool numbered = false;     // key k is row k
    bool row_numbers = false;  // values are one for each row
    StoredTensors::Tensor keys;
    StoredTensors::Tensor values;
    StoredTensors::Tensor versions;
    StoredTensors::Tensor frequencies;
    std::vector<PlaceRange> ranges;
  };
  struct Block {
    std::vector<int64_t> keys;
    std::vector<float> values;
    std::vector<int64_t> versions;
    std::vector<int64_t> frequencies;
  };
  typedef std::function<tensorflow::Status(const Block&)> Take;

  // Names of the table's parts in the checkpoint, or its own; none if it is not there.
  std::vector<std::string> NamesOf(const std::string& name);
  bool Has(const std::string& name);
  // Name of the tensor with the keys of the rows; empty if there is none.
  std::string KeysOf(const std::string& name);
  // Which tensors there are, `filtered`: of the keys that are only counted.
  tensorflow::Status Open(const std::string& name, int number, bool filtered, Source* source);
  tensorflow::Status FindIfAny(const std::string& name, tensorflow::DataType dtype, int64_t count,
                               StoredTensors::Tensor* tensor);
  tensorflow::Status FindKeys(const std::string& name, StoredTensors::Tensor* tensor);
  tensorflow::Status FindValues(Source* source, const std::string& name);
  tensorflow::Status FindRowNumbers(Source* source, const std::string& name);
  tensorflow::Status Ranges(const std::string& offsets, Source* source);
  // One of the parts of the new table compares each old part with its checksums.
  bool Verifies(int number) const { return number % owner_.parts == owner_.part; }
  tensorflow::Status Verify(const Source& source);
  // Gives blocks of this part's keys.
  tensorflow::Status ForEachBlock(const Source& source, const Take& take);
  tensorflow::Status ReadBlock(const Source& source, const PlaceRange& range, Block* block);
  tensorflow::Status ReadValues(const Source& source, const PlaceRange& range, float* values);
  // Numbers of rows, in all columns of a slot.
  template <typename Number>
  tensorflow::Status ReadRowNumbers(const Source& source, const PlaceRange& range, float* values);
  tensorflow::Status ReadKeys(const StoredTensors::Tensor& tensor, const PlaceRange& range,
                              std::vector<int64_t>* keys);
  void KeepOwn(Block* block) const;
  tensorflow::Status ReadBank(const std::vector<std::string>& names);
  tensorflow::Status RemoveKeys(const std::string& name);
  tensorflow::Status ImportRows(const Block& block);
  tensorflow::Status ImportFiltered(const Block& block);
  tensorflow::Status ImportSlot(const Block& block, int slot);

  StoredTensors* const stored_;
  DynamicTable* const table_;
  const KeyOwner owner_;
  Parallel* const parallel_;
  int64_t num_keys_ = 0;
  int64_t num_slot_keys_ = 0;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_DYNAMIC_TABLE_RESTORE_H_
