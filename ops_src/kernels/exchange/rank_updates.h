#ifndef GRAPH_OPT_KERNELS_EXCHANGE_RANK_UPDATES_H_
#define GRAPH_OPT_KERNELS_EXCHANGE_RANK_UPDATES_H_

#include <map>
#include <string>
#include <vector>

#include "kernels/graphs/graph_nodes.h"
#include "optimizers/description.h"
#include "tensorflow/core/graph/graph.h"

// Finds the updates of sharded tables that optimizers of TensorFlow write, in what a session runs:
//
//   ExchangeGatherGrad -> rows of each table -> [Unique] ----------------------> SparseApply*
//                      -> sums of each table -> [RealDiv], [UnsortedSegmentSum] ->
//
// Optimizers sum what they get for the same row, which changes nothing where each row comes once
// (but the sign of a zero).

namespace graph_opt {

// The op that sums what ranks send.
constexpr char kSums[] = "ExchangeGatherGrad";
constexpr char kResource[] = "Resource";

// An op of TensorFlow's that updates rows.
struct StockUpdate {
  const OptimizerDescription* optimizer;
  std::string op;  // without "Resource"
  std::vector<std::string> inputs;
  bool has_handles;

  // Where an input comes; -1: it does not.
  int PlaceOf(const std::string& input) const;
};

// Those that take rows, by type.
const std::map<std::string, StockUpdate>& StockUpdates();

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

 private:
  // What is divided; null if something is divided by what is unknown.
  const tensorflow::Edge* BeforeDivision(const tensorflow::Edge* quotient);

  // What is summed by the numbers that `unique` gives rows; null if something else is.
  const tensorflow::Edge* BeforeSum(const tensorflow::Edge* summed, const tensorflow::Node* unique);
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_EXCHANGE_RANK_UPDATES_H_
