#ifndef GRAPH_OPT_KERNELS_BUFFER_BUFFER_WATCH_H_
#define GRAPH_OPT_KERNELS_BUFFER_BUFFER_WATCH_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/buffer/tensor_buffer_resource.h"

namespace graph_opt {

// Buffers of one session, for asking about them without running a step. They live as long as this
// object, whatever happens to the session.
struct BufferWatch {
  // Adds a buffer to the watch that the calling thread has begun, if it has.
  static void Note(const std::shared_ptr<TensorBuffer>& buffer);

  std::vector<std::shared_ptr<TensorBuffer>> buffers;
};

}  // namespace graph_opt

// What graph_opt/ops/stage_thread.py calls.
extern "C" {

// A watch of the buffers that the calling thread resumes from now on until the end: those of
// sessions in this process whose kernels run in the thread that calls.
void* graph_opt_begin_watching();
void graph_opt_end_watching();
void graph_opt_delete_watch(void* watch);

// The number of the buffer of this name among those watched; -1 if it is not one of them.
int32_t graph_opt_watched_buffer(const void* watch, const char* shared_name);

// 1: a take would find an element, and no other take is waiting; 0: it would have to wait.
int32_t graph_opt_buffer_is_ready(const void* watch, int32_t buffer);
}

#endif  // GRAPH_OPT_KERNELS_BUFFER_BUFFER_WATCH_H_
