#ifndef GRAPH_OPT_KERNELS_DEFERRED_OTHER_SESSIONS_H_
#define GRAPH_OPT_KERNELS_DEFERRED_OTHER_SESSIONS_H_

namespace graph_opt {

// Variables outlive the graph that defers their updates: on a server, graphs of any session read
// and write them, also of processes without graph_opt. The server's own process lets these wait for
// the ops below (other_sessions_pass.cc).

// Catches up all rows of a list of variables.
constexpr char kCatchUpVariables[] = "GroupEmbeddingCatchUpVariables";

// Catches up some rows of one variable.
constexpr char kCatchUpVariableRows[] = "GroupEmbeddingCatchUpVariableRows";

// Attribute of deferred updates, which the pass adds: the slots, as `row_states` has the shards.
constexpr char kSlotStates[] = "_slot_states";

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_DEFERRED_OTHER_SESSIONS_H_
