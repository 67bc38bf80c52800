#ifndef GRAPH_OPT_OPS_SRC_KERNELS_GRAPHS_GRAPH_NODES_H_
#define GRAPH_OPT_OPS_SRC_KERNELS_GRAPHS_GRAPH_NODES_H_

#include <set>
#include <string>

#include "tensorflow/core/framework/node_def_builder.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/graph/graph.h"

// What passes over the graphs that sessions are about to run ask of nodes, and how they add some.

namespace graph_opt {

// Whether a node is of one of these types.
bool IsOneOf(const tensorflow::Node* node, const std::set<std::string>& types);

// The edge that brings an input; null if there is none.
const tensorflow::Edge* InputOf(const tensorflow::Node* node, int place);

// An attribute of a node; 0 or empty where it has none.
template <typename T>
T Attribute(const tensorflow::Node* node, const char* name) {
  T value{};
  return GetNodeAttr(node->attrs(), name, &value).ok() ? value : T{};
}

// The value of a constant; false if the edge brings anything else, or nothing.
bool ReadConstant(const tensorflow::Edge* edge, tensorflow::Tensor* value);

// A name that no graph of this process has for another node: a session keeps one kernel for all
// nodes of a name that its graphs have.
std::string NewNodeName(tensorflow::Graph* graph, const std::string& prefix);

// Adds a node where another one is; its inputs remain to be connected.
tensorflow::Status AddNodeBeside(const tensorflow::Node* beside,
                                 tensorflow::NodeDefBuilder* builder, tensorflow::Graph* graph,
                                 tensorflow::Node** added);

}  // namespace graph_opt

#endif  // GRAPH_OPT_OPS_SRC_KERNELS_GRAPHS_GRAPH_NODES_H_
