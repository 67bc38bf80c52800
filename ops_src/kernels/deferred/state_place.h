#ifndef GRAPH_OPT_KERNELS_DEFERRED_STATE_PLACE_H_
#define GRAPH_OPT_KERNELS_DEFERRED_STATE_PLACE_H_

#include <string>

#include "kernels/deferred/row_state.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/types.h"

namespace graph_opt {

// Where the RowState of a variable is, if it has one.
struct StatePlace {
  typedef tensorflow::core::RefCountPtr<RowState> Pointer;

  StatePlace() = default;

  // An entry of the attribute `row_states`, for a variable with handles or references. Its name is
  // empty if the entry has none.
  StatePlace(const std::string& entry, bool has_handle);

  bool operator==(const StatePlace& other) const {
    return name == other.name && container == other.container;
  }

  const std::string& ContainerOf(tensorflow::OpKernelContext* ctx) const;

  // The state, or null.
  Pointer Find(tensorflow::OpKernelContext* ctx) const;

  // That of the table if the variable is a slot.
  Pointer FindOfTable(tensorflow::OpKernelContext* ctx) const;

  std::string container;  // empty: the device's default one
  std::string name;
};

// The entry of `row_states` for a variable's node.
std::string RowStateEntry(const std::string& node, const std::string& shared_name,
                          const std::string& container);

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_DEFERRED_STATE_PLACE_H_
