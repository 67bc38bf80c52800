// Places and turns, and buffers under many threads, without TensorFlow.

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bounded_buffer_testing.h"
#include "buffer/turn_line.h"

namespace graph_opt {
namespace {

std::future<absl::Status> Await(TurnLine* turns, int64_t place, CallOptions options = Options()) {
  auto promise = std::make_shared<std::promise<absl::Status>>();
  turns->Await(place, std::move(options),
               [promise](const absl::Status& status) { promise->set_value(status); });
  return promise->get_future();
}

void CloseEndsTakesWhenTheLastWaitingPutGivesUp() {
  auto buffer = MakeBuffer(2);
  std::future<absl::Status> third = Put(buffer.get(), 2, 2, Options(20));
  std::future<Outcome> take = Take(buffer.get());
  buffer->Close();
  CHECK(!Ready(take));
  CHECK(Get(std::move(third)).code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(Get(std::move(take)).status.code() == absl::StatusCode::kOutOfRange);
}

void PlacesKeepTheOrderAndTheSlotsAhead() {
  auto buffer = MakeBuffer(2);
  std::future<absl::Status> put3 = Put(buffer.get(), 3, 3);
  std::future<absl::Status> put2 = Put(buffer.get(), 2, 2);
  CHECK(!Ready(put3) && !Ready(put2));  // two batches precede 2: their slots stay free
  CHECK(GetNow(Put(buffer.get(), 1, 1)).ok());
  std::future<Outcome> take = Take(buffer.get());
  CHECK(!Ready(take) && buffer->Size() == 1);
  CHECK(GetNow(Put(buffer.get(), 0, 0)).ok());
  CHECK(GetNow(std::move(take)).number == 0);
  CHECK(GetNow(std::move(put2)).ok() && !Ready(put3));
  CHECK(GetNow(Take(buffer.get())).number == 1);
  CHECK(GetNow(std::move(put3)).ok());
  CHECK(GetNow(Take(buffer.get())).number == 2);
  CHECK(GetNow(Take(buffer.get())).number == 3);
}

void SkippedPlacesHoldUpNobody() {
  auto buffer = MakeBuffer(2);
  CHECK(GetNow(Put(buffer.get(), 1, 1)).ok());
  std::future<absl::Status> put2 = Put(buffer.get(), 2, 2);
  std::future<Outcome> take = Take(buffer.get());
  CHECK(!Ready(take) && !Ready(put2));
  buffer->Skip(0);
  CHECK(GetNow(std::move(take)).number == 1);
  CHECK(GetNow(std::move(put2)).ok());
  CHECK(GetNow(Take(buffer.get())).number == 2);
  buffer->Skip(2);  // already put: nothing happens
  CHECK(buffer->Metrics().dropped == 1);
}

void ErrorsStandInTheirPlaces() {
  auto buffer = MakeBuffer(3);
  CHECK(GetNow(PutError(buffer.get(), "row 2 is torn", 2)).ok());
  CHECK(GetNow(PutError(buffer.get(), "row 1 is torn", 1)).ok());
  std::future<Outcome> take = Take(buffer.get());
  std::future<absl::Status> full = PutError(buffer.get(), "row 3 is torn", 3);
  CHECK(!Ready(take) && !Ready(full));
  CHECK(GetNow(Put(buffer.get(), 0, 0)).ok());
  CHECK(GetNow(std::move(take)).number == 0);
  CHECK(GetNow(std::move(full)).ok());
  for (const char* row : {"row 1", "row 2", "row 3"}) {
    CHECK(GetNow(Take(buffer.get())).status.message() == std::string(row) + " is torn");
  }
}

void PutThatGaveUpLeavesItsPlaceToAnError() {
  auto buffer = MakeBuffer(1);
  CHECK(GetNow(Put(buffer.get(), -1)).ok());
  Caller caller;
  std::future<absl::Status> put0 = Put(buffer.get(), 0, 0, caller.Options());
  std::future<absl::Status> put1 = Put(buffer.get(), 1, 1);
  caller.GiveUp();
  CHECK(GetNow(std::move(put0)).code() == absl::StatusCode::kCancelled);
  std::future<absl::Status> error = PutError(buffer.get(), "gave up", 0);
  CHECK(GetNow(Take(buffer.get())).number == -1);
  CHECK(GetNow(std::move(error)).ok() && !Ready(put1));
  CHECK(GetNow(Take(buffer.get())).status.message() == "gave up");
  CHECK(GetNow(std::move(put1)).ok());
  CHECK(GetNow(Take(buffer.get())).number == 1);
}

void PlacesOfBeforeAResumeAreRefused() {
  auto buffer = MakeBuffer(2);
  buffer->Resume(2, 100);
  CHECK(GetNow(Put(buffer.get(), 101, 101)).ok());
  std::future<absl::Status> put103 = Put(buffer.get(), 103, 103);
  CHECK(!Ready(put103));
  buffer->Resume(2, 200);
  CHECK(GetNow(std::move(put103)).code() == absl::StatusCode::kCancelled);
  CHECK(GetNow(Put(buffer.get(), 102, 102)).code() == absl::StatusCode::kCancelled);
  CHECK(GetNow(PutError(buffer.get(), "stale", 102)).code() == absl::StatusCode::kCancelled);
  buffer->Skip(102);
  CHECK(GetNow(Put(buffer.get(), 201, 201)).ok());
  CHECK(GetNow(Put(buffer.get(), 200, 200)).ok());
  for (int number : {200, 201}) CHECK(GetNow(Take(buffer.get())).number == number);
  CHECK(buffer->Metrics().dropped == 0);
}

void PlacesAreTakenOnce() {
  auto buffer = MakeBuffer(3);
  CHECK(GetNow(Put(buffer.get(), 0, 0)).ok());
  const absl::Status again = GetNow(Put(buffer.get(), 7, 0));
  CHECK(again.code() == absl::StatusCode::kCancelled);
  CHECK(again.message().find("node: place 0 of buffer 'b' is settled") == 0);
  CHECK(GetNow(Put(buffer.get(), 1, 1)).ok());
  for (int number : {0, 1}) CHECK(GetNow(Take(buffer.get())).number == number);
}

void PutsWithoutAPlaceLeaveTheSlotsAheadFree() {
  auto buffer = MakeBuffer(2);
  CHECK(GetNow(Put(buffer.get(), 1, 1)).ok());  // and a slot for 0
  std::future<absl::Status> plain = Put(buffer.get(), 99);
  CHECK(!Ready(plain));
  CHECK(GetNow(Put(buffer.get(), 0, 0)).ok());
  for (int number : {0, 1}) CHECK(GetNow(Take(buffer.get())).number == number);
  CHECK(GetNow(std::move(plain)).ok());
  CHECK(GetNow(Take(buffer.get())).number == 99);
}

void TurnsComeOneAfterAnother() {
  auto turns = std::make_shared<TurnLine>("s");
  std::future<absl::Status> second = Await(turns.get(), 1);
  std::future<absl::Status> fourth = Await(turns.get(), 3);
  CHECK(!turns->HasBegun(0));
  CHECK(GetNow(Await(turns.get(), 0)).ok() && !Ready(second));
  CHECK(turns->HasBegun(0) && !turns->HasBegun(1));
  turns->End(0);
  CHECK(GetNow(std::move(second)).ok() && turns->HasBegun(1));
  turns->End(2);  // it never arrived: its step failed earlier
  CHECK(!Ready(fourth) && !turns->HasBegun(3));
  turns->End(1);
  turns->End(1);
  CHECK(GetNow(std::move(fourth)).ok());
}

void TurnsEndWithTheStepTheStageAndTheRunner() {
  auto turns = std::make_shared<TurnLine>("s");
  Caller caller;
  std::future<absl::Status> second = Await(turns.get(), 1, caller.Options());
  std::future<absl::Status> third = Await(turns.get(), 2);
  caller.GiveUp();
  const absl::Status status = GetNow(std::move(second));
  CHECK(status.code() == absl::StatusCode::kCancelled);
  CHECK(status.message() ==
        "node: the step was cancelled while it waited for its turn in stage 's'");
  CHECK(GetNow(Await(turns.get(), 1, caller.Options())).code() == absl::StatusCode::kCancelled);
  turns->Cancel(absl::DataLossError("torn"));
  turns->Cancel(absl::CancelledError("later"));
  CHECK(GetNow(std::move(third)).message() == "torn");
  CHECK(GetNow(Await(turns.get(), 0)).message() == "torn");
  turns->Restart(10);
  std::future<absl::Status> next = Await(turns.get(), 11);
  CHECK(GetNow(Await(turns.get(), 5)).code() == absl::StatusCode::kCancelled);
  turns->End(5);
  CHECK(turns->HasBegun(9) && !turns->HasBegun(10));
  CHECK(GetNow(Await(turns.get(), 10)).ok() && !Ready(next));
  turns->Restart(20);
  CHECK(GetNow(std::move(next)).code() == absl::StatusCode::kCancelled);
}

// Steps begin in the order of their places and end in random order; some fail, some are skipped.
// Single-threaded, so that a run can be reproduced from its seed.
void AnyOrderOfEventsKeepsTheOrder() {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const int capacity = 1 + random() % 4;
    const int workers = 1 + random() % 6;
    auto buffer = MakeBuffer(capacity);
    std::vector<int> held;
    std::vector<std::future<absl::Status>> puts;
    std::vector<int> taken;
    std::vector<int> expected(60);
    int next = 0;
    auto take_all = [&] {
      while (buffer->Size() > 0) {
        std::future<Outcome> take = Take(buffer.get());
        if (!Ready(take)) return;
        Outcome outcome = take.get();
        taken.push_back(outcome.status.ok() ? outcome.number
                                            : -std::stoi(std::string(outcome.status.message())));
      }
    };
    while (next < 60 || !held.empty()) {
      const unsigned choice = random() % 8;
      size_t waiting = 0;
      for (const auto& put : puts) waiting += !Ready(put);
      if (choice < 4 && next < 60 && static_cast<int>(held.size() + waiting) < workers) {
        held.push_back(next++);
      } else if (!held.empty()) {
        std::swap(held[random() % held.size()], held.back());
        const int place = held.back();
        held.pop_back();
        expected[place] = choice == 7 ? 1000 : choice == 6 ? -place : place;
        if (choice == 7) {
          buffer->Skip(place);
        } else if (choice == 6) {
          puts.push_back(PutError(buffer.get(), std::to_string(place), place));
        } else {
          puts.push_back(Put(buffer.get(), place, place));
        }
      } else {
        take_all();
      }
      CHECK(buffer->Size() <= capacity);
    }
    take_all();
    for (auto& put : puts) CHECK(Get(std::move(put)).ok());
    expected.erase(std::remove(expected.begin(), expected.end(), 1000), expected.end());
    CHECK(taken == expected);
  }
}

// `workers` threads take turns drawing from one source, and fail, skip or give up some batches;
// there is one consumer.
void ThreadsKeepTheOrder() {
  const int batches = 3000;
  const int workers = 4;
  auto buffer = MakeBuffer(2);
  auto turns = std::make_shared<TurnLine>("s");
  int source = 0;  // used only by the thread whose turn it is
  std::atomic<int64_t> places(0);
  std::vector<std::atomic<int>> lost(batches);
  for (auto& flag : lost) flag = 0;
  std::atomic<int> working(workers);
  std::vector<std::thread> threads;
  for (int worker = 0; worker < workers; ++worker) {
    threads.emplace_back([&, worker] {
      std::mt19937 random(worker);
      while (true) {
        const int64_t place = places++;
        CHECK(Get(Await(turns.get(), place)).ok());
        const int number = source++;
        turns->End(place);
        if (number >= batches) {
          buffer->Skip(place);
          break;
        }
        CHECK(number == place);
        for (unsigned i = random() % 20; i > 0; --i) std::this_thread::yield();
        const unsigned choice = random() % 20;
        if (choice == 0) {
          lost[number] = 1;
          buffer->Skip(place);
          continue;
        }
        Caller caller;
        std::future<absl::Status> put = Put(buffer.get(), number, place, caller.Options());
        if (choice == 1) caller.GiveUp();
        if (Get(std::move(put)).ok()) continue;
        lost[number] = 1;
        CHECK(Get(PutError(buffer.get(), "gave up", place)).ok());
      }
      if (--working == 0) buffer->Close();
    });
  }
  std::vector<int> taken;
  std::mt19937 random(99);
  while (true) {
    Caller caller;
    std::future<Outcome> take = Take(buffer.get(), caller.Options());
    if (random() % 4 == 0) caller.GiveUp();
    Outcome outcome = Get(std::move(take));
    CHECK(buffer->Size() <= 2);
    if (outcome.status.code() == absl::StatusCode::kOutOfRange) break;
    if (outcome.status.ok()) taken.push_back(outcome.number);
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<int> expected;
  for (int i = 0; i < batches; ++i) {
    if (!lost[i]) expected.push_back(i);
  }
  CHECK(taken == expected);
}

// Every call ends exactly once while threads put, take, give up, time out, cancel and resume.
void EveryCallEndsOnce() {
  auto buffer = MakeBuffer(2);
  std::atomic<int64_t> places(0);
  std::atomic<int> begun(0);
  std::atomic<int> ended(0);
  std::vector<std::thread> threads;
  for (int kind = 0; kind < 6; ++kind) {
    threads.emplace_back([&, kind] {
      std::mt19937 random(kind);
      for (int i = 0; i < 2000; ++i) {
        Caller caller;
        CallOptions options = caller.Options();
        options.timeout_millis = 1 + random() % 3;
        auto done = std::make_shared<std::promise<void>>();
        std::future<void> finished = done->get_future();
        ++begun;
        if (kind % 2 == 0) {
          buffer->Put(Batch(), random() % 2 ? kNoPlace : places++, std::move(options),
                      [&, done](const absl::Status&) {
                        ++ended;
                        done->set_value();
                      });
        } else {
          buffer->Take(std::move(options), [&, done](const absl::Status&, Batch) {
            ++ended;
            done->set_value();
          });
        }
        if (random() % 5 == 0) caller.GiveUp();
        if (random() % 50 == 0) buffer->Cancel(absl::DataLossError("torn"));
        if (random() % 10 == 0) buffer->Resume(2, places);
        if (random() % 20 == 0) buffer->Skip(places++);
        Get(std::move(finished));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(begun == ended);
  const BufferMetrics metrics = buffer->Metrics();
  CHECK(metrics.pending_puts == 0 && metrics.pending_takes == 0);
}

const Test kTests[] = {
    TEST(CloseEndsTakesWhenTheLastWaitingPutGivesUp),
    TEST(PlacesKeepTheOrderAndTheSlotsAhead),
    TEST(SkippedPlacesHoldUpNobody),
    TEST(ErrorsStandInTheirPlaces),
    TEST(PutThatGaveUpLeavesItsPlaceToAnError),
    TEST(PlacesOfBeforeAResumeAreRefused),
    TEST(PlacesAreTakenOnce),
    TEST(PutsWithoutAPlaceLeaveTheSlotsAheadFree),
    TEST(TurnsComeOneAfterAnother),
    TEST(TurnsEndWithTheStepTheStageAndTheRunner),
    TEST(AnyOrderOfEventsKeepsTheOrder),
    TEST(ThreadsKeepTheOrder),
    TEST(EveryCallEndsOnce),
};

}  // namespace
}  // namespace graph_opt

int main(int count, char** arguments) {
  return graph_opt::RunTests(graph_opt::kTests, count, arguments);
}
