#include "threads/stage_thread.h"

namespace graph_opt {
namespace {

enum Kind : int32_t { kNone, kRunsSteps, kYields };
thread_local int32_t kind_of_thread = kNone;

}  // namespace

bool OnStageThread() { return kind_of_thread != kNone; }
bool OnYieldingThread() { return kind_of_thread == kYields; }

}  // namespace graph_opt

__attribute__((visibility("default"))) void graph_opt_be_stage_thread(int32_t kind) {
  graph_opt::kind_of_thread = kind;
}
