#ifndef GRAPH_OPT_REQUESTS_REQUEST_NUMBERS_H_
#define GRAPH_OPT_REQUESTS_REQUEST_NUMBERS_H_

#include <cstdint>

// A server refuses a step that has the number of one of its last 100,000 steps. From TensorFlow 2.4
// on, a master draws that number from a generator of the thread that runs the step, which is a new
// thread for every step; and the generator's seed has 32 bits. So one step in some 43,000 is
// refused with AbortedError ("received twice"), or waits for ever
// (https://github.com/pytorch/xla/issues/4084).

extern "C" {

// A number that this process has not returned before; never 0.
int64_t graph_opt_request_number();

// Has the masters of this process number their requests by `graph_opt_request_number`, in all
// libraries that are loaded now. Returns how many call TensorFlow's own function for that; where
// none does, nothing has changed.
int32_t graph_opt_number_requests();

}  // extern "C"

#endif  // GRAPH_OPT_REQUESTS_REQUEST_NUMBERS_H_
