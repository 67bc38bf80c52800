#include "kernels/packed/served_shards.h"

namespace graph_opt {

void ServedShards::Add(const VariableTables& variables, int variable, const std::string& table) {
  ServedShard shard = {};
  shard.table = table;
  shard.by_key = variables.dynamic_table(variable) != nullptr;
  shard.dim = variables.memory(variable).dim;
  shards_.push_back(shard);
  variables_.push_back(variable);
}

int64_t ServedShards::BytesOf(const VariableTables& variables,
                              const std::vector<std::vector<RequestedRows>>& requests) const {
  int64_t bytes = 0;
  for (size_t i = 0; i < shards_.size(); ++i) {
    const DynamicTable* const table = variables.dynamic_table(variables_[i]);
    const int64_t row_bytes = shards_[i].dim * static_cast<int64_t>(sizeof(float));
    for (const std::vector<RequestedRows>& request : requests) {
      const RequestedRows& asked = request[i];
      bytes += (NumReadRows(asked) + asked.count) * row_bytes;
      if (table != nullptr) bytes += table->BytesToFind(asked.count);
    }
  }
  return bytes;
}

absl::Status ServedShards::FindRows(const VariableTables& variables,
                                    std::vector<std::vector<RequestedRows>>* requests,
                                    Parallel* parallel) {
  for (size_t i = 0; i < shards_.size(); ++i) {
    DynamicTable* const table = variables.dynamic_table(variables_[i]);
    if (table != nullptr) {
      std::vector<RequestedRows*> of_shard;
      for (std::vector<RequestedRows>& request : *requests) of_shard.push_back(&request[i]);
      const absl::Status found = found_.Find(table, of_shard, parallel);
      if (!found.ok()) return found;
    }
    const TableMemory memory = variables.memory(variables_[i]);  // new rows among them
    shards_[i].data = memory.data;
    shards_[i].num_rows = memory.num_rows;
    if (table != nullptr) shards_[i].stride = memory.stride / static_cast<int64_t>(sizeof(float));
  }
  return absl::OkStatus();
}

}  // namespace graph_opt
