// Shared by the tests of functors: checks, and threads.
#ifndef GRAPH_OPT_TESTS_FUNCTORS_TESTING_H_
#define GRAPH_OPT_TESTS_FUNCTORS_TESTING_H_

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "lookup/parallel.h"

namespace graph_opt {

#define CHECK(condition)                                                           \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                                \
    }                                                                              \
  } while (false)

// The same in words. Text is made a string only if it is shown.
template <typename Text>
void Check(bool condition, const Text& what) {
  if (condition) return;
  std::fprintf(stderr, "failed: %s\n", std::string(what).c_str());
  std::exit(1);
}

// A fixed number of threads for each call, of which the caller is one.
class Threads : public Parallel {
 public:
  explicit Threads(int count) : count_(count) {}
  int num_threads() const override { return count_; }
  void Run(int64_t num_tasks, const std::function<void(int64_t)>& work) override {
    std::atomic<int64_t> next(0);
    const auto run = [&] {
      for (int64_t task = next++; task < num_tasks; task = next++) work(task);
    };
    std::vector<std::thread> threads;
    for (int i = 1; i < count_; ++i) threads.emplace_back(run);
    run();
    for (std::thread& thread : threads) thread.join();
  }

 private:
  const int count_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_TESTS_FUNCTORS_TESTING_H_
