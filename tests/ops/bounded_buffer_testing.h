// Shared by the tests of BoundedBuffer: an element, calls that return futures, callers that quit.

#ifndef GRAPH_OPT_TESTS_BOUNDED_BUFFER_TESTING_H_
#define GRAPH_OPT_TESTS_BOUNDED_BUFFER_TESTING_H_

#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "buffer/bounded_buffer.h"
#include "functors_testing.h"

namespace graph_opt {

struct Batch {
  int64_t ByteSize() const { return 8; }

  int number = -1;
  std::shared_ptr<void> at_death;  // runs something when the element is destroyed
};

using Buffer = BoundedBuffer<Batch>;

struct Outcome {
  absl::Status status;
  int number = -1;
};

inline const std::string& CallerName() {
  static const std::string* const name = new std::string("node");
  return *name;
}

inline CallOptions Options(int64_t timeout_millis = 0) {
  CallOptions options;
  options.caller = &CallerName();
  options.timeout_millis = timeout_millis;
  return options;
}

inline std::shared_ptr<Buffer> MakeBuffer(int64_t capacity) {
  return std::make_shared<Buffer>("b", capacity);
}

inline std::future<absl::Status> PutBatch(Buffer* buffer, Batch batch, int64_t place = kNoPlace,
                                          CallOptions options = Options()) {
  auto promise = std::make_shared<std::promise<absl::Status>>();
  buffer->Put(std::move(batch), place, std::move(options),
              [promise](const absl::Status& status) { promise->set_value(status); });
  return promise->get_future();
}

inline std::future<absl::Status> Put(Buffer* buffer, int number, int64_t place = kNoPlace,
                                     CallOptions options = Options()) {
  Batch batch;
  batch.number = number;
  return PutBatch(buffer, std::move(batch), place, std::move(options));
}

// Puts the error DATA_LOSS with this message.
inline std::future<absl::Status> PutError(Buffer* buffer, const std::string& message,
                                          int64_t place = kNoPlace) {
  auto promise = std::make_shared<std::promise<absl::Status>>();
  buffer->PutError(absl::DataLossError(message), place, Options(),
                   [promise](const absl::Status& status) { promise->set_value(status); });
  return promise->get_future();
}

inline std::future<Outcome> Take(Buffer* buffer, CallOptions options = Options()) {
  auto promise = std::make_shared<std::promise<Outcome>>();
  buffer->Take(std::move(options), [promise](const absl::Status& status, Batch taken) {
    promise->set_value(Outcome{status, taken.number});
  });
  return promise->get_future();
}

template <typename T>
bool Ready(const std::future<T>& future) {
  return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

// Waits up to a minute for the outcome.
template <typename T>
T Get(std::future<T> future) {
  CHECK(future.wait_for(std::chrono::seconds(60)) == std::future_status::ready);
  return future.get();
}

template <typename T>
T GetNow(std::future<T> future) {
  CHECK(Ready(future));
  return future.get();
}

// A caller that gives up when the test says so.
class Caller {
 public:
  CallOptions Options() {
    CallOptions options;
    options.caller = &CallerName();
    options.interruption.reset(new Handle(this));
    return options;
  }

  void GiveUp() {
    std::function<void()> interrupt;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      gave_up_ = true;
      interrupt = interrupt_;
    }
    if (interrupt) interrupt();
  }

  int armed = 0;
  int disarmed = 0;

 private:
  class Handle : public Interruption {
   public:
    explicit Handle(Caller* caller) : caller_(caller) {}
    bool Arm(std::function<void()> interrupt) override {
      std::lock_guard<std::mutex> lock(caller_->mutex_);
      if (caller_->gave_up_) return false;
      ++caller_->armed;
      caller_->interrupt_ = std::move(interrupt);
      return true;
    }
    void Disarm() override {
      std::lock_guard<std::mutex> lock(caller_->mutex_);
      ++caller_->disarmed;  // and a late interrupt stays possible
    }

   private:
    Caller* const caller_;
  };

  std::mutex mutex_;
  std::function<void()> interrupt_;
  bool gave_up_ = false;
};

struct Test {
  const char* name;
  void (*run)();
};

#define TEST(name) \
  Test { #name, name }

// Runs the test named on the command line, or all.
template <size_t kCount>
int RunTests(const Test (&tests)[kCount], int count, char** arguments) {
  const std::string wanted = count > 1 ? arguments[1] : "";
  int run = 0;
  for (const Test& test : tests) {
    if (!wanted.empty() && wanted != test.name) continue;
    std::fprintf(stderr, "%s\n", test.name);
    test.run();
    ++run;
  }
  return run > 0 ? 0 : 1;
}

}  // namespace graph_opt

#endif  // GRAPH_OPT_TESTS_BOUNDED_BUFFER_TESTING_H_
