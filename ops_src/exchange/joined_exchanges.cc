#include "exchange/joined_exchanges.h"

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "absl/strings/str_split.h"

namespace graph_opt {
namespace {

using Callbacks = std::vector<GoOn>;

struct Phase {
  std::set<std::string> missing;
  Callbacks waiting;
  bool withdrawn = false;
};

struct Step {
  Phase phases[2];

  Phase* Of(ExchangePhase phase) { return &phases[static_cast<int>(phase)]; }
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

// Of the step that an exchange is expected in; nullptr if in none.
Phase* PhaseOf(const std::string& exchange, ExchangePhase phase) {
  const auto found = Steps()->find(exchange);
  return found == Steps()->end() ? nullptr : found->second->Of(phase);
}

void Call(const Callbacks& callbacks, bool all_came) {
  for (const GoOn& callback : callbacks) callback(all_came);
}

}  // namespace

void ExpectExchanges(const std::vector<std::string>& exchanges) {
  const auto step = std::make_shared<Step>();
  for (Phase& phase : step->phases) phase.missing.insert(exchanges.begin(), exchanges.end());
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
      for (Phase& phase : found->second->phases) {
        for (GoOn& callback : phase.waiting) waiting.push_back(std::move(callback));
        phase.waiting.clear();
      }
      Steps()->erase(found);
    }
  }
  Call(waiting, true);
}

void ArriveAtExchange(const std::string& exchange, ExchangePhase phase, GoOn go_on) {
  Callbacks waiting;
  bool all_came = true;
  {
    std::lock_guard<std::mutex> lock(*Mutex());
    Phase* const of_step = PhaseOf(exchange, phase);
    Callbacks* calls = &waiting;
    if (of_step != nullptr && of_step->withdrawn) {
      all_came = false;
    } else if (of_step != nullptr) {
      of_step->missing.erase(exchange);
      if (of_step->missing.empty()) {
        waiting.swap(of_step->waiting);
      } else {
        calls = &of_step->waiting;
      }
    }
    if (go_on) calls->push_back(std::move(go_on));
  }
  Call(waiting, all_came);
}

void WithdrawFromExchange(const std::string& exchange, ExchangePhase phase) {
  Callbacks waiting;
  {
    std::lock_guard<std::mutex> lock(*Mutex());
    Phase* const of_step = PhaseOf(exchange, phase);
    if (of_step == nullptr || of_step->missing.empty()) return;
    of_step->withdrawn = true;
    waiting.swap(of_step->waiting);
  }
  Call(waiting, false);
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
