#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/deferred/other_sessions.h"
#include "kernels/deferred/state_place.h"
#include "kernels/graphs/graph_nodes.h"
#include "kernels/kernel_names.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"

// The process that holds variables sees each graph that reads them, whoever made it, just before it
// first runs. Here, readers that do not catch up rows themselves are made to wait for an
// op that looks at run time whether updates of the variable are deferred:
//
//   CatchUpVariables -^> variable -> ...        where anything takes all of the variable
//   ids -> CatchUpVariableRows -^> gather       where only gathers read it

namespace graph_opt {
namespace {

using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::GraphOptimizationPassOptions;
using tensorflow::Node;
using tensorflow::NodeDefBuilder;
using tensorflow::TryGetNodeAttr;

bool HasHandle(const Node* variable) { return variable->type_string() == "VarHandleOp"; }

// A table or slot, as far as the node tells: of floats, no scalar, and on a CPU.
bool MayBeDeferred(const Node* node) {
  static const auto* const kVariables =
      new std::set<std::string>{"VariableV2", "Variable", "VarHandleOp"};
  if (!IsOneOf(node, *kVariables)) return false;
  DataType dtype = tensorflow::DT_INVALID;
  tensorflow::PartialTensorShape shape;
  if (!TryGetNodeAttr(node->attrs(), "dtype", &dtype) || dtype != tensorflow::DT_FLOAT)
    return false;
  // Of a handle, the shape may be unknown.
  return !GetNodeAttr(node->attrs(), "shape", &shape).ok() || shape.dims() != 0;
}

std::string EntryOf(const Node* variable) {
  std::string shared_name, container;
  TryGetNodeAttr(variable->attrs(), "shared_name", &shared_name);
  TryGetNodeAttr(variable->attrs(), "container", &container);
  return RowStateEntry(variable->name(), shared_name, container);
}

std::string DeviceOf(const Node* node) {
  return node->has_assigned_device_name() ? node->assigned_device_name() : node->requested_device();
}

std::vector<const Edge*> UsesOfOutputs(const Node* node) {
  std::vector<const Edge*> uses;
  for (const Edge* edge : node->out_edges()) {
    if (!edge->IsControlEdge()) uses.push_back(edge);
  }
  return uses;
}

// The variable whose reference or handle a node is given.
const Node* Variable(const Node* node, int number) {
  static const auto* const kPassOn = new std::set<std::string>{
      "Identity", "RefIdentity", "Switch", "RefSwitch", "Enter", "RefEnter"};
  const Edge* edge = InputOf(node, number);
  while (edge != nullptr && IsOneOf(edge->src(), *kPassOn)) edge = InputOf(edge->src(), 0);
  return edge == nullptr ? nullptr : edge->src();
}

// How a graph uses a variable.
struct Uses {
  bool whole = false;    // anything but gathers reads it
  bool written = false;  // or it may be written
  std::vector<const Edge*> gathers;
};

// Collects what is to be added to one graph.
class OtherReaders {
 public:
  explicit OtherReaders(Graph* graph) : graph_(graph) {}

  Status AddCatchUps() {
    std::vector<Node*> variables;
    for (Node* node : graph_->op_nodes()) {
      if (MayBeDeferred(node)) variables.push_back(node);
      NoteStates(node);
    }
    std::map<std::pair<std::string, bool>, std::vector<Node*>> whole;
    for (Node* variable : variables) {
      const std::string device = DeviceOf(variable);
      if (brought_.count(variable) > 0 || device.find("CPU") == std::string::npos) continue;
      const Uses uses = UsesOf(variable);
      if (uses.whole) {
        whole[{device, uses.written}].push_back(variable);
        continue;
      }
      for (const Edge* gather : uses.gathers) TF_RETURN_IF_ERROR(CatchUpRows(variable, gather));
    }
    for (const auto& each : whole) {
      TF_RETURN_IF_ERROR(CatchUpAll(each.second, each.first.second));
    }
    return Status();
  }

 private:
  // Takes note of the variables that an op of ours catches up itself, and tells updates the
  // names of their slots.
  void NoteStates(Node* node) {
    std::vector<std::string> states;
    int num_slots = 0;
    if (node->type_string().find("GroupEmbedding") == std::string::npos ||
        !TryGetNodeAttr(node->attrs(), "row_states", &states) || states.empty() ||
        !TryGetNodeAttr(node->attrs(), "num_slots", &num_slots)) {
      return;
    }
    const int num_shards = static_cast<int>(states.size());
    std::vector<std::string> slots;
    for (int i = 0; i < num_shards + num_slots; ++i) {
      const Node* const variable = Variable(node, i);
      if (variable == nullptr) return;
      if (!states[i % num_shards].empty()) brought_.insert(variable);
      if (i >= num_shards) slots.push_back(EntryOf(variable));
    }
    node->AddAttr(kSlotStates, slots);
  }

  Uses UsesOf(const Node* variable) {
    static const auto* const kDescribe = new std::set<std::string>{
        "IsVariableInitialized", "VarIsInitializedOp", "VariableShape", "Shape", "Size", "Rank"};
    static const auto* const kRead = new std::set<std::string>{
        "ReadVariableOp", "ResourceGather", "ResourceGatherNd", "Identity", "_Send", "_HostSend"};
    Uses uses;
    for (const Edge* edge : UsesOfOutputs(variable)) {
      const Node* const reader = edge->dst();
      if (IsOneOf(reader, *kDescribe)) continue;
      if (HasHandle(variable)) {
        uses.written |= !IsOneOf(reader, *kRead);
      } else {
        uses.written |= tensorflow::IsRefType(reader->input_type(edge->dst_input()));
      }
      if (IsRowGather(edge)) {
        uses.gathers.push_back(edge);
      } else if (!AddGathersBehind(reader, &uses)) {
        uses.whole = true;
      }
    }
    return uses;
  }

  // Of an Identity that is the value of a reference variable.
  bool AddGathersBehind(const Node* identity, Uses* uses) {
    if (identity->type_string() != "Identity" ||
        identity->input_type(0) == tensorflow::DT_RESOURCE) {
      return false;
    }
    for (const Edge* edge : UsesOfOutputs(identity)) {
      if (!IsRowGather(edge)) return false;
      uses->gathers.push_back(edge);
    }
    return true;
  }

  bool IsRowGather(const Edge* edge) {
    static const auto* const kGathers =
        new std::set<std::string>{"Gather", "GatherV2", "ResourceGather"};
    const Node* const gather = edge->dst();
    int batch_dims = 0;
    TryGetNodeAttr(gather->attrs(), "batch_dims", &batch_dims);
    return edge->dst_input() == 0 && IsOneOf(gather, *kGathers) && batch_dims == 0 &&
           (gather->type_string() != "GatherV2" || IsZero(InputOf(gather, 2)));
  }

  static bool IsZero(const Edge* axis) {
    tensorflow::Tensor value;
    if (!ReadConstant(axis, &value) || value.NumElements() != 1) return false;
    return value.dtype() == tensorflow::DT_INT32 ? value.flat<tensorflow::int32>()(0) == 0
                                                 : value.flat<tensorflow::int64>()(0) == 0;
  }

  Status CatchUpAll(const std::vector<Node*>& variables, bool written) {
    std::vector<std::string> references, handles;
    for (const Node* variable : variables) {
      (HasHandle(variable) ? handles : references).push_back(EntryOf(variable));
    }
    NodeDefBuilder builder(NewNodeName(graph_, "graph_opt_catch_up"), kCatchUpVariables);
    builder.Attr("references", references).Attr("handles", handles).Attr("written", written);
    Node* added = nullptr;
    TF_RETURN_IF_ERROR(AddNodeBeside(variables[0], &builder, graph_, &added));
    for (Node* variable : variables) graph_->AddControlEdge(added, variable);
    return Status();
  }

  Status CatchUpRows(const Node* variable, const Edge* gather) {
    const Edge* const ids = InputOf(gather->dst(), 1);
    const DataType dtype = tensorflow::BaseType(ids->src()->output_type(ids->src_output()));
    NodeDefBuilder builder(NewNodeName(graph_, "graph_opt_catch_up_rows"), kCatchUpVariableRows);
    builder.Input(ids->src()->name(), ids->src_output(), dtype)
        .Attr("variable", EntryOf(variable))
        .Attr("has_handle", HasHandle(variable));
    Node* added = nullptr;
    TF_RETURN_IF_ERROR(AddNodeBeside(variable, &builder, graph_, &added));
    graph_->AddEdge(ids->src(), ids->src_output(), added, 0);
    graph_->AddControlEdge(added, gather->dst());
    return Status();
  }

  Graph* const graph_;
  std::set<const Node*> brought_;
};

class CatchUpForOtherSessions : public tensorflow::GraphOptimizationPass {
 public:
  Status Run(const GraphOptimizationPassOptions& options) override {
    if (options.partition_graphs == nullptr) return Status();
    for (const auto& partition : *options.partition_graphs) {
      TF_RETURN_IF_ERROR(OtherReaders(partition.second.get()).AddCatchUps());
    }
    return Status();
  }
};

REGISTER_OPTIMIZATION(tensorflow::OptimizationPassRegistry::POST_PARTITIONING, 100,
                      CatchUpForOtherSessions);

}  // namespace
}  // namespace graph_opt
