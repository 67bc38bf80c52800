#ifndef GRAPH_OPT_EXCHANGE_RANK_MESSAGES_H_
#define GRAPH_OPT_EXCHANGE_RANK_MESSAGES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace graph_opt {

// Types of elements, with the numbers that Horovod gives them. What it has no number for travels as
// a type of the same size.
enum class CarriedAs : int32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBool = 9,
};

// What a rank sends: rows, those for rank 0 first.
struct RankMessage {
  std::shared_ptr<const void> owner;  // of the data, while somebody reads them
  const char* data = nullptr;
  int64_t row_bytes = 0;
  CarriedAs carrier = CarriedAs::kUint8;
  int64_t row_elements = 0;     // of the carrier
  std::string kind;             // type and shape of the rows, the same on all ranks
  std::vector<int64_t> splits;  // how many rows go to each rank
};

// How a rank of a group reaches the others: its message to them meets theirs of the same name.
class RankMessages {
 public:
  // Gives memory for so many rows. Called at most once, before the call ends, on any thread.
  using Allocate = std::function<absl::Status(int64_t rows, char** memory)>;
  // Gets how many rows each rank has sent, or an error. Called once, on any thread, without any
  // lock held; the call may have ended when Send() returns.
  using Done = std::function<void(const absl::Status&, const std::vector<int64_t>& splits)>;

  // A message of one name.
  class Call {
   public:
    virtual ~Call() = default;
    virtual void Send(RankMessage message, Allocate allocate, Done done) = 0;
    // The step that sends is cancelled: ends the call, if it waits and can be ended.
    virtual void Cancel() = 0;
  };

  virtual ~RankMessages() = default;
  virtual std::shared_ptr<Call> NewCall(const std::string& name) = 0;
  // Whether a call can be cancelled. Others end when all ranks have sent, whatever became of the
  // step.
  virtual bool can_cancel() const = 0;
  // This rank cannot send what the others wait for. If they can be told, they fail with the error,
  // whose message follows "rank R".
  virtual void Fail(const absl::Status& error) = 0;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_EXCHANGE_RANK_MESSAGES_H_
