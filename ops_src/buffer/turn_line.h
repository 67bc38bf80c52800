#ifndef GRAPH_OPT_BUFFER_TURN_LINE_H_
#define GRAPH_OPT_BUFFER_TURN_LINE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "buffer/open_places.h"
#include "buffer/pending_call.h"

namespace graph_opt {

// Lets the steps of a stage draw from its sources in the order of their places, one at a time.
//
//   step 0   [draw]End  [parse ..........][put]
//   step 1   Await.....[draw]End  [parse ....][put]
//
// Every call returns at once; Await ends with its callback, exactly once, without any lock held.
// Must be held by a shared_ptr.
class TurnLine : public std::enable_shared_from_this<TurnLine> {
 public:
  using Callback = std::function<void(const absl::Status&)>;

  explicit TurnLine(std::string name) : name_(std::move(name)) {}

  // Waits until the turns of all earlier places have ended.
  void Await(int64_t place, CallOptions options, Callback done) {
    auto turn = std::make_shared<PendingTurn>(std::move(options), place, std::move(done));
    Locked([&](Ended* ended) {
      if (!cancel_status_.ok()) return End(turn, cancel_status_, ended);
      if (place < first_place_) return End(turn, Restarted(), ended);
      waiting_.emplace(place, turn);
      Serve(ended);
      if (!turn->ended) Arm(turn, ended);
    });
  }

  // Whether the turn of this place has begun.
  bool HasBegun(int64_t place) {
    std::lock_guard<std::mutex> lock(mutex_);
    return place <= last_begun_;
  }

  // The turn of this place is over, or will never come. Has no effect when repeated, or for a place
  // from before the last restart.
  void End(int64_t place) {
    Locked([&](Ended* ended) {
      if (open_.Settle(place)) Serve(ended);
    });
  }

  // Fails waiting and later calls with the first such status until Restart.
  void Cancel(const absl::Status& status) {
    Locked([&](Ended* ended) {
      if (cancel_status_.ok()) cancel_status_ = status;
      EndAll(cancel_status_, ended);
    });
  }

  // Counts places from `first` on.
  void Restart(int64_t first) {
    Locked([&](Ended* ended) {
      cancel_status_ = absl::OkStatus();
      first_place_ = first;
      last_begun_ = first - 1;
      open_ = OpenPlaces(first);
      EndAll(Restarted(), ended);
    });
  }

 private:
  class PendingTurn : public PendingCall {
   public:
    PendingTurn(CallOptions options, int64_t place, Callback done)
        : PendingCall(std::move(options)), place(place), done_(std::move(done)) {}

    const int64_t place;

   private:
    void RunCallback() override { done_(this->status); }
    Callback done_;
  };
  using Ended = std::vector<std::shared_ptr<PendingTurn>>;

  template <typename Action>
  void Locked(Action action) {
    Ended ended;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      action(&ended);
    }
    for (const auto& turn : ended) turn->Finish();
  }

  // Everything below is called with the lock held.

  void Serve(Ended* ended) {
    while (!waiting_.empty() && waiting_.begin()->first <= open_.lowest()) {
      const std::shared_ptr<PendingTurn> turn = waiting_.begin()->second;
      waiting_.erase(waiting_.begin());
      last_begun_ = std::max(last_begun_, turn->place);
      End(turn, absl::OkStatus(), ended);
    }
  }

  void End(const std::shared_ptr<PendingTurn>& turn, const absl::Status& status, Ended* ended) {
    turn->ended = true;
    turn->status = status;
    ended->push_back(turn);
  }

  void EndAll(const absl::Status& status, Ended* ended) {
    for (const auto& turn : waiting_) End(turn.second, status, ended);
    waiting_.clear();
  }

  // The step may be cancelled while it waits.
  void Arm(const std::shared_ptr<PendingTurn>& turn, Ended* ended) {
    if (turn->options.interruption == nullptr) return;
    std::weak_ptr<TurnLine> weak_line = this->shared_from_this();
    std::weak_ptr<PendingTurn> weak_turn = turn;
    turn->armed = turn->options.interruption->Arm([weak_line, weak_turn] {
      const std::shared_ptr<TurnLine> line = weak_line.lock();
      const std::shared_ptr<PendingTurn> turn = weak_turn.lock();
      if (line == nullptr || turn == nullptr) return;
      line->Locked([&](Ended* ended) { line->Interrupt(turn, ended); });
    });
    if (!turn->armed) Interrupt(turn, ended);
  }

  void Interrupt(const std::shared_ptr<PendingTurn>& turn, Ended* ended) {
    if (turn->ended) return;
    const auto same_place = waiting_.equal_range(turn->place);
    for (auto it = same_place.first; it != same_place.second;) {
      it = it->second == turn ? waiting_.erase(it) : std::next(it);
    }
    End(turn,
        absl::CancelledError(absl::StrCat(
            *turn->options.caller,
            ": the step was cancelled while it waited for its turn in stage '", name_, "'")),
        ended);
  }

  absl::Status Restarted() const {
    return absl::CancelledError(absl::StrCat("stage '", name_, "' was resumed"));
  }

  const std::string name_;

  std::mutex mutex_;  // guards all below
  OpenPlaces open_;
  int64_t first_place_ = 0;  // earlier ones belong to steps from before a restart
  int64_t last_begun_ = -1;
  std::multimap<int64_t, std::shared_ptr<PendingTurn>> waiting_;
  absl::Status cancel_status_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_BUFFER_TURN_LINE_H_
