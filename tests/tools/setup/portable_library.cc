// Linked as the libraries of a wheel are. It uses what is newer than GCC 4.8 and glibc 2.17, too.
#include "portable_library.h"

#include <chrono>
#include <condition_variable>
#include <iomanip>
#include <mutex>
#include <new>
#include <sstream>
#include <system_error>
#include <thread>
#include <vector>

namespace {

int ended = 0;
std::mutex mutex;

struct CountsItsEnd {
  int number = 1;
  ~CountsItsEnd() {
    std::lock_guard<std::mutex> lock(mutex);
    ended += number;
  }
};

}  // namespace

void graph_opt_append(std::string* text, const std::string& more) { *text += more; }

std::string* graph_opt_new_text(size_t length) { return new std::string(length, 'x'); }

void graph_opt_throw(int which) {
  if (which == 0) throw Refused("refused: " + std::to_string(which));
  if (which == 1) throw std::system_error(std::make_error_code(std::errc::io_error), "system");
  if (which == 2) throw std::bad_array_new_length();
  std::vector<int>().at(7);
}

void graph_opt_call(const std::function<void()>& call, std::string* caught) {
  try {
    call();
  } catch (const Refused& error) {
    *caught = error.what();
    throw;
  } catch (const std::exception& error) {
    *caught = error.what();
  }
}

void graph_opt_write(std::ostream* stream) {
  *stream << std::hex << 255 << ' ' << std::setprecision(3) << 3.14159 << ' ' << std::boolalpha
          << true << std::endl;
}

void graph_opt_new_writer(std::unique_ptr<std::ostream>* stream) {
  stream->reset(new std::ostringstream());
}

void graph_opt_new_shape(std::shared_ptr<Shape>* shape) { *shape = std::make_shared<Circle>(); }

bool graph_opt_is_circle(const Shape& shape) {
  return dynamic_cast<const Circle*>(&shape) != nullptr;
}

// Threads that wait for each other by a clock that is not the system's, and count their own ends.
int graph_opt_sum_of_threads(int count) {
  std::condition_variable condition;
  bool may_end = false;
  static std::once_flag once;
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&] {
      thread_local CountsItsEnd counted;
      std::call_once(once, [] {});
      std::unique_lock<std::mutex> lock(mutex);
      condition.wait_for(lock, std::chrono::hours(1),
                         [&] { return may_end && counted.number == 1; });
    });
  }
  {
    std::unique_lock<std::mutex> lock(mutex);
    if (condition.wait_for(lock, std::chrono::milliseconds(1), [] { return false; })) return -1;
    may_end = true;
  }
  condition.notify_all();
  for (std::thread& thread : threads) thread.join();
  return ended;
}
