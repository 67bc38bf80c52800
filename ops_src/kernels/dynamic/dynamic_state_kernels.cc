#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/dynamic/dynamic_inputs.h"
#include "kernels/dynamic/dynamic_keys.h"
#include "kernels/dynamic/dynamic_table_resource.h"
#include "kernels/dynamic/evicted_outputs.h"
#include "kernels/dynamic/table_kernel.h"
#include "kernels/kernel_names.h"
#include "kernels/lookup/device_threads.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace graph_opt {
namespace {

class SizeKernel : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    OpenDynamicTable open;
    Tensor* size = nullptr;
    OP_REQUIRES_OK(ctx, OpenTableOrSlot(ctx, 0, &open));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({2}), &size));
    Int64sOf(size)[0] = open.table->size();
    Int64sOf(size)[1] = open.table->dim();
  }
};

class MetadataKernel : public TableKernel {
 public:
  using TableKernel::TableKernel;

 private:
  Status Run(OpKernelContext* ctx, DynamicTable* table) override {
    const Tensor& keys = ctx->input(1);
    Tensor* frequencies = nullptr;
    Tensor* versions = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(0, keys.shape(), &frequencies));
    TF_RETURN_IF_ERROR(ctx->allocate_output(1, keys.shape(), &versions));
    DeviceThreads threads(ctx, table->BytesToFind(keys.NumElements()));
    table->ReadMetadata(Int64sOf(keys), keys.NumElements(), &threads, Int64sOf(frequencies),
                        Int64sOf(versions));
    return Status();
  }
};

class EvictKernel : public TableKernel {
 public:
  using TableKernel::TableKernel;

 private:
  Status Run(OpKernelContext* ctx, DynamicTable* table) override {
    int64_t step;
    TF_RETURN_IF_ERROR(ReadNumber(ctx, 1, "step has", &step));
    DeviceThreads threads(ctx);
    EvictedRows evicted;
    table->Evict(step, &threads, &evicted);
    return WriteEvicted(ctx, 0, evicted, table->dim());
  }
};

class CompactKernel : public TableKernel {
 public:
  using TableKernel::TableKernel;

 private:
  Status Run(OpKernelContext*, DynamicTable* table) override {
    table->Compact();
    return Status();
  }
};

class EndEpochKernel : public TableKernel {
 public:
  using TableKernel::TableKernel;

 private:
  Status Run(OpKernelContext*, DynamicTable* table) override {
    table->EndEpoch();
    return Status();
  }
};

class MetricsKernel : public TableKernel {
 public:
  using TableKernel::TableKernel;

 private:
  Status Run(OpKernelContext* ctx, DynamicTable* table) override {
    Tensor* json = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(0, TensorShape(), &json));
    json->scalar<tensorflow::tstring>()() = ToJson(table->metrics());
    return Status();
  }

  static std::string ToJson(const DynamicTable::Metrics& of) {
    std::vector<std::string> fields;
    const auto add = [&fields](const char* name, int64_t value) {
      fields.push_back(absl::StrCat("\"", name, "\": ", value));
    };
    add("keys", of.keys);
    add("free_rows", of.free_rows);
    add("holds", of.holds);
    add("index_bytes", of.index_bytes);
    add("metadata_bytes", of.metadata_bytes);
    add("row_bytes", of.row_bytes);
    add("free_row_bytes", of.free_row_bytes);
    add("given_back_bytes", of.given_back_bytes);
    add("inserted", of.inserted);
    add("removed", of.removed);
    add("evicted", of.evicted);
    add("found", of.found);
    add("not_found", of.not_found);
    add("found_in_file", of.found_in_file);
    add("promoted", of.promoted);
    add("file_bytes", of.file_bytes);
    add("filtered_keys", of.filtered_keys);
    add("policy_bytes", of.policy_bytes);
    return "{" + absl::StrJoin(fields, ", ") + "}";
  }
};

#define CPU(op) Name(op).Device(tensorflow::DEVICE_CPU)
REGISTER_KERNEL_BUILDER(CPU("DynamicTableSize"), SizeKernel);
REGISTER_KERNEL_BUILDER(CPU("DynamicTableMetadata"), MetadataKernel);
REGISTER_KERNEL_BUILDER(CPU("DynamicTableEvict"), EvictKernel);
REGISTER_KERNEL_BUILDER(CPU("DynamicTableCompact"), CompactKernel);
REGISTER_KERNEL_BUILDER(CPU("DynamicTableEndEpoch"), EndEpochKernel);
REGISTER_KERNEL_BUILDER(CPU("DynamicTableMetrics"), MetricsKernel);
#undef CPU

}  // namespace
}  // namespace graph_opt
