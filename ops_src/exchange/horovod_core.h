#ifndef GRAPH_OPT_EXCHANGE_HOROVOD_CORE_H_
#define GRAPH_OPT_EXCHANGE_HOROVOD_CORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace graph_opt {

// What Horovod's core (0.28: horovod/common/common.h and operations.h) says of messages, to call it
// without its headers, which it does not install, and without linking with it. Its library is the
// one that `horovod.tensorflow` has loaded, compiled with TensorFlow's flags as this code is.
//
// Classes whose objects cross the border have Horovod's order of virtual functions, and its members
// as far as all of its builds have the same. The functions below are looked up by names that encode
// the types of their arguments, so that another interface lacks some of them.
namespace horovod_core {

// Larger with GPUs: only Horovod's functions look into one.
class Status {
 public:
  // Never defined: whoever returns a Status returns what Horovod's function has, in its place.
  Status(Status&&);
  ~Status();

  absl::Status ToAbsl() const;

 private:
  static constexpr int kAtMostBytes = 128;
  alignas(16) char memory_[kAtMostBytes];
};

struct TensorShape {
  std::vector<int64_t> sizes;
};

class ReadyEvent;
class PersistentBuffer;

struct ReadyEventList {
  std::vector<std::shared_ptr<ReadyEvent>> events;  // of GPUs
};

class Tensor {
 public:
  virtual int32_t dtype() const = 0;
  virtual TensorShape shape() const = 0;
  virtual const void* data() const = 0;
  virtual int64_t size() const = 0;  // in bytes
  virtual ~Tensor() = default;
};

// The memory for what comes.
class OpContext {
 public:
  virtual Status AllocatePersistent(int64_t size, std::shared_ptr<PersistentBuffer>* buffer) = 0;
  virtual Status AllocateOutput(TensorShape shape, std::shared_ptr<Tensor>* tensor,
                                std::shared_ptr<ReadyEvent>* event) = 0;
  virtual Status AllocateOutput(int output, TensorShape shape, std::shared_ptr<Tensor>* tensor,
                                std::shared_ptr<ReadyEvent>* event) = 0;
  virtual Status AllocateZeros(int64_t elements, int32_t dtype,
                               std::shared_ptr<Tensor>* tensor) = 0;
  virtual int32_t framework() const = 0;
  virtual ~OpContext() = default;
};

constexpr int32_t kTensorFlow = 0;
constexpr int kCpu = -1;
constexpr int32_t kAllRanks = 0;  // the process set

// All of them are set.
struct Functions {
  Status (*check_initialized)();
  Status (*enqueue_all_to_all)(std::shared_ptr<OpContext>, std::shared_ptr<Tensor>,
                               std::shared_ptr<Tensor> splits, ReadyEventList,
                               const std::string& name, int device,
                               std::function<void(const Status&)>, int32_t process_set);
  Status (*ok)();
  Status (*unknown_error)(const std::string& message);
  int32_t (*type)(const Status*);
  const std::string& (*reason)(const Status*);
};

// Finds the functions in a library that is loaded; later calls do nothing once that succeeded.
absl::Status Load(const std::string& path);

// Those that were found; null before.
const Functions* Loaded();

}  // namespace horovod_core
}  // namespace graph_opt

// Called by graph_opt/ops/all_to_all.py. Returns what is wrong, to be read before the next call; ""
// if nothing is.
extern "C" const char* graph_opt_use_horovod(const char* path);

#endif  // GRAPH_OPT_EXCHANGE_HOROVOD_CORE_H_
