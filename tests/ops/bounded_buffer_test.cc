// What puts, takes and the calls that control a buffer do, without TensorFlow.

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "bounded_buffer_testing.h"

namespace graph_opt {
namespace {

void ElementsLeaveInOrderOfArrival() {
  auto buffer = MakeBuffer(3);
  for (int i = 0; i < 3; ++i) CHECK(GetNow(Put(buffer.get(), i)).ok());
  CHECK(buffer->Size() == 3);
  for (int i = 0; i < 3; ++i) CHECK(GetNow(Take(buffer.get())).number == i);
  CHECK(buffer->Size() == 0);
}

void PutWaitsForRoom() {
  auto buffer = MakeBuffer(1);
  CHECK(GetNow(Put(buffer.get(), 0)).ok());
  std::future<absl::Status> second = Put(buffer.get(), 1);
  std::future<absl::Status> third = Put(buffer.get(), 2);
  CHECK(!Ready(second) && !Ready(third));
  CHECK(GetNow(Take(buffer.get())).number == 0);
  CHECK(GetNow(std::move(second)).ok() && !Ready(third));
  CHECK(GetNow(Take(buffer.get())).number == 1);
  CHECK(GetNow(Take(buffer.get())).number == 2);
}

void WaitingTakesAreServedFirstComeFirstServed() {
  auto buffer = MakeBuffer(1);
  std::vector<std::future<Outcome>> takes;
  for (int i = 0; i < 5; ++i) takes.push_back(Take(buffer.get()));
  for (int i = 0; i < 5; ++i) {
    CHECK(!Ready(takes[i]));
    CHECK(GetNow(Put(buffer.get(), i)).ok());
    CHECK(GetNow(std::move(takes[i])).number == i);
  }
}

void PeekLeavesWhatItGets() {
  auto buffer = MakeBuffer(1);
  std::promise<int> waiting;
  buffer->Peek(Options(), [&](const absl::Status& status, Batch batch) {
    waiting.set_value(status.ok() ? batch.number : -1);
  });
  std::future<Outcome> take = Take(buffer.get());
  CHECK(GetNow(Put(buffer.get(), 7)).ok());
  CHECK(GetNow(waiting.get_future()) == 7);
  CHECK(GetNow(std::move(take)).number == 7);
  CHECK(buffer->Metrics().take_count == 1);
  buffer->Cancel(absl::DataLossError("torn"));
  buffer->Peek(Options(), [&](const absl::Status& status, Batch) {
    CHECK(status.code() == absl::StatusCode::kDataLoss);
  });
}

void CloseDrains() {
  auto buffer = MakeBuffer(1);
  CHECK(GetNow(Put(buffer.get(), 0)).ok());
  std::future<absl::Status> waiting = Put(buffer.get(), 1);
  buffer->Close();
  const absl::Status refused = GetNow(Put(buffer.get(), 2));
  CHECK(refused.code() == absl::StatusCode::kCancelled);
  CHECK(refused.message() == "node: buffer 'b' is closed");
  CHECK(GetNow(Take(buffer.get())).number == 0);
  CHECK(GetNow(std::move(waiting)).ok());
  CHECK(GetNow(Take(buffer.get())).number == 1);
  const absl::Status end = GetNow(Take(buffer.get())).status;
  CHECK(end.code() == absl::StatusCode::kOutOfRange);
  CHECK(end.message() == "buffer 'b' is closed and has no elements left");
}

void CloseEndsWaitingTakes() {
  auto buffer = MakeBuffer(1);
  std::future<Outcome> take = Take(buffer.get());
  buffer->Close();
  CHECK(GetNow(std::move(take)).status.code() == absl::StatusCode::kOutOfRange);
}

void CancelTellsTheFirstErrorToAll() {
  auto full = MakeBuffer(1);
  CHECK(GetNow(Put(full.get(), 0)).ok());
  std::future<absl::Status> put = Put(full.get(), 1);
  full->Cancel(absl::DataLossError("row 17 is torn"));
  full->Cancel(absl::CancelledError("later"));
  full->Close();
  for (const absl::Status& status :
       {GetNow(std::move(put)), GetNow(Put(full.get(), 2)), GetNow(Take(full.get())).status}) {
    CHECK(status.code() == absl::StatusCode::kDataLoss);
    CHECK(status.message() == "row 17 is torn");
  }
  CHECK(full->Size() == 0);
  CHECK(full->Metrics().cancelled == 1);

  auto empty = MakeBuffer(1);
  std::future<Outcome> take = Take(empty.get());
  empty->Cancel(absl::DataLossError("row 17 is torn"));
  CHECK(GetNow(std::move(take)).status.code() == absl::StatusCode::kDataLoss);
}

void ResumeOpensAnew() {
  auto buffer = MakeBuffer(1);
  CHECK(GetNow(Put(buffer.get(), 0)).ok());
  std::future<absl::Status> stale = Put(buffer.get(), 1);
  buffer->Resume(1, 0);
  CHECK(GetNow(std::move(stale)).code() == absl::StatusCode::kCancelled);
  CHECK(buffer->Size() == 0);
  std::future<Outcome> take = Take(buffer.get());
  buffer->Resume(1, 0);
  CHECK(!Ready(take));  // it may be main's, which arrived before the runner
  CHECK(GetNow(Put(buffer.get(), 2)).ok());
  CHECK(GetNow(std::move(take)).number == 2);
  for (int i = 0; i < 2; ++i) {
    buffer->Close();
    buffer->Cancel(absl::DataLossError("torn"));
    buffer->Resume(1, 0);
    CHECK(GetNow(Put(buffer.get(), i)).ok());
    CHECK(GetNow(Take(buffer.get())).number == i);
  }
}

void ResumeSetsTheCapacity() {
  auto buffer = MakeBuffer(1);
  buffer->Resume(2, 0);
  CHECK(buffer->capacity() == 2);
  for (int i = 0; i < 2; ++i) CHECK(GetNow(Put(buffer.get(), i)).ok());
  CHECK(!Ready(Put(buffer.get(), 2)));
}

void ResizeLetsWaitingPutsIn() {
  auto buffer = MakeBuffer(1);
  std::vector<std::future<absl::Status>> puts;
  for (int i = 0; i < 3; ++i) puts.push_back(Put(buffer.get(), i));
  buffer->Resize(2);
  CHECK(Ready(puts[1]) && !Ready(puts[2]));
  buffer->Resize(1);
  CHECK(GetNow(Take(buffer.get())).number == 0);
  CHECK(buffer->Size() == 1 && !Ready(puts[2]));
  CHECK(GetNow(Take(buffer.get())).number == 1);
  CHECK(Ready(puts[2]) && buffer->Metrics().capacity == 1);
  CHECK(GetNow(Take(buffer.get())).number == 2);
}

void ASmallerCapacityNeverBlocksThePlacesAhead() {
  auto buffer = MakeBuffer(3);
  buffer->Resume(3, 0);
  std::future<absl::Status> last = Put(buffer.get(), 2, 2);
  CHECK(Ready(last));
  buffer->Resize(1);
  CHECK(GetNow(Put(buffer.get(), 1, 1)).ok() && GetNow(Put(buffer.get(), 0, 0)).ok());
  std::future<absl::Status> next = Put(buffer.get(), 3, 3);
  for (int i = 0; i < 4; ++i) {
    CHECK(Ready(next) == (i == 3));
    CHECK(GetNow(Take(buffer.get())).number == i);
  }
}

void DeadlinesFailWhatWaits() {
  auto buffer = MakeBuffer(1);
  const absl::Status take = Get(Take(buffer.get(), Options(10))).status;
  CHECK(take.code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(take.message().find(
            "node: waited timeout_millis = 10 ms for buffer 'b', which holds 0 of 1") == 0);
  CHECK(GetNow(Put(buffer.get(), 0)).ok());
  CHECK(Get(Put(buffer.get(), 1, kNoPlace, Options(10))).code() ==
        absl::StatusCode::kDeadlineExceeded);
  CHECK(GetNow(Take(buffer.get())).number == 0);
  std::future<Outcome> nothing_left = Take(buffer.get(), Options(60000));
  CHECK(!Ready(nothing_left));
  CHECK(GetNow(Put(buffer.get(), 2)).ok());
  CHECK(GetNow(std::move(nothing_left)).number == 2);
}

void EarlierDeadlineOvertakesALaterOne() {
  auto buffer = MakeBuffer(1);
  std::future<Outcome> late = Take(buffer.get(), Options(60000));
  CHECK(Get(Take(buffer.get(), Options(10))).status.code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(!Ready(late));
  CHECK(GetNow(Put(buffer.get(), 0)).ok());
  CHECK(GetNow(std::move(late)).number == 0);
}

CallOptions Grace(int64_t millis) {
  CallOptions options = Options();
  options.runner_grace_millis = millis;
  return options;
}

void TakeOfABufferThatNothingFeedsFails() {
  auto buffer = MakeBuffer(1);
  const absl::Status status = Get(Take(buffer.get(), Grace(10))).status;
  CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(status.message().find("make_prefetch_hook") != std::string::npos);
}

void TakeOfAFedBufferWaitsOnAfterTheGrace() {
  auto buffer = MakeBuffer(1);
  std::future<Outcome> before_runner = Take(buffer.get(), Grace(10));
  buffer->Resume(1, 0);
  std::future<Outcome> after_runner = Take(buffer.get(), Grace(10));
  CHECK(Get(Take(buffer.get(), Options(50))).status.code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(!Ready(before_runner) && !Ready(after_runner));
  buffer->Close();
  CHECK(GetNow(std::move(before_runner)).status.code() == absl::StatusCode::kOutOfRange);
  CHECK(GetNow(std::move(after_runner)).status.code() == absl::StatusCode::kOutOfRange);
}

void CallersGiveUp() {
  auto buffer = MakeBuffer(1);
  Caller taker;
  std::future<Outcome> take = Take(buffer.get(), taker.Options());
  taker.GiveUp();
  const absl::Status status = GetNow(std::move(take)).status;
  CHECK(status.code() == absl::StatusCode::kCancelled);
  CHECK(status.message() == "node: the step was cancelled while it waited for buffer 'b'");
  CHECK(GetNow(Take(buffer.get(), taker.Options())).status.code() == absl::StatusCode::kCancelled);
  CHECK(GetNow(Put(buffer.get(), 0)).ok());
  CHECK(buffer->Size() == 1);  // it was not given to a caller that had given up

  Caller putter;
  std::future<absl::Status> put = Put(buffer.get(), 1, kNoPlace, putter.Options());
  std::future<absl::Status> behind = Put(buffer.get(), 2);
  putter.GiveUp();
  CHECK(GetNow(std::move(put)).code() == absl::StatusCode::kCancelled);
  CHECK(GetNow(Take(buffer.get())).number == 0);
  CHECK(GetNow(std::move(behind)).ok());
  CHECK(GetNow(Take(buffer.get())).number == 2);
  CHECK(taker.armed == 1 && taker.disarmed == 1 && putter.armed == 1 && putter.disarmed == 1);
}

void GivingUpLateChangesNothing() {
  auto buffer = MakeBuffer(1);
  Caller caller;
  std::future<Outcome> take = Take(buffer.get(), caller.Options());
  CHECK(GetNow(Put(buffer.get(), 7)).ok());
  caller.GiveUp();
  CHECK(GetNow(std::move(take)).number == 7);
  CHECK(caller.disarmed == 1);
  Caller orphan;
  take = Take(buffer.get(), orphan.Options());
  CHECK(GetNow(Put(buffer.get(), 8)).ok());
  buffer = nullptr;
  orphan.GiveUp();
  CHECK(GetNow(std::move(take)).number == 8);
}

void CallbacksAndDyingElementsMayCallTheBuffer() {
  auto buffer = MakeBuffer(1);
  std::atomic<int> deaths(0);
  auto batch = [&] {
    Batch made;
    made.at_death = std::shared_ptr<void>(nullptr, [&](void*) {
      buffer->Size();
      ++deaths;
    });
    return made;
  };
  CHECK(GetNow(PutBatch(buffer.get(), batch())).ok());
  std::future<absl::Status> waiting = PutBatch(buffer.get(), batch());
  buffer->Cancel(absl::CancelledError("stop"));
  CHECK(deaths == 2);
  buffer->Resume(1, 0);
  CHECK(GetNow(PutBatch(buffer.get(), batch())).ok());
  buffer->Resume(1, 0);
  CHECK(deaths == 3);
  bool called = false;
  buffer->Take(Options(),
               [&](const absl::Status&, Batch) { called = buffer->Metrics().take_count == 1; });
  CHECK(GetNow(PutBatch(buffer.get(), batch())).ok());
  CHECK(called && deaths == 4);
}

void ErrorsLeaveInOrderOnceAndWaitForRoom() {
  auto buffer = MakeBuffer(2);
  CHECK(GetNow(Put(buffer.get(), 0)).ok());
  CHECK(GetNow(PutError(buffer.get(), "row 1 is torn")).ok());
  std::future<absl::Status> next = PutError(buffer.get(), "row 2 is torn");
  CHECK(!Ready(next) && buffer->Size() == 2);
  CHECK(GetNow(Take(buffer.get())).number == 0);
  CHECK(GetNow(std::move(next)).ok());
  CHECK(GetNow(Take(buffer.get())).status.message() == "row 1 is torn");
  const absl::Status second = GetNow(Take(buffer.get())).status;
  CHECK(second.code() == absl::StatusCode::kDataLoss && second.message() == "row 2 is torn");
  CHECK(GetNow(Put(buffer.get(), 3)).ok());
  CHECK(GetNow(Take(buffer.get())).number == 3);
  const BufferMetrics metrics = buffer->Metrics();
  CHECK(metrics.errors == 2 && metrics.put_count == 4 && metrics.take_count == 4);
  buffer->Close();
  CHECK(GetNow(PutError(buffer.get(), "late")).code() == absl::StatusCode::kCancelled);
}

void MetricsCountWhatHappened() {
  auto buffer = MakeBuffer(1);
  CHECK(Get(Take(buffer.get(), Options(20))).status.code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(GetNow(Put(buffer.get(), 0)).ok());
  std::future<absl::Status> waiting = Put(buffer.get(), 1);
  BufferMetrics metrics = buffer->Metrics();
  CHECK(metrics.capacity == 1 && metrics.size == 1 && metrics.put_count == 1);
  CHECK(metrics.take_waits == 1 && metrics.take_wait_micros >= 20000);
  CHECK(metrics.put_waits == 1 && metrics.pending_puts == 1 && metrics.pending_takes == 0);
  for (int i = 0; i < 2; ++i) CHECK(GetNow(Take(buffer.get())).number == i);
  std::future<Outcome> take = Take(buffer.get());
  CHECK(buffer->Metrics().pending_takes == 1);
  buffer->Close();
  metrics = buffer->Metrics();
  CHECK(metrics.put_count == 2 && metrics.take_count == 2 && metrics.taken_bytes == 16);
  CHECK(metrics.closed == 1 && metrics.cancelled == 0 && metrics.pending_takes == 0);
  CHECK(metrics.largest_bytes == 8);
  CHECK(metrics.take_waits == 2);
}

const Test kTests[] = {
    TEST(ElementsLeaveInOrderOfArrival),
    TEST(PutWaitsForRoom),
    TEST(WaitingTakesAreServedFirstComeFirstServed),
    TEST(PeekLeavesWhatItGets),
    TEST(CloseDrains),
    TEST(CloseEndsWaitingTakes),
    TEST(CancelTellsTheFirstErrorToAll),
    TEST(ResumeOpensAnew),
    TEST(ResumeSetsTheCapacity),
    TEST(ResizeLetsWaitingPutsIn),
    TEST(ASmallerCapacityNeverBlocksThePlacesAhead),
    TEST(DeadlinesFailWhatWaits),
    TEST(EarlierDeadlineOvertakesALaterOne),
    TEST(TakeOfABufferThatNothingFeedsFails),
    TEST(TakeOfAFedBufferWaitsOnAfterTheGrace),
    TEST(CallersGiveUp),
    TEST(GivingUpLateChangesNothing),
    TEST(CallbacksAndDyingElementsMayCallTheBuffer),
    TEST(ErrorsLeaveInOrderOnceAndWaitForRoom),
    TEST(MetricsCountWhatHappened),
};

}  // namespace
}  // namespace graph_opt

int main(int count, char** arguments) {
  return graph_opt::RunTests(graph_opt::kTests, count, arguments);
}
