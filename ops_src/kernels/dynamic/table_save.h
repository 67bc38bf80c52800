#ifndef GRAPH_OPT_KERNELS_DYNAMIC_TABLE_SAVE_H_
#define GRAPH_OPT_KERNELS_DYNAMIC_TABLE_SAVE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dynamic/dynamic_table.h"
#include "dynamic/table_snapshot.h"
#include "kernels/dynamic/bundle_file.h"
#include "kernels/dynamic/stored_slot.h"

namespace graph_opt {

// Writes a table as it was at one moment, in DeepRec's layout, block by block into a bundle of its
// own (bundle_file.h).
class TableSave {
 public:
  TableSave(DynamicTable* table, tensorflow::DataType key_dtype, bool changes, BundleFile* file);

  // Rows with frequencies and versions, counted keys, and where rows of new keys start.
  tensorflow::Status WriteRows(const std::string& name);
  // A slot has keys of its own, as DeepRec's are tables of their own.
  tensorflow::Status WriteSlot(const std::string& name, int slot, const StoredSlot& stored);

 private:
  tensorflow::Status WriteKeys(const std::string& name, const std::vector<int64_t>& keys);
  tensorflow::Status WriteAllKeys(const std::string& name);
  tensorflow::Status WriteValues(const std::string& name, int slot);
  template <typename Number>
  tensorflow::Status WriteRowNumbers(const std::string& name, int slot, const StoredSlot& stored);
  tensorflow::Status WriteNumbers(const std::string& name, bool versions);
  tensorflow::Status WriteNumbers(const std::string& name, const std::vector<int64_t>& numbers);
  tensorflow::Status WriteOffsets(const std::string& name, const std::vector<int64_t>& offsets);
  tensorflow::Status WriteFiltered(const std::string& name, const std::vector<FilteredKey>& keys);
  tensorflow::Status WriteBank(const std::string& name);

  DynamicTable* const table_;
  const tensorflow::DataType key_dtype_;
  const bool changes_;
  BundleFile* const file_;
  const std::vector<FilteredKey> filtered_;  // before rows: a key that is in both has a row
  const std::shared_ptr<TableSnapshot> snapshot_;
  const std::vector<int64_t> offsets_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_DYNAMIC_TABLE_SAVE_H_
