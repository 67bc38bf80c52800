#include "kernels/dynamic/table_save.h"

#include <algorithm>

#include "dynamic/key_buckets.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;
using tensorflow::Status;
using tensorflow::TensorShape;

constexpr int64_t kBlockKeys = 1 << 14;

std::vector<FilteredKey> FilteredKeysOf(const DynamicTable& table) {
  const DynamicTable::ExclusiveLock lock(&table);
  return table.FilteredKeys();
}

std::shared_ptr<TableSnapshot> SnapshotOf(DynamicTable* table, bool changes) {
  SnapshotPart part;
  if (changes) part.keys = SnapshotPart::kChanged;
  return table->Snapshot(part);
}

}  // namespace

TableSave::TableSave(DynamicTable* table, tensorflow::DataType key_dtype, bool changes,
                     BundleFile* file)
    : table_(table),
      key_dtype_(key_dtype),
      changes_(changes),
      file_(file),
      filtered_(FilteredKeysOf(*table)),
      snapshot_(SnapshotOf(table, changes)),
      offsets_(snapshot_->SortByBucket(kKeyBuckets)) {}

Status TableSave::WriteRows(const std::string& name) {
  TF_RETURN_IF_ERROR(WriteAllKeys(name + "-keys"));
  TF_RETURN_IF_ERROR(WriteValues(name + "-values", -1));
  TF_RETURN_IF_ERROR(WriteNumbers(name + "-versions", true));
  TF_RETURN_IF_ERROR(WriteNumbers(name + "-freqs", false));
  TF_RETURN_IF_ERROR(WriteOffsets(name + "-partition_offset", offsets_));
  TF_RETURN_IF_ERROR(WriteFiltered(name, filtered_));
  if (changes_) return WriteKeys(name + "-keys_removed", snapshot_->removed_keys());
  return WriteBank(name + "-default_values");
}

Status TableSave::WriteSlot(const std::string& name, int slot, const StoredSlot& stored) {
  TF_RETURN_IF_ERROR(WriteAllKeys(name + "-keys"));
  const std::string values = name + "-values";
  TF_RETURN_IF_ERROR(
      stored.dtype == tensorflow::DT_INT64   ? WriteRowNumbers<int64_t>(values, slot, stored)
      : stored.dtype == tensorflow::DT_INT32 ? WriteRowNumbers<int32_t>(values, slot, stored)
                                             : WriteValues(values, slot));
  TF_RETURN_IF_ERROR(WriteNumbers(name + "-versions", std::vector<int64_t>()));
  TF_RETURN_IF_ERROR(WriteNumbers(name + "-freqs", std::vector<int64_t>()));
  TF_RETURN_IF_ERROR(WriteOffsets(name + "-partition_offset", offsets_));
  return WriteFiltered(name, {});
}

Status TableSave::WriteAllKeys(const std::string& name) {
  file_->Begin(name, key_dtype_, TensorShape({snapshot_->size()}));
  std::vector<int64_t> keys(kBlockKeys);
  std::vector<int32_t> narrow(kBlockKeys);
  for (const PlaceRange& range : WholeRange(snapshot_->size(), kBlockKeys)) {
    TableSnapshot::Block block;
    block.keys = keys.data();
    snapshot_->Read(range.first, range.count, block);
    if (key_dtype_ == tensorflow::DT_INT64) {
      TF_RETURN_IF_ERROR(file_->Append(keys.data(), range.count * sizeof(int64_t)));
      continue;
    }
    std::transform(keys.begin(), keys.begin() + range.count, narrow.begin(),
                   [](int64_t key) { return static_cast<int32_t>(key); });
    TF_RETURN_IF_ERROR(file_->Append(narrow.data(), range.count * sizeof(int32_t)));
  }
  return Status();
}

Status TableSave::WriteValues(const std::string& name, int slot) {
  const int64_t dim = table_->dim();
  file_->Begin(name, tensorflow::DT_FLOAT, TensorShape({snapshot_->size(), dim}));
  std::vector<float> values(kBlockKeys * dim);
  for (const PlaceRange& range : WholeRange(snapshot_->size(), kBlockKeys)) {
    TableSnapshot::Block block;
    if (slot < 0) {
      block.weights = values.data();
    } else {
      block.slots.assign(slot + 1, nullptr);
      block.slots[slot] = values.data();
    }
    snapshot_->Read(range.first, range.count, block);
    TF_RETURN_IF_ERROR(file_->Append(values.data(), range.count * dim * sizeof(float)));
  }
  return Status();
}

template <typename Number>
Status TableSave::WriteRowNumbers(const std::string& name, int slot, const StoredSlot& stored) {
  const int64_t dim = table_->dim();
  const int64_t width = stored.width == 0 ? dim : stored.width;
  file_->Begin(name, stored.dtype, TensorShape({snapshot_->size(), width}));
  std::vector<float> values(kBlockKeys * dim);
  std::vector<Number> numbers(kBlockKeys * width, 0);
  for (const PlaceRange& range : WholeRange(snapshot_->size(), kBlockKeys)) {
    TableSnapshot::Block block;
    block.slots.assign(slot + 1, nullptr);
    block.slots[slot] = values.data();
    snapshot_->Read(range.first, range.count, block);
    for (int64_t i = 0; i < range.count; ++i) {
      numbers[i * width] = static_cast<Number>(values[i * dim]);
    }
    TF_RETURN_IF_ERROR(file_->Append(numbers.data(), range.count * width * sizeof(Number)));
  }
  return Status();
}

Status TableSave::WriteNumbers(const std::string& name, bool versions) {
  file_->Begin(name, tensorflow::DT_INT64, TensorShape({snapshot_->size()}));
  std::vector<int64_t> numbers(kBlockKeys);
  for (const PlaceRange& range : WholeRange(snapshot_->size(), kBlockKeys)) {
    TableSnapshot::Block block;
    (versions ? block.versions : block.frequencies) = numbers.data();
    snapshot_->Read(range.first, range.count, block);
    TF_RETURN_IF_ERROR(file_->Append(numbers.data(), range.count * sizeof(int64_t)));
  }
  return Status();
}

Status TableSave::WriteNumbers(const std::string& name, const std::vector<int64_t>& numbers) {
  const int64_t count = numbers.size();
  file_->Begin(name, tensorflow::DT_INT64, TensorShape({count}));
  return file_->Append(numbers.data(), count * sizeof(int64_t));
}

Status TableSave::WriteKeys(const std::string& name, const std::vector<int64_t>& keys) {
  if (key_dtype_ == tensorflow::DT_INT64) return WriteNumbers(name, keys);
  const std::vector<int32_t> narrow(keys.begin(), keys.end());
  const int64_t count = narrow.size();
  file_->Begin(name, key_dtype_, TensorShape({count}));
  return file_->Append(narrow.data(), count * sizeof(int32_t));
}

Status TableSave::WriteOffsets(const std::string& name, const std::vector<int64_t>& offsets) {
  const std::vector<int32_t> narrow(offsets.begin(), offsets.end());
  const int64_t count = narrow.size();
  file_->Begin(name, tensorflow::DT_INT32, TensorShape({count}));
  return file_->Append(narrow.data(), count * sizeof(int32_t));
}

Status TableSave::WriteFiltered(const std::string& name, const std::vector<FilteredKey>& filtered) {
  const int64_t count = filtered.size();
  std::vector<int64_t> unordered(count);
  std::transform(filtered.begin(), filtered.end(), unordered.begin(),
                 [](const FilteredKey& one) { return one.key; });
  const BucketOrder order(unordered.data(), count);
  std::vector<int64_t> keys(count);
  std::vector<int64_t> versions(count);
  std::vector<int64_t> frequencies(count);
  for (int64_t k = 0; k < count; ++k) {
    const int64_t place = order.places()[k];
    keys[place] = filtered[k].key;
    versions[place] = filtered[k].version;
    frequencies[place] = filtered[k].frequency;
  }
  TF_RETURN_IF_ERROR(WriteKeys(name + "-keys_filtered", keys));
  TF_RETURN_IF_ERROR(WriteNumbers(name + "-versions_filtered", versions));
  TF_RETURN_IF_ERROR(WriteNumbers(name + "-freqs_filtered", frequencies));
  return WriteOffsets(name + "-partition_filter_offset", order.offsets());
}

Status TableSave::WriteBank(const std::string& name) {
  if (table_->options().initial != InitialKind::kBank) return Status();
  const std::vector<float> bank = snapshot_->ReadBank();
  const int64_t dim = table_->dim();
  const int64_t count = static_cast<int64_t>(bank.size()) / dim;
  file_->Begin(name, tensorflow::DT_FLOAT, TensorShape({count, dim}));
  return file_->Append(bank.data(), bank.size() * sizeof(float));
}

}  // namespace graph_opt
