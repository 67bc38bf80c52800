#ifndef GRAPH_OPT_KERNELS_APPLY_OPTIMIZER_ATTRIBUTES_H_
#define GRAPH_OPT_KERNELS_APPLY_OPTIMIZER_ATTRIBUTES_H_

#include <string>

// What the registrations of updates share about their optimizer (read by OptimizerInputs).

#define GRAPH_OPT_OPTIMIZER_ATTRS                  \
  Attr(OptimizerAttr())                            \
      .Attr("num_slots: int >= 0")                 \
      .Attr("averaged: bool = false")              \
      .Attr("num_hyperparameters: int >= 1")       \
      .Attr("own_hyperparameters: list(int) = []") \
      .Attr("flags: list(string) = []")            \
      .Attr("use_locking: bool = false")           \
      .Attr("row_states: list(string) = []")

// What those that lookups ahead of a step may follow share beside that (read by UpdateLogs).
#define GRAPH_OPT_ROW_LOG_ATTRS Attr("row_logs: list(string) = []").Attr("row_log_length: int = 0")

namespace graph_opt {

// The attribute `optimizer`, which is one of those of ops_src/optimizers.
std::string OptimizerAttr();

// `doc`, then what slots, hyperparameters and flags each optimizer has, and what row_states are.
std::string OptimizerDoc(const std::string& doc);

// `doc`, then what row_logs are.
std::string RowLogsDoc(const std::string& doc);

// `doc`, then what row_states are (read by RowStates).
std::string RowStatesDoc(const std::string& doc);

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_APPLY_OPTIMIZER_ATTRIBUTES_H_
