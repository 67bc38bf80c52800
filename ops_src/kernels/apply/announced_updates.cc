#include "kernels/apply/announced_updates.h"

#include "dynamic/dynamic_table.h"
#include "scratch/scratch_array.h"

namespace graph_opt {
namespace {

int64_t IdAt(const Bags& bags, int64_t k) {
  if (bags.wide_ids) return static_cast<const int64_t*>(bags.ids)[k];
  return static_cast<const int32_t*>(bags.ids)[k];
}

// Row r of part p of P has the id r * P + p.
void AnnounceTo(DynamicTable* table, int64_t part, int64_t num_parts, const Bags& bags) {
  const DynamicTable::Rows places = table->rows();
  ScratchArray<int64_t> rows(bags.num_ids);
  int64_t count = 0;
  for (int64_t k = 0; k < bags.num_ids; ++k) {
    const int64_t id = IdAt(bags, k);
    if (id < 0 || (num_parts > 1 && id % num_parts != part)) continue;
    const int64_t row = num_parts > 1 ? id / num_parts : id;
    if (row >= places.first_row && row < places.end) rows[count++] = row;
  }
  table->WillWrite(rows.data(), count);
}

}  // namespace

void AnnounceUpdates(const VariableTables& variables, const GroupAttrs& attrs,
                     const std::vector<PooledGradient>& lookups) {
  for (const PooledGradient& lookup : lookups) {
    const int first = attrs.first_shard(lookup.table);
    const int num_parts = attrs.first_shard(lookup.table + 1) - first;
    for (int part = 0; part < num_parts; ++part) {
      DynamicTable* const table = variables.dynamic_table(first + part);
      if (table != nullptr) AnnounceTo(table, part, num_parts, lookup.bags);
    }
  }
}

}  // namespace graph_opt
