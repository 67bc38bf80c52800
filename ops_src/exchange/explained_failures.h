#ifndef GRAPH_OPT_EXCHANGE_EXPLAINED_FAILURES_H_
#define GRAPH_OPT_EXCHANGE_EXPLAINED_FAILURES_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"

namespace graph_opt {

// Gets the code and text of an error in a message, and writes its cause, which ranks learn outside
// of messages, in at most `size` bytes. Returns the code of the cause, or 0 if it knows none.
using FindCause = int32_t (*)(int32_t code, const char* text, char* cause, int32_t size);

// Ends a call that has failed: with the cause, if somebody may know it, on a thread of its own, as
// finding it takes a while, and the calling one may be Horovod's. Else with the error, at once.
void EndWithCause(const absl::Status& error, std::function<void(const absl::Status&)> end);

}  // namespace graph_opt

// Called by graph_opt/ops/all_to_all.py: from now on, this finds causes; null: nobody does.
extern "C" void graph_opt_find_causes(graph_opt::FindCause find);

#endif  // GRAPH_OPT_EXCHANGE_EXPLAINED_FAILURES_H_
