#ifndef GRAPH_OPT_THREADS_THREAD_PRIORITY_H_
#define GRAPH_OPT_THREADS_THREAD_PRIORITY_H_

namespace graph_opt {

constexpr int kIdlePriority = 20;  // below all other threads

// Lowers the priority of the calling thread below the process, by a nice value of 1 to 19, or to
// kIdlePriority; 0 leaves it. Returns 0, or why the system refuses, as in errno.
int LowerThread(int priority);

}  // namespace graph_opt

#endif  // GRAPH_OPT_THREADS_THREAD_PRIORITY_H_
