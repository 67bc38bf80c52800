#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "exchange/merged_updates.h"
#include "kernels/exchange/rank_updates.h"
#include "kernels/kernel_names.h"
#include "kernels/tensorflow_compat.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/tensor.h"

// The updates of sharded tables as optimizers of TensorFlow write them: one op for each table. In
// what a session is about to run, those of an exchange become one op, if all that it would do is to
// sum and update, to the same bits:
//
//   gradients of all ranks -> ExchangeGatherGrad -> rows, sums -> [...] -> SparseApply*  ...
//   gradients of all ranks -> ExchangeApply
//
// The graph of the script keeps its nodes. What waits for an update waits for the op.

namespace graph_opt {
namespace {

using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::GraphOptimizationPassOptions;
using tensorflow::Node;
using tensorflow::NodeDefBuilder;

// Set on sums whose updates the session's options leave alone.
const char kKeptApart[] = "_graph_opt_updates_kept_apart";
// The number of the graph that sums are of.
const char kGraph[] = "_graph_opt_graph";
// By other values of these, formulas have other operations. Bits were compared for the usual power,
// and for an epsilon that is not 0.
const char kPower[] = "learning_rate_power";
const float kUsualPower = -0.5f;
const char kEpsilon[] = "epsilon";

std::string NameOf(const Node* node) {
  return absl::StrCat(node->type_string(), " '", node->name(), "'");
}

// The updates of the tables of one exchange.
class ExchangedUpdates {
 public:
  ExchangedUpdates(Graph* graph, Node* sums, std::vector<RankUpdate> updates)
      : graph_(graph), sums_(sums), updates_(std::move(updates)) {
    std::sort(updates_.begin(), updates_.end(),
              [](const RankUpdate& a, const RankUpdate& b) { return a.place < b.place; });
    replaced_.insert(sums_);
    for (const RankUpdate& update : updates_) {
      replaced_.insert(update.node);
      replaced_.insert(update.between.begin(), update.between.end());
    }
  }

  // Whether an op of ours updates from the sums, as where lookups are fused.
  bool AreOurs() const {
    for (const Edge* edge : sums_->out_edges()) {
      if (edge->dst()->type_string().find("GroupEmbedding") != std::string::npos) return true;
    }
    return false;
  }

  // Why they are not one op; empty if they can be.
  std::string Refusal() const {
    for (const Node* node : replaced_) {
      const Node* const reader = OtherReader(node);
      if (reader != nullptr) return absl::StrCat(NameOf(reader), " needs ", NameOf(node));
    }
    if (updates_.empty()) return "nothing is updated";
    const RankUpdate& first = updates_.front();
    if (MergingOf(first.stock->op) == Merging::kRefused) {
      return absl::StrCat("TensorFlow rounds ", first.stock->op, " in another way");
    }
    const auto by_key = Attribute<std::vector<bool>>(sums_, "by_key");
    if (Attribute<DataType>(sums_, "T") != tensorflow::DT_FLOAT ||
        std::count(by_key.begin(), by_key.end(), true) > 0) {
      return "the tables go by key, or are not of float32";
    }
    return WhyNotAlike();
  }

  Status Merge() {
    Node* apply = nullptr;
    TF_RETURN_IF_ERROR(Add(&apply));
    for (const RankUpdate& update : updates_) {
      std::vector<Node*> waiting;
      for (const Edge* edge : update.node->out_edges()) waiting.push_back(edge->dst());
      for (Node* node : waiting) graph_->AddControlEdge(apply, node);
    }
    std::set<Node*> waits;
    for (const Node* node : replaced_) {
      for (const Edge* edge : node->in_edges()) {
        if (edge->IsControlEdge() && replaced_.count(edge->src()) == 0) waits.insert(edge->src());
      }
    }
    for (Node* node : waits) graph_->AddControlEdge(node, apply);
    RemoveReplaced();
    return Status();
  }

 private:
  // What reads one of the nodes, or waits for one that is no update, beside those that go.
  const Node* OtherReader(const Node* node) const {
    const bool is_update = StockUpdates().count(node->type_string()) > 0;
    for (const Edge* edge : node->out_edges()) {
      if (edge->dst()->IsSink() || replaced_.count(edge->dst()) > 0) continue;
      if (!is_update || !edge->IsControlEdge()) return edge->dst();
    }
    return nullptr;
  }

  std::string WhyNotAlike() const {
    const RankUpdate& first = updates_.front();
    std::set<int> places;
    for (const RankUpdate& update : updates_) {
      if (!places.insert(update.place).second) return "a table is updated twice";
      if (update.Key() != first.Key()) {
        return absl::StrCat(NameOf(update.node), " differs from ", NameOf(first.node),
                            " in optimizer, hyperparameters or what it waits for");
      }
    }
    for (int place : Attribute<std::vector<int>>(sums_, "served")) {
      if (places.count(place) == 0) return "tables of the exchange stay as they are";
    }
    float value;
    if (first.stock->PlaceOf(kPower) >= 0 &&
        (!ReadScalar(first.Given(kPower), &value) || value != kUsualPower)) {
      return absl::StrCat(kPower, " of ", NameOf(first.node), " is not ", kUsualPower);
    }
    if (first.stock->PlaceOf(kEpsilon) >= 0 &&
        (!ReadScalar(first.Given(kEpsilon), &value) || value == 0)) {
      return absl::StrCat(kEpsilon, " of ", NameOf(first.node), " may be 0");
    }
    return DependOnEachOther() ? "they depend on each other" : "";
  }

  bool DependOnEachOther() const {
    std::set<const Node*> seen;
    std::vector<const Node*> pending;
    for (const RankUpdate& update : updates_) pending.push_back(update.node);
    while (!pending.empty()) {
      const Node* const node = pending.back();
      pending.pop_back();
      for (const Edge* edge : node->out_edges()) {
        if (replaced_.count(edge->dst()) > 0) return true;
        if (seen.insert(edge->dst()).second) pending.push_back(edge->dst());
      }
    }
    return false;
  }

  Status Add(Node** apply) {
    const RankUpdate& first = updates_.front();
    const StockUpdate& stock = *first.stock;
    std::vector<std::pair<Node*, int>> tables, slots, hyperparameters, divisor;
    for (const RankUpdate& update : updates_) tables.push_back(Source(update, "table"));
    for (const auto& slot : stock.optimizer->slots) {
      for (const RankUpdate& update : updates_) slots.push_back(Source(update, slot.name));
    }
    for (const auto& one : stock.optimizer->hyperparameters) {
      if (stock.PlaceOf(one.name) >= 0) {
        hyperparameters.push_back(Source(first, one.name));
      } else {
        hyperparameters.emplace_back(nullptr, 0);
        TF_RETURN_IF_ERROR(AddScalar(0, &hyperparameters.back().first));
      }
    }
    if (!first.divisor.key.empty()) {
      const Edge* const edge = first.divisor.edge;
      divisor.emplace_back(edge == nullptr ? nullptr : edge->src(),
                           edge == nullptr ? 0 : edge->src_output());
      if (edge == nullptr) TF_RETURN_IF_ERROR(AddScalar(first.divisor.value, &divisor[0].first));
    }
    NodeDefBuilder builder(NewNodeName(graph_, first.node->name() + "/exchange"),
                           absl::StrCat(stock.has_handles ? kResource : "", "ExchangeApply"));
    std::vector<std::pair<Node*, int>> inputs;
    for (const auto& list : {tables, slots, hyperparameters}) AddInputs(list, &builder, &inputs);
    for (int i = 0; i < 3; ++i) {  // requests, splits, gradients
      const Edge* const edge = InputOf(sums_, i);
      builder.Input(edge->src()->name(), edge->src_output(),
                    tensorflow::BaseType(edge->src()->output_type(edge->src_output())));
      inputs.emplace_back(edge->src(), edge->src_output());
    }
    AddInputs(divisor, &builder, &inputs);
    SetAttributes(&builder);
    TF_RETURN_IF_ERROR(AddNodeBeside(first.node, &builder, graph_, apply));
    for (size_t i = 0; i < inputs.size(); ++i) {
      graph_->AddEdge(inputs[i].first, inputs[i].second, *apply, static_cast<int>(i));
    }
    return Status();
  }

  static std::pair<Node*, int> Source(const RankUpdate& update, const std::string& input) {
    const Edge* const edge = update.Given(input);
    return {edge->src(), edge->src_output()};
  }

  static void AddInputs(const std::vector<std::pair<Node*, int>>& list, NodeDefBuilder* builder,
                        std::vector<std::pair<Node*, int>>* inputs) {
    std::vector<NodeDefBuilder::NodeOut> given;
    for (const auto& each : list) {
      given.emplace_back(each.first->name(), each.second, each.first->output_type(each.second));
    }
    builder->Input(given);
    inputs->insert(inputs->end(), list.begin(), list.end());
  }

  // Those of the sums, for the tables that are updated.
  void SetAttributes(NodeDefBuilder* builder) const {
    const RankUpdate& first = updates_.front();
    const auto all_names = Attribute<std::vector<std::string>>(sums_, "table_names");
    const auto all_widths = Attribute<std::vector<tensorflow::int64>>(sums_, "table_widths");
    const auto served_places = Attribute<std::vector<int>>(sums_, "served");
    std::vector<std::string> names;
    std::vector<tensorflow::int64> widths;
    std::vector<int> served;
    for (size_t i = 0; i < updates_.size(); ++i) {
      const int place = updates_[i].place;
      names.push_back(all_names[place]);
      widths.push_back(all_widths[place]);
      if (std::count(served_places.begin(), served_places.end(), place) > 0) {
        served.push_back(static_cast<int>(i));
      }
    }
    builder->Attr("table_names", names)
        .Attr("table_widths", widths)
        .Attr("served", served)
        .Attr("optimizer", first.stock->optimizer->name)
        .Attr("flags", first.Flags())
        .Attr("use_locking", first.UsesLocking());
  }

  Status AddScalar(float value, Node** added) {
    const Node* const beside = updates_.front().node;
    tensorflow::Tensor tensor(tensorflow::DT_FLOAT, tensorflow::TensorShape({}));
    tensor.scalar<float>()() = value;
    NodeDefBuilder builder(NewNodeName(graph_, beside->name() + "/number"), "Const");
    builder.Attr("dtype", tensorflow::DT_FLOAT).Attr("value", tensor);
    TF_RETURN_IF_ERROR(AddNodeBeside(beside, &builder, graph_, added));
    graph_->AddControlEdge(InputOf(sums_, 0)->src(), *added);  // as updates may be in a loop
    return Status();
  }

  // And what only they have read, such as the numbers of rows.
  void RemoveReplaced() {
    std::set<Node*> read;
    for (Node* node : replaced_) {
      for (const Edge* edge : node->in_edges()) {
        if (replaced_.count(edge->src()) == 0) read.insert(edge->src());
      }
    }
    for (Node* node : replaced_) graph_->RemoveNode(node);
    while (!read.empty()) {
      Node* const node = *read.begin();
      read.erase(read.begin());
      if (!IsIdle(node)) continue;
      for (const Edge* edge : node->in_edges()) read.insert(edge->src());
      graph_->RemoveNode(node);
    }
  }

  static bool IsIdle(const Node* node) {
    static const auto* const kReads =
        new std::set<std::string>{"VarHandleOp", "VariableShape", "ReadVariableOp", "Shape"};
    if (!node->IsOp() || !node->out_edges().empty() || node->IsControlFlow()) return false;
    return !node->op_def().is_stateful() || kReads->count(node->type_string()) > 0;
  }

  Graph* const graph_;
  Node* const sums_;
  std::vector<RankUpdate> updates_;
  std::set<Node*> replaced_;
};

Status MergeUpdates(Graph* graph) {
  std::map<Node*, std::vector<RankUpdate>> found;
  for (Node* node : graph->op_nodes()) {
    if (node->type_string() == kSums) found[node];
  }
  if (found.empty()) return Status();
  for (Node* node : graph->op_nodes()) {
    const auto stock = StockUpdates().find(node->type_string());
    if (stock == StockUpdates().end()) continue;
    if (MergingOf(stock->second.op) == Merging::kUnknown) continue;
    RankUpdate update;
    update.node = node;
    update.stock = &stock->second;
    if (update.Read()) found[update.sums].push_back(update);
  }
  for (auto& each : found) {
    if (Attribute<bool>(each.first, kKeptApart)) continue;
    const std::string name =
        absl::StrCat(Attribute<std::string>(each.first, kGraph), "/", each.first->name());
    const int32_t num_tables = static_cast<int32_t>(each.second.size());
    ExchangedUpdates updates(graph, each.first, std::move(each.second));
    if (updates.AreOurs()) continue;
    const std::string refusal = updates.Refusal();
    if (refusal.empty()) TF_RETURN_IF_ERROR(updates.Merge());
    NoteUpdates(name, num_tables, refusal);
  }
  return Status();
}

class MergeUpdatesOfRanks : public tensorflow::GraphOptimizationPass {
 public:
  Status Run(const GraphOptimizationPassOptions& options) override {
    if (options.partition_graphs == nullptr) return Status();
    for (const auto& partition : *options.partition_graphs) {
      if (partition.first.find("CPU") == std::string::npos) continue;
      TF_RETURN_IF_ERROR(MergeUpdates(partition.second.get()));
    }
    return Status();
  }
};

REGISTER_OPTIMIZATION(tensorflow::OptimizationPassRegistry::POST_PARTITIONING, 90,
                      MergeUpdatesOfRanks);

}  // namespace
}  // namespace graph_opt
