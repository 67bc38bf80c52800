#include "kernels/graphs/graph_nodes.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "kernels/kernel_names.h"
#include "kernels/tensorflow_compat.h"
#include "tensorflow/core/framework/tensor.pb.h"

namespace graph_opt {

using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;

bool IsOneOf(const Node* node, const std::set<std::string>& types) {
  return types.count(node->type_string()) > 0;
}

const Edge* InputOf(const Node* node, int place) {
  const Edge* edge = nullptr;
  return node->input_edge(place, &edge).ok() ? edge : nullptr;
}

bool ReadConstant(const Edge* edge, Tensor* value) {
  const tensorflow::TensorProto* proto = nullptr;
  return edge != nullptr && edge->src()->type_string() == "Const" &&
         tensorflow::TryGetNodeAttr(edge->src()->attrs(), "value", &proto) &&
         value->FromProto(*proto);
}

std::string NewNodeName(Graph* graph, const std::string& prefix) {
  static std::atomic<int64_t> number{0};
  return graph->NewName(prefix + "_" + std::to_string(number++));
}

Status AddNodeBeside(const Node* beside, tensorflow::NodeDefBuilder* builder, Graph* graph,
                     Node** added) {
  tensorflow::NodeDef node;
  TF_RETURN_IF_ERROR(builder->Device(beside->requested_device()).Finalize(&node));
  Status status;
  *added = graph->AddNode(std::move(node), &status);
  if (status.ok()) (*added)->set_assigned_device_name(beside->assigned_device_name());
  return status;
}

}  // namespace graph_opt
