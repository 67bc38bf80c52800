#include "kernels/dynamic/held_rows.h"

#include <utility>

#include "tensorflow/core/framework/allocation_description.pb.h"
#include "tensorflow/core/framework/types.h"

namespace graph_opt {
namespace {

class HoldingBuffer : public tensorflow::TensorBuffer {
 public:
  HoldingBuffer(const tensorflow::Tensor& rows, std::shared_ptr<const Holds> holds)
      : TensorBuffer(const_cast<char*>(rows.tensor_data().data())),
        rows_(rows),
        holds_(std::move(holds)) {}

  size_t size() const override { return rows_.TotalBytes(); }
  tensorflow::TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(tensorflow::AllocationDescription* description) const override {
    description->set_requested_bytes(static_cast<int64_t>(size()));
    description->set_allocator_name("dynamic table rows");
  }

 private:
  const tensorflow::Tensor rows_;
  const std::shared_ptr<const Holds> holds_;
};

}  // namespace

tensorflow::Tensor HoldingRows(const tensorflow::Tensor& rows, std::shared_ptr<const Holds> holds) {
  HoldingBuffer* const buffer = new HoldingBuffer(rows, std::move(holds));
  tensorflow::Tensor holding(tensorflow::DT_INT64, rows.shape(), buffer);
  buffer->Unref();
  return holding;
}

}  // namespace graph_opt
