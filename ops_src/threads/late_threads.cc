#include "threads/late_threads.h"

#include <chrono>
#include <cstdlib>
#include <exception>
#include <thread>

namespace {

std::terminate_handler handler_before = nullptr;
std::thread::id main_thread;

void HangUnlessMain() {
  if (std::this_thread::get_id() == main_thread) {
    handler_before();
    std::abort();
  }
  while (true) std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void graph_opt_hang_late_threads() {
  main_thread = std::this_thread::get_id();
  handler_before = std::set_terminate(HangUnlessMain);
}
