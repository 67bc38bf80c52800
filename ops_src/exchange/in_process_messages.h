#ifndef GRAPH_OPT_EXCHANGE_IN_PROCESS_MESSAGES_H_
#define GRAPH_OPT_EXCHANGE_IN_PROCESS_MESSAGES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "exchange/all_to_all_group.h"
#include "exchange/rank_messages.h"

namespace graph_opt {

// The messages of one rank of a group within this process.
class InProcessMessages : public RankMessages {
 public:
  // A message waits for those of the other ranks at most for `timeout_millis`; 0 for no limit.
  InProcessMessages(std::shared_ptr<AllToAllGroup> group, int rank, int64_t timeout_millis);

  std::shared_ptr<Call> NewCall(const std::string& name) override;
  bool can_cancel() const override { return true; }
  void Fail(const absl::Status& error) override;

 private:
  const std::shared_ptr<AllToAllGroup> group_;
  const int rank_;
  const int64_t timeout_millis_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_EXCHANGE_IN_PROCESS_MESSAGES_H_
