#include "exchange/in_process_messages.h"

#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace graph_opt {
namespace {

// Copies what all ranks have sent to this one.
absl::Status Receive(int rank, const std::vector<RankMessage>& messages,
                     const RankMessages::Allocate& allocate, std::vector<int64_t>* splits) {
  int64_t rows = 0;
  for (const RankMessage& message : messages) {
    splits->push_back(message.splits[rank]);
    rows += splits->back();
  }
  char* to = nullptr;
  const absl::Status allocated = allocate(rows, &to);
  if (!allocated.ok()) return allocated;
  for (const RankMessage& message : messages) {
    int64_t first = 0;
    for (int other = 0; other < rank; ++other) first += message.splits[other];
    const int64_t bytes = message.splits[rank] * message.row_bytes;
    if (bytes > 0) std::memcpy(to, message.data + first * message.row_bytes, bytes);
    to += bytes;
  }
  return absl::OkStatus();
}

class InProcessCall : public RankMessages::Call {
 public:
  InProcessCall(std::shared_ptr<AllToAllGroup> group, AllToAllGroup::Call call,
                int64_t timeout_millis)
      : group_(std::move(group)), call_(std::move(call)), timeout_millis_(timeout_millis) {}

  void Send(RankMessage message, RankMessages::Allocate allocate,
            RankMessages::Done done) override {
    const int rank = call_.rank;
    group_->Send(call_, std::move(message), timeout_millis_,
                 [rank, allocate, done](const absl::Status& status,
                                        const std::vector<RankMessage>& messages) {
                   std::vector<int64_t> splits;
                   done(status.ok() ? Receive(rank, messages, allocate, &splits) : status, splits);
                 });
  }

  void Cancel() override { group_->Cancel(call_); }

 private:
  const std::shared_ptr<AllToAllGroup> group_;
  const AllToAllGroup::Call call_;
  const int64_t timeout_millis_;
};

}  // namespace

InProcessMessages::InProcessMessages(std::shared_ptr<AllToAllGroup> group, int rank,
                                     int64_t timeout_millis)
    : group_(std::move(group)), rank_(rank), timeout_millis_(timeout_millis) {}

std::shared_ptr<RankMessages::Call> InProcessMessages::NewCall(const std::string& name) {
  return std::make_shared<InProcessCall>(group_, group_->NewCall(name, rank_), timeout_millis_);
}

void InProcessMessages::Fail(const absl::Status& error) {
  group_->Fail(absl::Status(error.code(), absl::StrCat("rank ", rank_, error.message())));
}

}  // namespace graph_opt
