#include "exchange/horovod_messages.h"

#include <utility>
#include <vector>

#include "exchange/horovod_core.h"

namespace graph_opt {
namespace {

using horovod_core::Functions;
using horovod_core::OpContext;
using horovod_core::PersistentBuffer;
using horovod_core::ReadyEvent;
using horovod_core::ReadyEventList;
using horovod_core::Tensor;
using horovod_core::TensorShape;

const char kNotUsed[] = "memory that no all-to-all needs";

// Memory that Horovod reads or writes.
class Memory : public Tensor {
 public:
  Memory(CarriedAs type, TensorShape shape, const char* data, int64_t bytes,
         std::shared_ptr<const void> owner = nullptr)
      : type_(type),
        shape_(std::move(shape)),
        data_(data),
        bytes_(bytes),
        owner_(std::move(owner)) {}

  int32_t dtype() const override { return static_cast<int32_t>(type_); }
  TensorShape shape() const override { return shape_; }
  const void* data() const override { return data_; }
  int64_t size() const override { return bytes_; }

 private:
  const CarriedAs type_;
  const TensorShape shape_;
  const char* const data_;
  const int64_t bytes_;
  const std::shared_ptr<const void> owner_;
};

// What a call sends, and receives.
class HorovodCall : public RankMessages::Call,
                    public OpContext,
                    public std::enable_shared_from_this<HorovodCall> {
 public:
  explicit HorovodCall(const std::string& name) : name_(name) {}

  void Send(RankMessage message, RankMessages::Allocate allocate,
            RankMessages::Done done) override {
    const absl::Status sent = Enqueue(std::move(message), std::move(allocate), done);
    if (!sent.ok()) done(sent, {});
  }

  void Cancel() override {}

  horovod_core::Status AllocatePersistent(int64_t, std::shared_ptr<PersistentBuffer>*) override {
    return core_->unknown_error(kNotUsed);
  }

  horovod_core::Status AllocateOutput(TensorShape shape, std::shared_ptr<Tensor>* tensor,
                                      std::shared_ptr<ReadyEvent>*) override {
    char* memory = nullptr;
    const int64_t rows = shape.sizes.front();
    const absl::Status allocated = allocate_(rows, &memory);
    if (!allocated.ok()) return core_->unknown_error(std::string(allocated.message()));
    *tensor = std::make_shared<Memory>(carrier_, std::move(shape), memory, rows * row_bytes_);
    return core_->ok();
  }

  // Number 1 is how many rows each rank has sent.
  horovod_core::Status AllocateOutput(int output, TensorShape shape,
                                      std::shared_ptr<Tensor>* tensor,
                                      std::shared_ptr<ReadyEvent>* event) override {
    if (output == 0) return AllocateOutput(std::move(shape), tensor, event);
    received_.resize(shape.sizes.front());
    *tensor = OfSplits(&received_);
    return core_->ok();
  }

  horovod_core::Status AllocateZeros(int64_t, int32_t, std::shared_ptr<Tensor>*) override {
    return core_->unknown_error(kNotUsed);
  }

  int32_t framework() const override { return horovod_core::kTensorFlow; }

 private:
  absl::Status Enqueue(RankMessage message, RankMessages::Allocate allocate,
                       const RankMessages::Done& done) {
    if (core_ == nullptr) {
      return absl::FailedPreconditionError(
          "Horovod has not been initialized in this process: call horovod.tensorflow.init(), then "
          "sok.init() or graph_opt.install()");
    }
    const absl::Status initialized = core_->check_initialized().ToAbsl();
    if (!initialized.ok()) return initialized;
    allocate_ = std::move(allocate);
    carrier_ = message.carrier;
    row_bytes_ = message.row_bytes;
    int64_t rows = 0;
    for (int64_t count : message.splits) rows += count;
    sent_.assign(message.splits.begin(), message.splits.end());
    const auto tensor =
        std::make_shared<Memory>(carrier_, TensorShape{{rows, message.row_elements}}, message.data,
                                 rows * row_bytes_, message.owner);
    const std::shared_ptr<HorovodCall> self = shared_from_this();
    const auto end = [self, done](const horovod_core::Status& status) {
      done(status.ToAbsl(), {self->received_.begin(), self->received_.end()});
    };
    return core_
        ->enqueue_all_to_all(self, tensor, OfSplits(&sent_), ReadyEventList(), name_,
                             horovod_core::kCpu, end, horovod_core::kAllRanks)
        .ToAbsl();
  }

  std::shared_ptr<Tensor> OfSplits(std::vector<int32_t>* splits) {
    const int64_t ranks = static_cast<int64_t>(splits->size());
    return std::make_shared<Memory>(CarriedAs::kInt32, TensorShape{{ranks}},
                                    reinterpret_cast<const char*>(splits->data()),
                                    ranks * static_cast<int64_t>(sizeof(int32_t)));
  }

  const Functions* const core_ = horovod_core::Loaded();
  const std::string name_;
  RankMessages::Allocate allocate_;
  CarriedAs carrier_ = CarriedAs::kUint8;
  int64_t row_bytes_ = 0;
  std::vector<int32_t> sent_;
  std::vector<int32_t> received_;
};

}  // namespace

std::shared_ptr<RankMessages::Call> HorovodMessages::NewCall(const std::string& name) {
  return std::make_shared<HorovodCall>(name);
}

}  // namespace graph_opt
