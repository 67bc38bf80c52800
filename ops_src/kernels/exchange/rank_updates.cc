#include "kernels/exchange/rank_updates.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <set>

#include "absl/strings/str_cat.h"
#include "kernels/tensorflow_compat.h"
#include "tensorflow/core/framework/tensor.h"

namespace graph_opt {
namespace {

using tensorflow::Edge;
using tensorflow::Node;
using tensorflow::TryGetNodeAttr;

// Reads "Op(one, another)".
void ReadStockOp(const std::string& drawn, StockUpdate* update) {
  const size_t opens = drawn.find('(');
  update->op = drawn.substr(0, opens);
  std::string name;
  for (size_t i = opens + 1; i < drawn.size(); ++i) {
    if (drawn[i] == ',' || drawn[i] == ')') {
      update->inputs.push_back(name);
      name.clear();
    } else if (drawn[i] != ' ') {
      name.push_back(drawn[i]);
    }
  }
}

// The edge before nodes of these types, which are noted.
const Edge* Before(const Edge* edge, const std::set<std::string>& types,
                   std::vector<Node*>* between) {
  while (edge != nullptr && IsOneOf(edge->src(), types)) {
    between->push_back(edge->src());
    edge = InputOf(edge->src(), 0);
  }
  return edge;
}

bool IsOutput(const Edge* edge, const char* type, int place) {
  return edge != nullptr && edge->src()->type_string() == type && edge->src_output() == place;
}

std::string BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return absl::StrCat("=", bits);
}

// The same for edges that have the same value.
std::string KeyOf(const Edge* edge) {
  float value;
  if (ReadScalar(edge, &value)) return BitsOf(value);
  return absl::StrCat(edge->src()->id(), ":", edge->src_output());
}

}  // namespace

int StockUpdate::PlaceOf(const std::string& input) const {
  const auto found = std::find(inputs.begin(), inputs.end(), input);
  return found == inputs.end() ? -1 : static_cast<int>(found - inputs.begin());
}

const std::map<std::string, StockUpdate>& StockUpdates() {
  static const auto* const updates = [] {
    auto* const found = new std::map<std::string, StockUpdate>;
    for (const OptimizerDescription& optimizer : OptimizerDescriptions()) {
      for (const std::string& drawn : optimizer.stock_ops) {
        StockUpdate update{&optimizer, "", {}, false};
        ReadStockOp(drawn, &update);
        if (update.PlaceOf("rows") < 0 || optimizer.moves_every_row) continue;
        found->emplace(update.op, update);
        update.has_handles = true;
        found->emplace(kResource + update.op, update);
      }
    }
    return found;
  }();
  return *updates;
}

bool ReadScalar(const Edge* edge, float* value) {
  tensorflow::Tensor tensor;
  if (edge != nullptr && edge->src()->type_string() == "Cast") edge = InputOf(edge->src(), 0);
  if (!ReadConstant(edge, &tensor) || tensor.dims() != 0) return false;
  if (tensor.dtype() == tensorflow::DT_INT32) {
    *value = static_cast<float>(tensor.scalar<tensorflow::int32>()());
  } else if (tensor.dtype() == tensorflow::DT_FLOAT) {
    *value = tensor.scalar<float>()();
  } else {
    return false;
  }
  return true;
}

bool Divisor::Read(const Node* quotient, const Edge** divided) {
  const Edge* const left = InputOf(quotient, 0);
  const Edge* const right = InputOf(quotient, 1);
  *divided = left;
  if (quotient->type_string() != "Mul") {
    if (!ReadScalar(right, &value)) return IsNumberOfRanks(right);
    key = BitsOf(value);
    return true;
  }
  if (!ReadScalar(right, &value)) {
    if (!ReadScalar(left, &value)) return false;
    *divided = right;
  }
  int exponent;
  if (std::frexp(value, &exponent) != 0.5f) return false;
  value = 1 / value;
  key = BitsOf(value);
  return true;
}

bool Divisor::IsNumberOfRanks(const Edge* divisor) {
  std::vector<Node*> casts;
  const Edge* const number = Before(divisor, {"Cast", "Identity"}, &casts);
  if (number == nullptr || number->src()->type_string() != "HorovodSize") return false;
  edge = divisor;
  key = absl::StrCat("ranks of ", Attribute<int>(number->src(), "process_set_id"));
  return true;
}

bool RankUpdate::Read() {
  const Edge* rows = Before(Given("rows"), {"Identity", "Cast"}, &between);
  const Edge* values = BeforeDivision(Given("gradient"));
  if (IsOutput(rows, "Unique", 0)) {
    Node* const unique = rows->src();
    between.push_back(unique);
    rows = Before(InputOf(unique, 0), {"Identity", "Cast"}, &between);
    values = BeforeSum(values, unique);
    if (divisor.key.empty()) values = BeforeDivision(values);
  }
  if (rows == nullptr || values == nullptr) return false;
  sums = rows->src();
  place = rows->src_output();
  return values->src() == sums && sums->type_string() == kSums &&
         values->src_output() == Attribute<int>(sums, "num_shards") + place;
}

const Edge* RankUpdate::BeforeDivision(const Edge* quotient) {
  const Edge* values = Before(quotient, {"Identity"}, &between);
  if (values == nullptr || !IsOneOf(values->src(), {"RealDiv", "Div", "Mul"})) return values;
  between.push_back(values->src());
  if (!divisor.Read(values->src(), &values)) return nullptr;
  return Before(values, {"Identity"}, &between);
}

const Edge* RankUpdate::BeforeSum(const Edge* summed, const Node* unique) {
  if (!IsOutput(summed, "UnsortedSegmentSum", 0)) return nullptr;
  Node* const sum = summed->src();
  between.push_back(sum);
  const Edge* const numbers = Before(InputOf(sum, 1), {"Identity"}, &between);
  const Edge* const shape = Before(InputOf(sum, 2), {"StridedSlice", "Identity", "Cast"}, &between);
  if (!IsOutput(shape, "Shape", 0)) return nullptr;
  between.push_back(shape->src());
  const Edge* const found = Before(InputOf(shape->src(), 0), {"Identity"}, &between);
  const bool is_by_row = IsOutput(numbers, "Unique", 1) && numbers->src() == unique &&
                         IsOutput(found, "Unique", 0) && found->src() == unique;
  return is_by_row ? InputOf(sum, 0) : nullptr;
}

std::string RankUpdate::Key() const {
  std::string key = absl::StrCat(node->type_string(), " ", divisor.key);
  for (const auto& one : stock->optimizer->hyperparameters) {
    if (stock->PlaceOf(one.name) >= 0) absl::StrAppend(&key, " ", KeyOf(Given(one.name)));
  }
  for (const std::string& flag : Flags()) absl::StrAppend(&key, " ", flag);
  if (UsesLocking()) absl::StrAppend(&key, " locked");
  std::set<int> waits;
  for (const Edge* edge : node->in_edges()) {
    if (edge->IsControlEdge() && edge->src()->IsOp()) waits.insert(edge->src()->id());
  }
  for (int id : waits) absl::StrAppend(&key, " ^", id);
  return key;
}

std::vector<std::string> RankUpdate::Flags() const {
  std::vector<std::string> set;
  for (const auto& flag : stock->optimizer->flags) {
    bool is_set = flag.is_set;
    TryGetNodeAttr(node->attrs(), flag.name, &is_set);
    if (is_set) set.push_back(flag.name);
  }
  return set;
}

}  // namespace graph_opt
