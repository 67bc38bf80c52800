// Which cancellations of calls are kept until the calls are sent.

#include "requests/unsent_calls.h"

#include <cstdint>
#include <thread>

#include "functors_testing.h"

namespace graph_opt {
namespace {

constexpr int kTasks = 6;

// The calls of a step, each with other members beside it.
struct Step {
  struct Call {
    char options[40];
    char others[48];
  };

  const void* call(int number) const { return calls[number].options; }

  void Number() const {
    for (int i = 0; i < kTasks; ++i) UnsentCalls::NoteMade(call(i));
    for (int i = 0; i < kTasks; ++i) UnsentCalls::NoteNumbered();
  }

  void Cancel() const {
    for (int i = 0; i < kTasks; ++i) UnsentCalls::NoteCancelled(call(i));
  }

  // Sends calls from this one on; returns how many of them were cancelled before.
  int Send(int first = 0) const {
    int cancelled = 0;
    for (int i = first; i < kTasks; ++i) cancelled += UnsentCalls::NoteSent(call(i));
    return cancelled;
  }

  Call calls[kTasks];
};

void TestCallsThatAreSentLateAreCancelled() {
  const Step step = {};
  for (int sent = 0; sent < kTasks; ++sent) {
    step.Number();
    for (int i = 0; i < sent; ++i) CHECK(!UnsentCalls::NoteSent(step.call(i)));
    std::thread([&] { step.Cancel(); }).join();
    CHECK(step.Send(sent) == kTasks - sent);
  }
}

void TestStepsDoNotCancelEachOther() {
  const Step failed = {};
  const Step other = {};
  failed.Number();
  std::thread([&] {
    other.Number();
    failed.Cancel();
    CHECK(other.Send() == 0);
    other.Number();
    CHECK(other.Send() == 0);
  }).join();
  CHECK(failed.Send() == kTasks);
}

void TestAStepInTheSameMemoryBeginsAnew() {
  const Step step = {};
  step.Number();
  step.Cancel();
  step.Number();
  CHECK(step.Send() == 0);
  step.Cancel();  // It was sent: TensorFlow does the rest.
  step.Number();
  CHECK(step.Send() == 0);
  step.Number();
  step.Cancel();
  std::thread([&] {
    step.Number();
    CHECK(step.Send() == 0);
  }).join();
  CHECK(step.Send() == 0);
}

// As what receives tensors does: one call, which is used again.
void TestSingleCallsAreLeftToTensorFlow() {
  const Step step = {};
  const void* const call = step.call(0);
  UnsentCalls::NoteMade(call);
  for (int i = 0; i < 3; ++i) {
    UnsentCalls::NoteNumbered();
    UnsentCalls::NoteCancelled(call);
    CHECK(!UnsentCalls::NoteSent(call));
  }
  // Those that lie elsewhere are no elements of one array.
  for (int i = 0; i < 3; ++i) UnsentCalls::NoteMade(&step.calls[i % 2]);
  UnsentCalls::NoteNumbered();
  step.Cancel();
  CHECK(step.Send() == 0);
}

void TestManyMastersAtOnce() {
  std::thread threads[4];
  for (std::thread& thread : threads) {
    thread = std::thread([] {
      const Step step = {};
      for (int i = 0; i < 2000; ++i) {
        step.Number();
        std::thread canceller;
        if (i % 100 == 0) canceller = std::thread([&] { step.Cancel(); });
        const int cancelled = step.Send();
        CHECK(cancelled == 0 || canceller.joinable());
        if (canceller.joinable()) canceller.join();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace graph_opt

int main() {
  graph_opt::TestCallsThatAreSentLateAreCancelled();
  graph_opt::TestStepsDoNotCancelEachOther();
  graph_opt::TestAStepInTheSameMemoryBeginsAnew();
  graph_opt::TestSingleCallsAreLeftToTensorFlow();
  graph_opt::TestManyMastersAtOnce();
  return 0;
}
