#ifndef GRAPH_OPT_THREADS_LATE_THREADS_H_
#define GRAPH_OPT_THREADS_LATE_THREADS_H_

// Called by the main thread when the interpreter begins to end, by graph_opt/ops/late_threads.py:
// lets other threads hang that return to the interpreter too late.
//
// CPython ends such a thread where it stands. TensorFlow's bindings may not be left like this: the
// process is aborted ("FATAL: exception not rethrown"). From CPython 3.14 on the thread hangs, as
// here: https://github.com/python/cpython/issues/87135.
extern "C" void graph_opt_hang_late_threads();

#endif  // GRAPH_OPT_THREADS_LATE_THREADS_H_
