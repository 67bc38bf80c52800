#include "requests/request_numbers.h"

#include <fcntl.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "requests/imported_function.h"
#include "requests/unsent_calls.h"

namespace {

// int64_t tensorflow::GetUniqueRequestId()
constexpr char kOfTensorFlow[] = "_ZN10tensorflow18GetUniqueRequestIdEv";

std::atomic<uint64_t> next_place{0};

// Not std::random_device, which needs functions that the C libraries of portable wheels lack, nor
// anything that a forked process must not call.
bool ReadRandom(uint64_t* value) {
  const int file = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool is_read = read(file, value, sizeof(*value)) == sizeof(*value);
  close(file);
  return is_read;
}

// Where the system gives no random numbers: processes of one machine differ in their ids, machines
// in their clocks.
uint64_t FromClock() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (static_cast<uint64_t>(getpid()) << 40) ^ (static_cast<uint64_t>(now.tv_sec) << 20) ^
         now.tv_nsec;
}

void BeginAnywhere() {
  uint64_t place = 0;
  next_place = ReadRandom(&place) ? place : FromClock();
}

bool Begin() {
  BeginAnywhere();
  // A forked process has the same masters' names, and must not repeat their numbers.
  pthread_atfork(nullptr, nullptr, BeginAnywhere);
  return true;
}

// The finalizer of SplitMix64 maps no two places to one number (Steele, Lea and Flood, "Fast
// splittable pseudorandom number generators", OOPSLA 2014), and spreads those of other processes.
uint64_t Mixed(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int64_t graph_opt_request_number() {
  static const bool has_begun = Begin();
  static_cast<void>(has_begun);
  graph_opt::UnsentCalls::NoteNumbered();
  uint64_t number = 0;
  while (number == 0) number = Mixed(next_place.fetch_add(1, std::memory_order_relaxed));
  return static_cast<int64_t>(number);
}

extern "C" __attribute__((visibility("default"))) int32_t graph_opt_number_requests() {
  return graph_opt::ReplaceImportedFunction(kOfTensorFlow,
                                            reinterpret_cast<void*>(graph_opt_request_number));
}
