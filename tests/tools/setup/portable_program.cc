// Linked as usual, as TensorFlow is: hands all kinds of C++ objects to a portable library and back.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <sstream>
#include <system_error>

#include "portable/newer_functions.h"
#include "portable_library.h"

#define CHECK(condition)                                                     \
  if (!(condition)) {                                                        \
    std::fprintf(stderr, "%s:%d: not %s\n", __FILE__, __LINE__, #condition); \
    std::abort();                                                            \
  }

namespace {

void Strings() {
  std::string text = "a";
  graph_opt_append(&text, std::string(1000, 'b'));
  CHECK(text.size() == 1001 && text.back() == 'b');
  for (const size_t length : {0, 3, 500}) {  // Empty, within the object, and allocated.
    std::string* const theirs = graph_opt_new_text(length);
    const std::string copy = *theirs;
    theirs->append("y");
    CHECK(copy == std::string(length, 'x') && theirs->size() == length + 1);
    delete theirs;
    delete graph_opt_new_text(length);
  }
}

template <class Error>
std::string Caught(int which) {
  try {
    graph_opt_throw(which);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

void Exceptions() {
  CHECK(Caught<Refused>(0) == "refused: 0");
  CHECK(Caught<std::runtime_error>(0) == "refused: 0");
  CHECK(Caught<std::system_error>(1).find("system") == 0);
  CHECK(Caught<std::bad_alloc>(2) != "nothing");
  CHECK(Caught<std::out_of_range>(3) != "nothing");
  std::exception_ptr kept;
  try {
    graph_opt_throw(0);
  } catch (...) {
    kept = std::current_exception();
  }
  std::string caught;
  bool passed = false;
  try {
    graph_opt_call([&] { std::rethrow_exception(kept); }, &caught);
  } catch (const Refused&) {
    passed = true;
  }
  CHECK(passed && caught == "refused: 0");
  graph_opt_call([] { throw std::length_error("too long"); }, &caught);
  CHECK(caught == "too long" && !std::uncaught_exception());
}

void Streams() {
  std::ostringstream ours;
  graph_opt_write(&ours);
  CHECK(ours.str() == "ff 3.14 true\n");
  std::unique_ptr<std::ostream> theirs;
  graph_opt_new_writer(&theirs);
  *theirs << std::hex << 16 << ' ' << 0.5;
  auto* const buffer = dynamic_cast<std::ostringstream*>(theirs.get());
  CHECK(buffer != nullptr && buffer->str() == "10 0.5");
}

void Shapes() {
  std::shared_ptr<Shape> shape;
  graph_opt_new_shape(&shape);
  CHECK(dynamic_cast<Circle*>(shape.get()) != nullptr && shape->Name() == "circle");
  CHECK(graph_opt_is_circle(Circle()) && graph_opt_is_circle(*shape));
}

// What takes the place of pthread_cond_clockwait where there is none.
void Waits() {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  timespec deadline;
  clock_gettime(CLOCK_MONOTONIC, &deadline);
  deadline.tv_nsec += 20000000;
  if (deadline.tv_nsec >= 1000000000) {
    deadline.tv_nsec -= 1000000000;
    ++deadline.tv_sec;
  }
  pthread_mutex_lock(&mutex);
  int result = 0;
  while (result == 0) {
    result = graph_opt::WaitByRealTime(&condition, &mutex, CLOCK_MONOTONIC, &deadline);
  }
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  CHECK(result == ETIMEDOUT);
  CHECK(now.tv_sec > deadline.tv_sec ||
        (now.tv_sec == deadline.tv_sec && now.tv_nsec >= deadline.tv_nsec));
  pthread_mutex_unlock(&mutex);
}

}  // namespace

int main() {
  Strings();
  Exceptions();
  Streams();
  Shapes();
  Waits();
  CHECK(graph_opt_sum_of_threads(3) == 3);
  std::puts("all well");
}
