#include "exchange/all_to_all_group.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"

namespace graph_opt {

std::shared_ptr<AllToAllGroup> AllToAllGroup::OfProcess(const std::string& name, int size) {
  static std::mutex* const mutex = new std::mutex;
  static auto* const groups = new std::map<std::string, std::shared_ptr<AllToAllGroup>>;
  std::lock_guard<std::mutex> lock(*mutex);
  std::shared_ptr<AllToAllGroup>& group = (*groups)[name];
  if (group == nullptr) group = std::make_shared<AllToAllGroup>(size);
  return group;
}

AllToAllGroup::Call AllToAllGroup::NewCall(const std::string& name, int rank) {
  std::lock_guard<std::mutex> lock(mutex_);
  return Call{name, rank, ++last_id_};
}

void AllToAllGroup::Send(const Call& call, Message message, int64_t timeout_millis, Done done) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!failed_.ok()) {
    const absl::Status failed = failed_;
    lock.unlock();
    return done(failed, {});
  }
  Exchange& exchange = exchanges_[call.name];
  if (exchange.ranks.empty()) {
    exchange.ranks.resize(size_);
    exchange.id = call.id;
    if (timeout_millis > 0) {
      const std::weak_ptr<AllToAllGroup> weak = shared_from_this();
      const auto give_up = [weak, call, timeout_millis] {
        const std::shared_ptr<AllToAllGroup> group = weak.lock();
        if (group != nullptr) group->TimeOut(call.name, call.id, timeout_millis);
      };
      exchange.deadline = DeadlineTimer::Process().Schedule(
          DeadlineTimer::Clock::now() + std::chrono::milliseconds(timeout_millis), give_up);
    }
  }
  Waiting& waiting = exchange.ranks[call.rank];
  if (waiting.id != 0) {
    lock.unlock();
    return done(absl::InvalidArgumentError(
                    absl::StrCat("rank ", call.rank, " sends message '", call.name,
                                 "' while an earlier one of that name waits for other ranks; give "
                                 "each its own name")),
                {});
  }
  waiting.id = call.id;
  waiting.message = std::move(message);
  waiting.done = std::move(done);
  if (++exchange.arrived < size_) return;
  Exchange complete = std::move(exchange);
  exchanges_.erase(call.name);
  const absl::Status same = Compare(call.name, complete);
  if (!same.ok() && failed_.ok()) failed_ = same;
  lock.unlock();
  Finish(same, &complete);
  if (!same.ok()) Fail(same);
}

void AllToAllGroup::Cancel(const Call& call) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = exchanges_.find(call.name);
    if (found == exchanges_.end() || found->second.ranks[call.rank].id != call.id) return;
  }
  Fail(absl::UnknownError(absl::StrCat("rank ", call.rank, " was cancelled while message '",
                                       call.name, "' waited for other ranks")));
}

void AllToAllGroup::Fail(const absl::Status& error) {
  std::map<std::string, Exchange> failed;
  absl::Status first;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (failed_.ok()) failed_ = error;
    first = failed_;
    failed.swap(exchanges_);
  }
  for (auto& exchange : failed) Finish(first, &exchange.second);
}

void AllToAllGroup::TimeOut(const std::string& name, uint64_t id, int64_t timeout_millis) {
  std::string missing;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = exchanges_.find(name);
    if (found == exchanges_.end() || found->second.id != id) return;
    for (int rank = 0; rank < size_; ++rank) {
      if (found->second.ranks[rank].id != 0) continue;
      absl::StrAppend(&missing, missing.empty() ? "" : ", ", rank);
    }
  }
  Fail(absl::DeadlineExceededError(absl::StrCat("message '", name, "' has waited ", timeout_millis,
                                                " ms for ranks ", missing, " of ", size_)));
}

absl::Status AllToAllGroup::Compare(const std::string& name, const Exchange& exchange) {
  const std::string& first = exchange.ranks[0].message.kind;
  for (size_t rank = 1; rank < exchange.ranks.size(); ++rank) {
    const std::string& other = exchange.ranks[rank].message.kind;
    if (other == first) continue;
    return absl::InvalidArgumentError(absl::StrCat("in message '", name, "' rank 0 sends ", first,
                                                   " and rank ", rank, " ", other,
                                                   "; need the same"));
  }
  return absl::OkStatus();
}

void AllToAllGroup::Finish(const absl::Status& status, Exchange* exchange) {
  DeadlineTimer::Process().Cancel(exchange->deadline);
  std::vector<Message> messages;
  for (Waiting& waiting : exchange->ranks) messages.push_back(std::move(waiting.message));
  for (Waiting& waiting : exchange->ranks) {
    if (waiting.id != 0) waiting.done(status, messages);
  }
}

}  // namespace graph_opt

extern "C" __attribute__((visibility("default"))) void graph_opt_fail_in_process_group(
    const char* group, int32_t size, int32_t rank, const char* error) {
  graph_opt::AllToAllGroup::OfProcess(group, size)
      ->Fail(absl::UnknownError(absl::StrCat("rank ", rank, " ", error)));
}
