#ifndef GRAPH_OPT_DYNAMIC_READ_LOCKS_H_
#define GRAPH_OPT_DYNAMIC_READ_LOCKS_H_

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "dynamic/dynamic_table.h"

namespace graph_opt {

// ReadLocks of several tables, one of each. They are taken in the order of the tables' addresses,
// so that no two calls wait for each other while somebody waits to have a table alone.
class ReadLocks {
 public:
  void Take(std::vector<const DynamicTable*> tables) {
    std::sort(tables.begin(), tables.end(), std::less<const DynamicTable*>());
    tables.erase(std::unique(tables.begin(), tables.end()), tables.end());
    for (const DynamicTable* table : tables) {
      locks_.emplace_back(new DynamicTable::ReadLock(table));
    }
  }
  void Release() { locks_.clear(); }

 private:
  std::vector<std::unique_ptr<DynamicTable::ReadLock>> locks_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_DYNAMIC_READ_LOCKS_H_
