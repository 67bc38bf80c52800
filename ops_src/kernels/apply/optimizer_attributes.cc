#include "kernels/apply/optimizer_attributes.h"

#include <vector>

#include "optimizers/description.h"

namespace graph_opt {
namespace {

template <typename Named>
std::string NamesOf(const std::vector<Named>& all, const char* before, const char* after) {
  std::string names;
  for (const Named& one : all) {
    names += (names.empty() ? "" : ", ") + std::string(before) + one.name + after;
  }
  return names.empty() ? "none" : names;
}

// A line for each optimizer.
template <typename Named>
std::string Listed(std::vector<Named> OptimizerDescription::* list) {
  std::string lines;
  for (const OptimizerDescription& of : OptimizerDescriptions()) {
    lines += "\n  " + of.name + ": " + NamesOf(of.*list, "", "") + ".";
  }
  return lines;
}

}  // namespace

std::string OptimizerAttr() {
  return "optimizer: {" + NamesOf(OptimizerDescriptions(), "'", "'") + "}";
}

std::string RowLogsDoc(const std::string& doc) {
  return doc + R"doc(
row_logs: Empty, or for each shard the container and name of the log that its rows are added to, for
  lookups that ran ahead; an empty entry for none.
row_log_length: How many updates these logs keep.)doc";
}

std::string RowStatesDoc(const std::string& doc) {
  return doc + R"doc(
row_states: [shards], or empty for an update that is not deferred. Where is kept up to which step
  the rows of each shard are current: the container of the variable, if it has one, and a colon,
  then its shared_name, or its name if it has none. A name with a colon has one before it, too.)doc";
}

std::string OptimizerDoc(const std::string& doc) {
  return RowStatesDoc(doc + R"doc(
slots: Those of the optimizer: the first slot of every shard, then the second one of every shard.)doc" +
                      Listed(&OptimizerDescription::slots) + R"doc(
hyperparameters: Scalars, in this order.)doc" +
                      Listed(&OptimizerDescription::hyperparameters) + R"doc(
optimizer: Whose formula updates the rows.
num_slots: Shards times the optimizer's slots, and one more for an average.
averaged: The slots of each shard end with an average of it over time, which GroupEmbeddingAverage
  moves. Then any optimizer takes row_states: an average moves before its weights do.
num_hyperparameters: As listed above.
own_hyperparameters: Places in that list of those that each shard has its own value of. There come the
  values of all shards, in order. Not with row_states, and on CPUs only.
flags: Those of the optimizer that are set.)doc" +
                      Listed(&OptimizerDescription::flags) + R"doc(
use_locking: Lock the variables exclusively.)doc");
}

}  // namespace graph_opt
