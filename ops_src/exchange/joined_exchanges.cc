#include "exchange/joined_exchanges.h"

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "absl/strings/str_split.h"

namespace graph_opt {
namespace {

using Callbacks = std::vector<std::function<void()>>;

struct Step {
  std::set<std::string> missing;
  Callbacks waiting;
};

std::mutex* Mutex() {
  static std::mutex* const mutex = new std::mutex;
  return mutex;
}

// Never destroyed; guarded by the mutex.
std::map<std::string, std::shared_ptr<Step>>* Steps() {
  static auto* const steps = new std::map<std::string, std::shared_ptr<Step>>;
  return steps;
}

void Call(const Callbacks& callbacks) {
  for (const std::function<void()>& callback : callbacks) callback();
}

}  // namespace

void ExpectExchanges(const std::vector<std::string>& exchanges) {
  const auto step = std::make_shared<Step>();
  step->missing.insert(exchanges.begin(), exchanges.end());
  std::lock_guard<std::mutex> lock(*Mutex());
  for (const std::string& exchange : exchanges) (*Steps())[exchange] = step;
}

void ForgetExchanges(const std::vector<std::string>& exchanges) {
  Callbacks waiting;
  {
    std::lock_guard<std::mutex> lock(*Mutex());
    for (const std::string& exchange : exchanges) {
      const auto found = Steps()->find(exchange);
      if (found == Steps()->end()) continue;
      for (std::function<void()>& callback : found->second->waiting) {
        waiting.push_back(std::move(callback));
      }
      found->second->waiting.clear();
      Steps()->erase(found);
    }
  }
  Call(waiting);
}

void ArriveAtExchange(const std::string& exchange, std::function<void()> ended) {
  Callbacks waiting;
  {
    std::lock_guard<std::mutex> lock(*Mutex());
    const auto found = Steps()->find(exchange);
    Callbacks* calls = &waiting;
    if (found != Steps()->end()) {
      Step* const step = found->second.get();
      step->missing.erase(exchange);
      if (step->missing.empty()) {
        waiting.swap(step->waiting);
      } else {
        calls = &step->waiting;
      }
    }
    if (ended) calls->push_back(std::move(ended));
  }
  Call(waiting);
}

}  // namespace graph_opt

namespace {

std::vector<std::string> Lines(const char* text) { return absl::StrSplit(text, '\n'); }

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default"))) void
EXPORTED graph_opt_expect_exchanges(const char* exchanges) {
  graph_opt::ExpectExchanges(Lines(exchanges));
}

EXPORTED graph_opt_forget_exchanges(const char* exchanges) {
  graph_opt::ForgetExchanges(Lines(exchanges));
}
#undef EXPORTED
