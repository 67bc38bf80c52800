#include <cstdint>

#include "scratch/scratch_pool.h"

// Read by graph_opt/ops/scratch_memory.py.
extern "C" __attribute__((visibility("default"))) void graph_opt_scratch_memory(
    int64_t* held_bytes, int64_t* idle_bytes, int64_t* peak_bytes) {
  const graph_opt::ScratchPool::Use use = graph_opt::ScratchPool::OfProcess()->use();
  *held_bytes = use.held_bytes;
  *idle_bytes = use.idle_bytes;
  *peak_bytes = use.peak_bytes;
}
