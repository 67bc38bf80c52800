#ifndef GRAPH_OPT_REQUESTS_UNSENT_CALLS_H_
#define GRAPH_OPT_REQUESTS_UNSENT_CALLS_H_

#include <cstdint>

// A master sends the calls of a step to its tasks one after the other. If a task fails meanwhile,
// the master cancels all calls of the step, once; but TensorFlow forgets that for a call which is
// not sent yet. Its task runs the step to the end, and if it waits for a task whose call was
// cancelled in time, that end never comes: neither a timeout nor closing the session helps.
//
// So we remember it for TensorFlow, and cancel such a call when it is sent.

namespace graph_opt {

// What happens to calls, each known by the address of its tensorflow::CallOptions.
//
// What a master does in one thread tells its calls from all others: it makes the calls of a step as
// elements of one array, numbers them, and sends them. What receives a tensor of another task makes
// one call and numbers it, and uses it again for another tensor without making it anew.
class UnsentCalls {
 public:
  // The calling thread has made a call.
  static void NoteMade(const void* call);

  // The calling thread has drawn a number for a request.
  static void NoteNumbered();

  // A call is about to be cancelled.
  static void NoteCancelled(const void* call);

  // The calling thread is about to send a call, which a cancellation now reaches; returns whether
  // it was cancelled before.
  static bool NoteSent(const void* call);
};

}  // namespace graph_opt

extern "C" {

// Has the masters of this process cancel calls that they have not sent, in all libraries that are
// loaded now; returns 1, or 0 where TensorFlow does not import what this takes, and nothing has
// changed. Masters must number their requests by `graph_opt_request_number`.
int32_t graph_opt_cancel_unsent_calls();
}

#endif  // GRAPH_OPT_REQUESTS_UNSENT_CALLS_H_
