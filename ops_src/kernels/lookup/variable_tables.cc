#include "kernels/lookup/variable_tables.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "dynamic/dynamic_table.h"
#include "dynamic/read_locks.h"
#include "kernels/dynamic/dynamic_table_resource.h"
#include "kernels/kernel_names.h"
#include "kernels/tensorflow_compat.h"
#include "pages/moving_tables.h"
#include "tensorflow/core/common_runtime/device.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

using tensorflow::mutex;
using tensorflow::Var;
namespace errors = tensorflow::errors;

// Copies a tensor in the memory of the kernel's device, on its stream if it has one.
Status CopyOnDevice(OpKernelContext* ctx, const Tensor& from, Tensor* to) {
  tensorflow::DeviceContext* const device = ctx->op_device_context();
  if (device == nullptr) {
    const tensorflow::StringPiece bytes = from.tensor_data();
    std::copy(bytes.begin(), bytes.end(), const_cast<char*>(to->tensor_data().data()));
    return Status();
  }
  Status copied;
  Notification done;
  device->CopyTensorInSameDevice(&from, static_cast<tensorflow::Device*>(ctx->device()), to,
                                 [&](const Status& status) {
                                   copied = status;
                                   done.Notify();
                                 });
  done.WaitForNotification();
  return copied;
}

// From then on no other tensor shares the variable's memory: it may be written under a shared lock,
// and reads of the whole variable make copies (`copy_on_read_mode`).
Status OwnMemory(OpKernelContext* ctx, Var* variable) {
  if (variable->copy_on_read_mode.load()) return Status();
  tensorflow::mutex_lock lock(*variable->mu());
  Tensor* const tensor = variable->tensor();
  if (!tensor->IsInitialized()) return Status();  // reported by the caller
  if (!OwnsMemory(ctx, variable)) {
    Tensor copy;
    TF_RETURN_IF_ERROR(ctx->allocate_temp(tensor->dtype(), tensor->shape(), &copy));
    TF_RETURN_IF_ERROR(CopyOnDevice(ctx, *tensor, &copy));
    *tensor = copy;
  }
  variable->copy_on_read_mode.store(true);
  return Status();
}

// The same memory as [rows, width], for tables whose rows are numbers or have several dimensions.
Tensor AsMatrix(const Tensor& tensor) {
  Tensor matrix = tensor;
  if (tensor.dims() == 2 || tensor.dims() == 0 || tensor.NumElements() == 0) return matrix;
  const int64_t rows = tensor.dim_size(0);
  CHECK(matrix.CopyFrom(tensor, tensorflow::TensorShape({rows, tensor.NumElements() / rows})));
  return matrix;
}

Status NotInitialized(OpKernelContext* ctx, const std::string& name) {
  return errors::FailedPrecondition(ctx->op_kernel().name(), ": variable '", name,
                                    "' is not initialized; run its initializer first");
}

}  // namespace

// The dynamic tables and slots, beside variables_; others have no table here.
struct VariableTables::Dynamic {
  std::vector<OpenDynamicTable> open;
  ReadLocks locks;
};

VariableTables::VariableTables() = default;

VariableTables::~VariableTables() {
  tensors_.clear();
  if (dynamic_ != nullptr) dynamic_->locks.Release();
  Unlock();
}

Status VariableTables::Open(OpKernelContext* ctx, int first, int count, Purpose purpose) {
  TF_RETURN_IF_ERROR(OpenAll(ctx, first, std::vector<bool>(count, purpose != kRead), purpose));
  return RequireInitialized(ctx, first, count);
}

Status VariableTables::RequireInitialized(OpKernelContext* ctx, int first, int count) const {
  for (int i = 0; i < count; ++i) {
    if (!is_initialized(i)) {
      const std::string name = variables_.empty()
                                   ? std::string(ctx->op_kernel().requested_input(first + i))
                                   : tensorflow::HandleFromInput(ctx, first + i).name();
      return NotInitialized(ctx, name);
    }
  }
  return Status();
}

Status VariableTables::OpenThoseInitialized(OpKernelContext* ctx,
                                            const std::vector<bool>& is_updated, Purpose purpose) {
  return OpenAll(ctx, 0, is_updated, purpose);
}

Status VariableTables::OpenAll(OpKernelContext* ctx, int first, const std::vector<bool>& is_updated,
                               Purpose purpose) {
  const int count = static_cast<int>(is_updated.size());
  if (count == 0) return Status();
  if (ctx->input_dtype(first) == tensorflow::DT_RESOURCE) {
    return OpenResources(ctx, first, is_updated, purpose);
  }
  if (purpose != kRead) return OpenReferences(ctx, first, count, purpose);
  tensors_.reserve(count);
  for (int i = first; i < first + count; ++i) tensors_.push_back(AsMatrix(ctx->input(i)));
  return Status();
}

bool VariableTables::is_initialized(int i) const {
  if (dynamic_table(i) != nullptr) return true;
  const bool exists = variables_.empty() || variables_[i] != nullptr;
  return exists && tensors_[i].IsInitialized();
}

float* VariableTables::floats(int i) { return tensors_[i].flat<float>().data(); }

DynamicTable* VariableTables::dynamic_table(int i) const {
  return dynamic_ == nullptr ? nullptr : dynamic_->open[i].table.get();
}

int VariableTables::dynamic_slot(int i) const { return dynamic_->open[i].slot; }

TableMemory VariableTables::memory(int i) const {
  const DynamicTable* const table = dynamic_table(i);
  if (table == nullptr) {
    const Tensor& tensor = tensors_[i];
    const int64_t dim = tensor.dim_size(1);
    return {const_cast<char*>(tensor.tensor_data().data()), tensor.dim_size(0), dim,
            dim * tensorflow::DataTypeSize(tensor.dtype()), 0};
  }
  const DynamicTable::Rows rows = table->rows();
  const int64_t offset = (1 + dynamic_slot(i)) * table->dim() * sizeof(float);
  return {rows.base + offset, rows.end, table->dim(), rows.stride, rows.first_row};
}

void VariableTables::MoveToLargePages(MovingTables* moving) const {
  std::vector<MovingTables::Memory> tables;
  tables.reserve(tensors_.size());
  for (const Tensor& tensor : tensors_) {
    if (!tensor.IsInitialized()) continue;
    const auto bytes = tensor.tensor_data();
    tables.push_back({bytes.data(), static_cast<int64_t>(bytes.size())});
  }
  moving->Move(tables);
}

Status VariableTables::OpenResources(OpKernelContext* ctx, int first,
                                     const std::vector<bool>& is_updated, Purpose purpose) {
  variables_.resize(is_updated.size());
  for (size_t i = 0; i < is_updated.size(); ++i) {
    const auto& handle = tensorflow::HandleFromInput(ctx, first + static_cast<int>(i));
    LookupResource(ctx, handle, &variables_[i]).IgnoreError();
  }
  TF_RETURN_IF_ERROR(FindDynamic(ctx, first));
  return OpenFound(ctx, is_updated, purpose);
}

namespace {

// A variable without rows may be the one that dynamic tables have beside them.
bool HasRows(Var* variable) {
  const tensorflow::tf_shared_lock lock(*variable->mu());
  return variable->tensor()->NumElements() != 0;
}

}  // namespace

Status VariableTables::FindDynamic(OpKernelContext* ctx, int first) {
  for (size_t i = 0; i < variables_.size(); ++i) {
    if (variables_[i] != nullptr && HasRows(variables_[i].get())) continue;
    const int input = first + static_cast<int>(i);
    OpenDynamicTable found = FindDynamicTable(ctx, tensorflow::HandleFromInput(ctx, input));
    if (found.table == nullptr) continue;
    variables_[i].reset();
    if (dynamic_ == nullptr) {
      dynamic_.reset(new Dynamic);
      dynamic_->open.resize(variables_.size());
    }
    dynamic_->open[i] = std::move(found);
  }
  return Status();
}

Status VariableTables::OpenNamed(OpKernelContext* ctx, const std::vector<Name>& names) {
  for (const Name& name : names) {
    Var* found = nullptr;
    ctx->resource_manager()->Lookup(name.first, name.second, &found).IgnoreError();
    variables_.emplace_back(found);
  }
  return OpenFound(ctx, std::vector<bool>(names.size(), true), kUpdate);
}

Status VariableTables::OpenTensors(const std::vector<Tensor>& values) {
  for (const Tensor& value : values) tensors_.push_back(AsMatrix(value));
  return Status();
}

Status VariableTables::OpenFound(OpKernelContext* ctx, const std::vector<bool>& is_updated,
                                 Purpose purpose) {
  std::vector<mutex*> mutexes;
  std::vector<Var*> updated;
  if (dynamic_ != nullptr && purpose != kRead) AddUpdateMutexes(&mutexes);
  for (size_t i = 0; i < is_updated.size(); ++i) {
    if (variables_[i] == nullptr) continue;
    mutexes.push_back(variables_[i]->mu());
    if (is_updated[i]) updated.push_back(variables_[i].get());
  }
  for (bool ready = false; !ready;) {
    for (Var* variable : updated) TF_RETURN_IF_ERROR(OwnMemory(ctx, variable));
    Lock(mutexes, purpose == kUpdateExclusively);
    // An assignment in the meantime may have given a variable shared memory.
    ready = std::all_of(updated.begin(), updated.end(), [](Var* variable) {
      return variable->copy_on_read_mode.load() || !variable->tensor()->IsInitialized();
    });
    if (!ready) Unlock();
  }
  if (dynamic_ != nullptr) LockDynamic();
  tensors_.reserve(variables_.size());
  for (const auto& variable : variables_) {
    tensors_.push_back(variable == nullptr ? Tensor() : AsMatrix(*variable->tensor()));
  }
  return Status();
}

void VariableTables::AddUpdateMutexes(std::vector<mutex*>* mutexes) const {
  for (const OpenDynamicTable& open : dynamic_->open) {
    if (open.table != nullptr) mutexes->push_back(open.resource->update_mutex());
  }
}

// After all mutexes, as every update does.
void VariableTables::LockDynamic() {
  std::vector<const DynamicTable*> tables;
  for (const OpenDynamicTable& open : dynamic_->open) {
    if (open.table != nullptr) tables.push_back(open.table.get());
  }
  dynamic_->locks.Take(std::move(tables));
}

Status VariableTables::OpenReferences(OpKernelContext* ctx, int first, int count, Purpose purpose) {
  const bool exclusively = purpose == kUpdateExclusively;
  if (exclusively) {
    std::vector<mutex*> mutexes;
    for (int i = first; i < first + count; ++i) mutexes.push_back(ctx->input_ref_mutex(i));
    Lock(mutexes, true);
  }
  for (int i = first; i < first + count; ++i) {
    tensors_.push_back(AsMatrix(ctx->mutable_input(i, exclusively)));
  }
  return Status();
}

void VariableTables::Lock(std::vector<mutex*> mutexes, bool exclusively) {
  std::sort(mutexes.begin(), mutexes.end(), std::less<mutex*>());
  mutexes.erase(std::unique(mutexes.begin(), mutexes.end()), mutexes.end());
  exclusively_ = exclusively;
  for (mutex* one : mutexes) {
    if (exclusively) {
      one->lock();
    } else {
      one->lock_shared();
    }
  }
  locked_ = std::move(mutexes);
}

void VariableTables::Unlock() {
  for (mutex* one : locked_) {
    if (exclusively_) {
      one->unlock();
    } else {
      one->unlock_shared();
    }
  }
  locked_.clear();
}

}  // namespace graph_opt
