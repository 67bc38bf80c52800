#ifndef GRAPH_OPT_KERNELS_BUFFER_SESSION_RESOURCES_H_
#define GRAPH_OPT_KERNELS_BUFFER_SESSION_RESOURCES_H_

#include <string>

#include "tensorflow/core/framework/op_kernel.h"

namespace graph_opt {

// What a resource is called that one session alone uses. All sessions on a server share the
// resource managers of its devices, where a graph of another session may use the same names.
//
// graph_opt/config/convert.py gives such sessions a name, in `experimental.session_metadata` of
// their config. Sessions without one, as those within a process, have devices of their own or were
// opened by TensorFlow alone: `name` stays as it is.
//
// TensorFlow 1 does not tell kernels the config of their session: there the name is that of the
// graph, and an attribute of the node (graph_opt/compat/buffer_owners.py).
std::string NameInSession(tensorflow::OpKernelContext* ctx, const std::string& name);

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_BUFFER_SESSION_RESOURCES_H_
