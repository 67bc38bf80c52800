#include "exchange/merged_updates.h"

#include <map>
#include <mutex>

#define GRAPH_OPT_EXPORT __attribute__((visibility("default")))

namespace graph_opt {
namespace {

struct Noted {
  int32_t num_tables = 0;
  std::string refusal;
};

// Of the process; never destroyed.
struct State {
  std::mutex mutex;
  std::map<std::string, bool> allowed;
  std::map<std::string, Noted> noted;
};

State& TheState() {
  static State* const state = new State;
  return *state;
}

}  // namespace

Merging MergingOf(const std::string& stock_op) {
  State& state = TheState();
  std::lock_guard<std::mutex> lock(state.mutex);
  const auto found = state.allowed.find(stock_op);
  if (found == state.allowed.end()) return Merging::kUnknown;
  return found->second ? Merging::kAllowed : Merging::kRefused;
}

void NoteUpdates(const std::string& sums, int32_t num_tables, const std::string& refusal) {
  State& state = TheState();
  std::lock_guard<std::mutex> lock(state.mutex);
  Noted& noted = state.noted[sums];
  noted.num_tables = num_tables;
  noted.refusal = refusal;
}

}  // namespace graph_opt

extern "C" {

GRAPH_OPT_EXPORT void graph_opt_merge_updates(const char* stock_op, int32_t allowed) {
  graph_opt::State& state = graph_opt::TheState();
  std::lock_guard<std::mutex> lock(state.mutex);
  state.allowed[stock_op] = allowed != 0;
}

GRAPH_OPT_EXPORT int32_t graph_opt_noted_updates(const char* sums, const char** refusal) {
  thread_local std::string text;
  graph_opt::State& state = graph_opt::TheState();
  std::lock_guard<std::mutex> lock(state.mutex);
  *refusal = nullptr;
  const auto found = state.noted.find(sums);
  if (found == state.noted.end()) return 0;
  text = found->second.refusal;
  if (!text.empty()) *refusal = text.c_str();
  return found->second.num_tables;
}

}  // extern "C"
