// Updates of tables by sums of what ranks have sent, as optimizers of TensorFlow write them.
#ifndef GRAPH_OPT_KERNELS_EXCHANGE_RANK_UPDATES_H_
#define GRAPH_OPT_KERNELS_EXCHANGE_RANK_UPDATES_H_

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "optimizers/description.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/graph/graph.h"

namespace graph_opt {

// The op that sums, and what ops of TensorFlow that take handles have before their names.
extern const char kSums[];
extern const char kResource[];

// An op of TensorFlow's that updates rows.
struct StockUpdate {
  const OptimizerDescription* optimizer;
  std::string op;  // without "Resource"
  std::vector<std::string> inputs;
  bool has_handles;

  // Where an input comes; -1: it does not.
  int PlaceOf(const std::string& input) const {
    const auto found = std::find(inputs.begin(), inputs.end(), input);
    return found == inputs.end() ? -1 : static_cast<int>(found - inputs.begin());
  }
};

// Those that take rows, by type.
const std::map<std::string, StockUpdate>& StockUpdates();

bool IsOneOf(const tensorflow::Node* node, const std::set<std::string>& types);

const tensorflow::Edge* InputOf(const tensorflow::Node* node, int place);

// An attribute of a node; 0 or empty where it has none.
template <typename T>
T Attribute(const tensorflow::Node* node, const char* name) {
  T value{};
  return GetNodeAttr(node->attrs(), name, &value).ok() ? value : T{};
}

// Whether the edge has a scalar that is known, perhaps cast to float, and which.
bool ReadScalar(const tensorflow::Edge* edge, float* value);

// By what sums are divided before an update takes them.
struct Divisor {
  const tensorflow::Edge* edge = nullptr;  // a tensor that is known to be a scalar; or
  float value = 1;
  std::string key;  // the same for the same divisor; empty: they are not divided

  // Whether a node divides `divided` by one number. TensorFlow itself multiplies by the reciprocals
  // of constants, which gives the bits of a division where these are powers of two.
  bool Read(const tensorflow::Node* quotient, const tensorflow::Edge** divided);

 private:
  bool IsNumberOfRanks(const tensorflow::Edge* divisor);
};

// The update of a table from what ranks have sent.
struct RankUpdate {
  tensorflow::Node* node = nullptr;
  const StockUpdate* stock = nullptr;
  tensorflow::Node* sums = nullptr;
  int place = 0;                           // of the table in the exchange
  std::vector<tensorflow::Node*> between;  // the sums and the update
  Divisor divisor;

  // Whether `node` is such an update.
  bool Read();

  const tensorflow::Edge* Given(const std::string& input) const {
    return InputOf(node, stock->PlaceOf(input));
  }

  // The same for updates that one op can do.
  std::string Key() const;

  // Those that are set.
  std::vector<std::string> Flags() const;

  bool UsesLocking() const { return Attribute<bool>(node, "use_locking"); }
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_EXCHANGE_RANK_UPDATES_H_
