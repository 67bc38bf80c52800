#ifndef GRAPH_OPT_EXCHANGE_ALL_TO_ALL_GROUP_H_
#define GRAPH_OPT_EXCHANGE_ALL_TO_ALL_GROUP_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "buffer/deadline_timer.h"
#include "exchange/rank_messages.h"

namespace graph_opt {

// The ranks of a group that exchange messages within one process: each sends a part of its message
// to every rank. Ranks meet by the name of the message; a call waits for those of all other ranks.
//
// A rank that gives up would keep the others waiting. So whatever ends a call before its time (its
// step was cancelled, it waited too long, ranks disagree on what they send) fails all calls of the
// group, and all later ones, with an error that names the rank and the cause. What a rank did is an
// UnknownError to the others, as with Horovod: after an AbortedError, monitored sessions try again.
class AllToAllGroup : public std::enable_shared_from_this<AllToAllGroup> {
 public:
  using Message = RankMessage;

  // Gets the messages of all ranks, or an error. Called once, on any thread, without any lock held.
  using Done = std::function<void(const absl::Status&, const std::vector<Message>&)>;

  // One call of one rank.
  struct Call {
    std::string name;
    int rank;
    uint64_t id;
  };

  // The group of this name in this process, made by the first to ask. A group is never destroyed,
  // so that a rank that comes late learns why the others have failed.
  static std::shared_ptr<AllToAllGroup> OfProcess(const std::string& name, int size);

  explicit AllToAllGroup(int size) : size_(size) {}

  int size() const { return size_; }

  // A call of this rank that sends the message of this name.
  Call NewCall(const std::string& name, int rank);

  // Waits at most for `timeout_millis`; 0 for no limit. The call may have ended when this returns.
  void Send(const Call& call, Message message, int64_t timeout_millis, Done done);

  // If the call waits: fails the group.
  void Cancel(const Call& call);

  // Fails all calls. Only the first error counts.
  void Fail(const absl::Status& error);

 private:
  struct Waiting {
    uint64_t id = 0;  // 0: has not come
    Message message;
    Done done;
  };
  struct Exchange {
    std::vector<Waiting> ranks;
    int arrived = 0;
    uint64_t id = 0;  // of the first call
    DeadlineTimer::Token deadline;
  };

  void TimeOut(const std::string& name, uint64_t id, int64_t timeout_millis);
  static absl::Status Compare(const std::string& name, const Exchange& exchange);
  static void Finish(const absl::Status& status, Exchange* exchange);

  const int size_;
  std::mutex mutex_;
  // Guarded by mutex_.
  uint64_t last_id_ = 0;
  std::map<std::string, Exchange> exchanges_;  // those that wait, by name
  absl::Status failed_;
};

}  // namespace graph_opt

// Called by graph_opt/ops/all_to_all.py: rank number `rank` can not go on, and all calls of
// the group fail with "rank R " and `error`.
extern "C" void graph_opt_fail_in_process_group(const char* group, int32_t size, int32_t rank,
                                                const char* error);

#endif  // GRAPH_OPT_EXCHANGE_ALL_TO_ALL_GROUP_H_
