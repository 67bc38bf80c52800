#include "kernels/dynamic/table_restore.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_replace.h"
#include "kernels/tensorflow_compat.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;
using tensorflow::DataType;
using tensorflow::Status;

constexpr int64_t kBlockKeys = 1 << 16;

// Keeps the rows of `kept` of a column with `width` numbers a row.
template <typename Number>
void Keep(const std::vector<int64_t>& kept, int64_t width, std::vector<Number>* column) {
  if (column->empty()) return;
  for (size_t k = 0; k < kept.size(); ++k) {
    std::copy_n(column->begin() + kept[k] * width, width, column->begin() + k * width);
  }
  column->resize(kept.size() * width);
}

template <typename Number>
const Number* DataOrNull(const std::vector<Number>& column) {
  return column.empty() ? nullptr : column.data();
}

}  // namespace

bool TableRestore::Has(const std::string& name) {
  return stored_->Has(name + "-keys") || stored_->Has(name);
}

std::string TableRestore::KeysOf(const std::string& name) {
  for (const char* suffix : {"-keys", "/keys"}) {
    if (stored_->Has(name + suffix)) return name + suffix;
  }
  return "";
}

std::vector<std::string> TableRestore::NamesOf(const std::string& name) {
  if (Has(name)) return {name};
  std::vector<std::string> names;
  for (std::string part = name + "/part_0"; Has(part);
       part = name + "/part_" + std::to_string(names.size())) {
    names.push_back(part);
  }
  return names;
}

Status TableRestore::ReadRows(const std::string& name, bool changes) {
  const std::vector<std::string> names = NamesOf(name);
  if (names.empty()) {
    return errors::NotFound("Key ", name, "-keys not found in checkpoint '", stored_->prefix(),
                            "', nor ", name, "/part_0-keys");
  }
  if (!changes) TF_RETURN_IF_ERROR(ReadBank(names));
  for (size_t number = 0; number < names.size(); ++number) {
    if (changes) TF_RETURN_IF_ERROR(RemoveKeys(names[number]));
    Source rows;
    TF_RETURN_IF_ERROR(Open(names[number], number, false, &rows));
    TF_RETURN_IF_ERROR(
        ForEachBlock(rows, [this](const Block& block) { return ImportRows(block); }));
    if (!stored_->Has(names[number] + "-keys_filtered")) continue;
    Source filtered;
    TF_RETURN_IF_ERROR(Open(names[number], number, true, &filtered));
    TF_RETURN_IF_ERROR(
        ForEachBlock(filtered, [this](const Block& block) { return ImportFiltered(block); }));
  }
  return Status();
}

Status TableRestore::ReadSlot(const std::string& name, const std::string& pattern, int slot,
                              const StoredSlot& stored, bool* found) {
  *found = false;
  const std::vector<std::string> names = NamesOf(name);
  for (size_t number = 0; number < names.size(); ++number) {
    const std::string slot_name = absl::StrReplaceAll(pattern, {{"{}", names[number]}});
    if (!Has(slot_name)) continue;
    *found = true;
    Source source;
    source.row_numbers = stored.is_number();
    TF_RETURN_IF_ERROR(Open(slot_name, number, false, &source));
    TF_RETURN_IF_ERROR(
        ForEachBlock(source, [this, slot](const Block& block) { return ImportSlot(block, slot); }));
  }
  return Status();
}

Status TableRestore::Open(const std::string& name, int number, bool filtered, Source* source) {
  const std::string suffix = filtered ? "_filtered" : "";
  source->name = name;
  if (!filtered) {
    TF_RETURN_IF_ERROR(source->row_numbers ? FindRowNumbers(source, name)
                                           : FindValues(source, name));
  }
  if (source->numbered) {
    source->ranges = WholeRange(source->count, kBlockKeys);
  } else {
    TF_RETURN_IF_ERROR(FindKeys(filtered ? name + "-keys" + suffix : KeysOf(name), &source->keys));
    if (!filtered && source->keys.rows() != source->count) {
      return errors::DataLoss("'", name, "' of checkpoint '", stored_->prefix(), "' has ",
                              source->keys.rows(), " keys and ", source->count, " rows");
    }
    source->count = source->keys.rows();
    TF_RETURN_IF_ERROR(FindIfAny(name + "-versions" + suffix, tensorflow::DT_INT64, source->count,
                                 &source->versions));
    TF_RETURN_IF_ERROR(FindIfAny(name + "-freqs" + suffix, tensorflow::DT_INT64, source->count,
                                 &source->frequencies));
    const char* offsets = filtered ? "-partition_filter_offset" : "-partition_offset";
    TF_RETURN_IF_ERROR(Ranges(name + offsets, source));
  }
  return Verifies(number) ? Verify(*source) : Status();
}

Status TableRestore::FindKeys(const std::string& name, StoredTensors::Tensor* tensor) {
  if (stored_->Find(name, tensorflow::DT_INT32, tensor).ok()) return Status();
  return stored_->Find(name, tensorflow::DT_INT64, tensor);
}

Status TableRestore::FindValues(Source* source, const std::string& name) {
  source->numbered = KeysOf(name).empty();
  const bool has_layout = stored_->Has(name + "-keys");
  TF_RETURN_IF_ERROR(
      stored_->Find(has_layout ? name + "-values" : name, tensorflow::DT_FLOAT, &source->values));
  const tensorflow::TensorShape& shape = source->values.shape;
  if (shape.dims() != 2 || shape.dim_size(1) != table_->dim()) {
    return errors::InvalidArgument("'", source->values.name, "' of checkpoint '", stored_->prefix(),
                                   "' has shape ", shape.DebugString(),
                                   ", but rows of the table have ", table_->dim(), " columns");
  }
  source->count = shape.dim_size(0);
  return Status();
}

Status TableRestore::FindRowNumbers(Source* source, const std::string& name) {
  source->numbered = !stored_->Has(name + "-keys");
  const std::string values = source->numbered ? name : name + "-values";
  Status status;
  for (const DataType dtype : {tensorflow::DT_FLOAT, tensorflow::DT_INT32, tensorflow::DT_INT64}) {
    status = stored_->Find(values, dtype, &source->values);
    if (status.ok()) break;
  }
  TF_RETURN_IF_ERROR(status);
  source->count = source->values.rows();
  return Status();
}

Status TableRestore::FindIfAny(const std::string& name, DataType dtype, int64_t count,
                               StoredTensors::Tensor* tensor) {
  if (!stored_->Has(name)) return Status();
  StoredTensors::Tensor found;
  TF_RETURN_IF_ERROR(stored_->Find(name, dtype, &found));
  if (found.rows() == count) *tensor = found;  // DeepRec writes empty ones for what it lacks
  return Status();
}

Status TableRestore::Ranges(const std::string& name, Source* source) {
  source->ranges = WholeRange(source->count, kBlockKeys);
  if (owner_.parts == 1) return Status();
  StoredTensors::Tensor tensor;
  TF_RETURN_IF_ERROR(FindIfAny(name, tensorflow::DT_INT32, kKeyBuckets + 1, &tensor));
  if (tensor.name.empty()) return Status();
  TF_RETURN_IF_ERROR(stored_->Verify(tensor));  // a wrong offset would leave keys out
  std::vector<int32_t> offsets(kKeyBuckets + 1);
  TF_RETURN_IF_ERROR(stored_->Read(tensor, 0, kKeyBuckets + 1, offsets.data()));
  if (AreOffsetsOf(offsets.data(), source->count)) {
    source->ranges = RangesOf(owner_, offsets.data(), kBlockKeys);
  }
  return Status();
}

Status TableRestore::Verify(const Source& source) {
  for (const StoredTensors::Tensor* tensor :
       {&source.keys, &source.values, &source.versions, &source.frequencies}) {
    if (!tensor->name.empty()) TF_RETURN_IF_ERROR(stored_->Verify(*tensor));
  }
  return Status();
}

Status TableRestore::ForEachBlock(const Source& source, const Take& take) {
  for (const PlaceRange& range : source.ranges) {
    Block block;
    TF_RETURN_IF_ERROR(ReadBlock(source, range, &block));
    KeepOwn(&block);
    if (!block.keys.empty()) TF_RETURN_IF_ERROR(take(block));
  }
  return Status();
}

Status TableRestore::ReadBlock(const Source& source, const PlaceRange& range, Block* block) {
  block->keys.resize(range.count);
  if (source.numbered) {
    for (int64_t k = 0; k < range.count; ++k) block->keys[k] = range.first + k;
  } else {
    TF_RETURN_IF_ERROR(ReadKeys(source.keys, range, &block->keys));
  }
  if (!source.values.name.empty()) {
    block->values.resize(range.count * table_->dim());
    TF_RETURN_IF_ERROR(ReadValues(source, range, block->values.data()));
  }
  if (!source.versions.name.empty()) {
    block->versions.resize(range.count);
    TF_RETURN_IF_ERROR(
        stored_->Read(source.versions, range.first, range.count, block->versions.data()));
  }
  if (!source.frequencies.name.empty()) {
    block->frequencies.resize(range.count);
    TF_RETURN_IF_ERROR(
        stored_->Read(source.frequencies, range.first, range.count, block->frequencies.data()));
  }
  return Status();
}

Status TableRestore::ReadValues(const Source& source, const PlaceRange& range, float* values) {
  if (!source.row_numbers) return stored_->Read(source.values, range.first, range.count, values);
  switch (source.values.dtype) {
    case tensorflow::DT_INT32:
      return ReadRowNumbers<int32_t>(source, range, values);
    case tensorflow::DT_INT64:
      return ReadRowNumbers<int64_t>(source, range, values);
    default:
      return ReadRowNumbers<float>(source, range, values);
  }
}

// Tables of keys have the number of a row in its first column. Variables, and each part of one,
// have those of all rows one after the other, from the first element on.
template <typename Number>
Status TableRestore::ReadRowNumbers(const Source& source, const PlaceRange& range, float* values) {
  const StoredTensors::Tensor& tensor = source.values;
  const int64_t width = tensor.shape.num_elements() / std::max<int64_t>(1, tensor.rows());
  const int64_t step = source.numbered ? 1 : width;
  for (const StoredTensors::Piece& piece : tensor.pieces) {
    const int64_t begin = std::max(range.first, piece.first_row);
    const int64_t end = std::min(range.first + range.count, piece.first_row + piece.num_rows);
    if (begin >= end) continue;
    const auto row_of = [&](int64_t row) {
      return piece.first_row + (row - piece.first_row) * step / width;
    };
    const int64_t first = row_of(begin);
    std::vector<Number> read((row_of(end - 1) - first + 1) * width);
    TF_RETURN_IF_ERROR(
        stored_->Read(tensor, first, static_cast<int64_t>(read.size()) / width, read.data()));
    for (int64_t row = begin; row < end; ++row) {
      const int64_t at = (row - piece.first_row) * step - (first - piece.first_row) * width;
      std::fill_n(values + (row - range.first) * table_->dim(), table_->dim(),
                  static_cast<float>(read[at]));
    }
  }
  return Status();
}

Status TableRestore::ReadKeys(const StoredTensors::Tensor& tensor, const PlaceRange& range,
                              std::vector<int64_t>* keys) {
  keys->resize(range.count);
  if (tensor.dtype == tensorflow::DT_INT64) {
    return stored_->Read(tensor, range.first, range.count, keys->data());
  }
  std::vector<int32_t> narrow(range.count);
  TF_RETURN_IF_ERROR(stored_->Read(tensor, range.first, range.count, narrow.data()));
  std::copy(narrow.begin(), narrow.end(), keys->begin());
  return Status();
}

void TableRestore::KeepOwn(Block* block) const {
  if (owner_.parts == 1) return;
  std::vector<int64_t> kept;
  for (size_t k = 0; k < block->keys.size(); ++k) {
    if (owner_.Has(block->keys[k])) kept.push_back(k);
  }
  if (kept.size() == block->keys.size()) return;
  Keep(kept, 1, &block->keys);
  Keep(kept, table_->dim(), &block->values);
  Keep(kept, 1, &block->versions);
  Keep(kept, 1, &block->frequencies);
}

Status TableRestore::ReadBank(const std::vector<std::string>& names) {
  const int64_t number = std::min<int64_t>(owner_.part, names.size() - 1);
  const std::string name = names[number] + "-default_values";
  if (!stored_->Has(name) || table_->options().initial != InitialKind::kBank) return Status();
  StoredTensors::Tensor tensor;
  TF_RETURN_IF_ERROR(stored_->Find(name, tensorflow::DT_FLOAT, &tensor));
  if (tensor.shape.dims() != 2 || tensor.shape.dim_size(1) != table_->dim() || tensor.rows() == 0) {
    return errors::InvalidArgument("'", name, "' of checkpoint '", stored_->prefix(),
                                   "' has shape ", tensor.shape.DebugString(),
                                   ", but rows of the table have ", table_->dim(), " columns");
  }
  TF_RETURN_IF_ERROR(stored_->Verify(tensor));
  std::vector<float> bank(tensor.shape.num_elements());
  TF_RETURN_IF_ERROR(stored_->Read(tensor, 0, tensor.rows(), bank.data()));
  return ToTensorFlow(table_->Initialize(bank.data(), tensor.rows()));
}

Status TableRestore::RemoveKeys(const std::string& name) {
  const std::string removed = name + "-keys_removed";
  if (!stored_->Has(removed)) return Status();
  StoredTensors::Tensor tensor;
  TF_RETURN_IF_ERROR(FindKeys(removed, &tensor));
  TF_RETURN_IF_ERROR(stored_->Verify(tensor));
  for (const PlaceRange& range : WholeRange(tensor.rows(), kBlockKeys)) {
    Block block;
    TF_RETURN_IF_ERROR(ReadKeys(tensor, range, &block.keys));
    KeepOwn(&block);
    table_->Erase(block.keys.data(), block.keys.size(), parallel_);
  }
  return Status();
}

Status TableRestore::ImportRows(const Block& block) {
  // Keys that have rows were admitted, and stay so.
  const AdmissionOptions& admission = table_->options().policies.admission;
  const bool counts = admission.kind == Admission::kCounter || admission.kind == Admission::kBloom;
  const int64_t least = counts ? std::max<int64_t>(1, admission.filter_freq) : 1;
  std::vector<int64_t> frequencies(block.frequencies);
  frequencies.resize(block.keys.size(), least);
  if (counts) {
    for (int64_t& frequency : frequencies) frequency = std::max(frequency, least);
  }
  DynamicTable::Contents contents;
  contents.keys = block.keys.data();
  contents.num_keys = block.keys.size();
  contents.weights = block.values.data();
  contents.versions = DataOrNull(block.versions);
  contents.frequencies = frequencies.data();
  num_keys_ += block.keys.size();
  return ToTensorFlow(table_->Import(contents, parallel_));
}

Status TableRestore::ImportFiltered(const Block& block) {
  std::vector<FilteredKey> keys(block.keys.size());
  for (size_t k = 0; k < keys.size(); ++k) {
    keys[k].key = block.keys[k];
    keys[k].frequency = block.frequencies.empty() ? 1 : block.frequencies[k];
    keys[k].version = block.versions.empty() ? RowMetadata::kNeverWritten : block.versions[k];
  }
  table_->RestoreFilteredKeys(keys.data(), keys.size());
  return Status();
}

Status TableRestore::ImportSlot(const Block& block, int slot) {
  DynamicTable::Contents contents;
  contents.keys = block.keys.data();
  contents.num_keys = block.keys.size();
  contents.slots.assign(slot + 1, nullptr);
  contents.slots[slot] = block.values.data();
  contents.insert = false;
  contents.keep_versions = true;  // what is restored is no update
  num_slot_keys_ += block.keys.size();
  return ToTensorFlow(table_->Import(contents, parallel_));
}

}  // namespace graph_opt
