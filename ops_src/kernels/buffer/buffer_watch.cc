#include "kernels/buffer/buffer_watch.h"

#include "buffer/deadline_timer.h"

namespace graph_opt {
namespace {

thread_local BufferWatch* begun = nullptr;

}  // namespace

void BufferWatch::Note(const std::shared_ptr<TensorBuffer>& buffer) {
  if (begun != nullptr) begun->buffers.push_back(buffer);
}

}  // namespace graph_opt

#define GRAPH_OPT_EXPORT __attribute__((visibility("default")))

using graph_opt::BufferWatch;

GRAPH_OPT_EXPORT void* graph_opt_begin_watching() {
  // If a low-priority thread started it, deadlines would be noticed late on a busy machine.
  graph_opt::DeadlineTimer::Process().Start();
  return graph_opt::begun = new BufferWatch;
}

GRAPH_OPT_EXPORT void graph_opt_end_watching() { graph_opt::begun = nullptr; }

GRAPH_OPT_EXPORT void graph_opt_delete_watch(void* watch) {
  delete static_cast<BufferWatch*>(watch);
}

GRAPH_OPT_EXPORT int32_t graph_opt_watched_buffer(const void* watch, const char* shared_name) {
  const auto& buffers = static_cast<const BufferWatch*>(watch)->buffers;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i]->name() == shared_name) return static_cast<int32_t>(i);
  }
  return -1;
}

GRAPH_OPT_EXPORT int32_t graph_opt_buffer_is_ready(const void* watch, int32_t buffer) {
  return static_cast<const BufferWatch*>(watch)->buffers[buffer]->IsReady();
}
