#ifndef GRAPH_OPT_EXCHANGE_HOROVOD_MESSAGES_H_
#define GRAPH_OPT_EXCHANGE_HOROVOD_MESSAGES_H_

#include <memory>
#include <string>

#include "exchange/rank_messages.h"

namespace graph_opt {

// The messages of this process as a rank of Horovod, whose core carries them. A call holds no
// thread; it ends on Horovod's own.
class HorovodMessages : public RankMessages {
 public:
  std::shared_ptr<Call> NewCall(const std::string& name) override;
  bool can_cancel() const override { return false; }
  void Fail(const absl::Status&) override {}
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_EXCHANGE_HOROVOD_MESSAGES_H_
