// Rows that ran ahead and are refreshed, without TensorFlow: whatever updates come between,
// the pooled rows are those of a lookup afterwards, to the bit.
#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "group_functors_testing.h"
#include "lookup/ahead_choice.h"
#include "lookup/refresh_bags.h"
#include "lookup/row_log.h"

namespace graph_opt {
namespace {

std::vector<const Bags*> BagsOf(const Group& group, int table) {
  std::vector<const Bags*> bags;
  for (size_t i = 0; i < group.bags.size(); ++i) {
    if (group.lookup_tables[i] == table) bags.push_back(&group.bags[i]->bags);
  }
  return bags;
}

// Writes all rows that `with` looks up in `group`'s tables, as an update would.
void Update(const Group& with, Group* group, std::vector<std::vector<RowLog>>* logs, int64_t kept) {
  for (size_t t = 0; t < group->tables.size(); ++t) {
    OwnedTable& table = group->tables[t];
    for (size_t i = 0; i < with.bags.size(); ++i) {
      if (with.lookup_tables[i] != static_cast<int>(t)) continue;
      for (const auto& bag : Lists(*with.bags[i])) {
        for (const Occurrence& one : bag) {
          float* const row = const_cast<float*>(table.Row(one.id));
          for (int64_t d = 0; d < table.dim; ++d) row[d] += 1.0f;
        }
      }
    }
    std::vector<RowSet> rows = RowsOf(table.map, BagsOf(with, static_cast<int>(t)));
    for (size_t s = 0; s < rows.size(); ++s) (*logs)[t][s].Append(rows[s], kept);
  }
}

void IdsAndBagsWithAChangedRowAreCounted(const Group& group,
                                         const std::vector<ChangedRows>& changed,
                                         const std::vector<RefreshedLookup>& counted) {
  CHECK(counted.size() == group.bags.size());
  for (size_t i = 0; i < group.bags.size(); ++i) {
    const int table = group.lookup_tables[i];
    const TableShards& shards = group.tables[table].map;
    RefreshedLookup expected;
    for (const auto& bag : Lists(*group.bags[i])) {
      int64_t changed_ids = 0;
      for (const Occurrence& one : bag) {
        changed_ids += changed[table].MayHave(shards, shards.KeyOf(one.id));
      }
      expected.changed_ids += changed_ids;
      ++expected.bags;
      expected.changed_bags += changed_ids > 0;
    }
    CHECK(counted[i].bags == expected.bags && counted[i].ids == group.bags[i]->bags.num_ids);
    // Where ids are not in order, all are taken for changed.
    if (counted[i].changed_bags == counted[i].bags) continue;
    CHECK(counted[i].changed_ids == expected.changed_ids);
    CHECK(counted[i].changed_bags == expected.changed_bags);
  }
}

void PooledRowsAreThoseOfALookupAfterwards(const RowKernels& kernels, int seed) {
  Random random(seed);
  Group group(&random, 3, 5, seed % 2 == 1, seed % 10 == 4, seed % 5 == 0);
  Threads threads(1 + seed % 3);
  std::vector<std::vector<RowLog>> logs;
  std::vector<std::vector<int64_t>> positions;
  for (const OwnedTable& table : group.tables) logs.emplace_back(table.parts.size());
  for (auto& of_table : logs) {
    positions.emplace_back();
    for (RowLog& log : of_table) {
      if (seed % 3 == 0) log.AppendAll();
      positions.back().push_back(log.TakePosition());
    }
  }
  CHECK(GroupLookup(group.Tables(), group.Lookups(), kernels, &threads).kind == BagFault::kNone);
  const int updates = seed % 4;
  for (int n = 0; n < updates; ++n) {
    Group with(&random, 3, 3, false, false);
    for (size_t i = 0; i < with.bags.size(); ++i) {
      const int64_t rows = group.tables[with.lookup_tables[i]].map.num_rows();
      with.bags[i].reset(new OwnedBags(&random, Below(&random, 4), rows, false));
    }
    Update(with, &group, &logs, 4 - seed % 2 * 2);
  }
  std::vector<ChangedRows> changed(group.tables.size());
  for (size_t t = 0; t < logs.size(); ++t) {
    for (size_t s = 0; s < logs[t].size(); ++s) {
      changed[t].shards.push_back(logs[t][s].Since(positions[t][s]));
    }
  }
  std::vector<RefreshedLookup> refreshed_lookups;
  CHECK(RefreshBags(group.Tables(), changed, group.Lookups(), kernels, &threads, &refreshed_lookups)
            .kind == BagFault::kNone);
  IdsAndBagsWithAChangedRowAreCounted(group, changed, refreshed_lookups);
  for (const RefreshedLookup& one : refreshed_lookups) {
    CHECK(updates > 0 || (one.changed_ids == 0 && one.changed_bags == 0));
  }
  const auto refreshed = group.pooled;
  CHECK(GroupLookup(group.Tables(), group.Lookups(), kernels, &threads).kind == BagFault::kNone);
  CHECK(refreshed == group.pooled);
}

// Of rows that nobody wrote, few are read again, and none of a small table.
void FewRowsAreTakenForChanged() {
  for (int64_t num_rows : {1000, 1 << 24}) {
    Random random(1);
    RowLog log;
    std::set<int64_t> written;
    for (int update = 0; update < 4; ++update) {
      RowSet rows(512, num_rows);
      for (int i = 0; i < 512; ++i) {
        const int64_t row = Below(&random, num_rows);
        rows.Add(row);
        written.insert(row);
      }
      log.Append(rows, 8);
    }
    const RowSet since = log.Since(0);
    int64_t taken = 0;
    const int64_t step = std::max<int64_t>(num_rows / 10000, 1);
    for (int64_t row = 0; row < num_rows; row += step) {
      const bool has = since.MayHave(row);
      CHECK(has || written.count(row) == 0);
      taken += has && written.count(row) == 0;
    }
    CHECK(num_rows == 1000 ? taken == 0 : taken < 2000);
    CHECK(log.Since(4).none() && log.Since(5).all() && log.Since(-1).all());
    log.Append(RowSet(1, num_rows), 2);
    CHECK(log.Since(2).all() && !log.Since(3).all());
    log.AppendAll();
    CHECK(log.Since(5).all() && log.Since(6).none());
  }
}

// Rows that updates have written more often than they may miss are told, and of a small table no
// others.
void RowsThatMissedMoreThanTheyMayAreTold() {
  for (int64_t num_rows : {40, 1 << 20}) {
    for (int seed = 0; seed < 40; ++seed) {
      Random random(seed);
      RowLog log;
      std::vector<std::map<int64_t, int>> written(6);  // since each position, how often
      for (size_t update = 0; update < written.size(); ++update) {
        RowSet rows(1 + Below(&random, 60), num_rows);
        std::set<int64_t> once;
        for (int64_t i = Below(&random, 60); i > 0; --i) once.insert(Below(&random, 50) % num_rows);
        for (int64_t row : once) rows.Add(row);
        for (size_t since = 0; since <= update; ++since) {
          for (int64_t row : once) ++written[since][row];
        }
        log.Append(rows, 6);
      }
      for (size_t since = 0; since < written.size(); ++since) {
        for (int may_miss = 0; may_miss < 7; ++may_miss) {
          const RowSet told = log.Since(static_cast<int64_t>(since), may_miss);
          const int updates = static_cast<int>(written.size() - since);
          CHECK(may_miss < updates || told.none());
          for (int64_t row = 0; row < 50 && row < num_rows; ++row) {
            const bool more = written[since][row] > may_miss;
            CHECK(told.MayHave(row) || !more);
            CHECK(num_rows > 64 || told.MayHave(row) == more);
          }
        }
      }
      log.AppendAll();
      log.Append(RowSet(1, num_rows), 6);
      CHECK(log.Since(6, 5).all() && log.Since(7, 5).none() && log.Since(5, 5).all());
    }
  }
}

// Sets of different sizes have the rows of both, whichever is added to which.
void SetsOfDifferentSizesAreJoined() {
  for (int64_t few : {1, 3, 100}) {
    RowSet small(few, int64_t{1} << 40);
    RowSet large(few * 50, int64_t{1} << 40);
    const int64_t row = (int64_t{1} << 39) + 12345;
    small.Add(row);
    large.Add(row + 1);
    RowSet one = small;
    one.Add(large);
    large.Add(small);
    for (int64_t each : {row, row + 1}) CHECK(one.MayHave(each) && large.MayHave(each));
    RowSet both = one;
    both.Keep(small);
    CHECK(both.MayHave(row) && !both.MayHave(row + 1));
    small.Keep(one);
    CHECK(small.MayHave(row) && !small.MayHave(row + 1));
    both.Keep(RowSet::OfAll());
    CHECK(both.MayHave(row) && !both.all());
    both.Keep(RowSet());
    CHECK(both.none());
    RowSet any = RowSet::OfAll();
    any.Keep(small);
    CHECK(any.MayHave(row) && !any.all());
    RowSet none;
    none.Add(small);
    CHECK(none.MayHave(row) && !none.all());
    small.Add(RowSet());
    CHECK(small.MayHave(row));
    small.Add(RowSet::OfAll());
    CHECK(small.all() && small.MayHave(0));
  }
}

// A table whose bags are mostly pooled again is left out, is tried now and then, and comes back.
void TablesAreLeftOutWhereItIsInVain() {
  AheadChoice choice;
  int64_t left_out = 0;
  for (int batch = 0; batch < 300; ++batch) {
    const std::vector<bool> ahead = choice.Choose(3);
    CHECK(ahead.size() == 3 && ahead[0] && ahead[1]);
    choice.Learn(0, 100, 10);
    choice.Learn(1, 100, batch % 2 == 0 ? 30 : 10);
    if (ahead[2]) choice.Learn(2, 100, 60);
    choice.Learn(2, 0, 0);
    left_out += !ahead[2];
  }
  CHECK(left_out > 290 && left_out < 300);
  int64_t trials = 0;
  while (trials < 30 && left_out > 0) {
    left_out = 0;
    for (int batch = 0; batch < 200; ++batch) {
      const bool ahead = choice.Choose(3)[2];
      if (ahead) choice.Learn(2, 100, 5);
      left_out += !ahead;
    }
    ++trials;
  }
  CHECK(left_out == 0);
}

void TablesThatStayOutAreTriedEverMoreRarely() {
  AheadChoice choice;
  std::vector<int64_t> tried;
  for (int batch = 0; batch < 4096; ++batch) {
    if (!choice.Choose(1)[0]) continue;
    choice.Learn(0, 100, 60);
    tried.push_back(batch);
  }
  CHECK(tried.size() < 10);
  CHECK(tried.back() - tried[tried.size() - 2] == 1024);
}

// A log has readers as long as it could answer the last of them.
void RowsNobodyAsksForNeedNotBeTold() {
  RowLog log;
  CHECK(!log.IsAwaited(2));
  log.AppendAll();
  const int64_t position = log.TakePosition();
  for (int update = 0; update < 2; ++update) {
    CHECK(log.IsAwaited(2));
    log.Append(RowSet(1, 10), 2);
    CHECK(!log.Since(position).all());
  }
  CHECK(!log.IsAwaited(2));
  log.Append(RowSet(1, 10), 2);
  CHECK(log.Since(position).all());
  log.TakePosition();
  CHECK(log.IsAwaited(2));
}

// Readers in other threads: a value that is no longer the newest is always told.
void NoUpdateIsMissedWhileReading() {
  RowLog log;
  std::atomic<int64_t> value{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!done) {
        const int64_t position = log.TakePosition();
        const int64_t read = value;
        const RowSet since = log.Since(position);
        const int64_t now = log.TakePosition();
        CHECK(now == position || since.MayHave(7) || read >= position);
        CHECK(read >= position);
      }
    });
  }
  for (int64_t update = 1; update <= 20000; ++update) {
    value = update;
    RowSet rows(1, 10);
    rows.Add(7);
    log.Append(rows, 3);
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace graph_opt

int main() {
  using namespace graph_opt;
  FewRowsAreTakenForChanged();
  RowsThatMissedMoreThanTheyMayAreTold();
  SetsOfDifferentSizesAreJoined();
  TablesAreLeftOutWhereItIsInVain();
  TablesThatStayOutAreTriedEverMoreRarely();
  RowsNobodyAsksForNeedNotBeTold();
  NoUpdateIsMissedWhileReading();
  for (const RowKernels* const* set = RunnableRowKernels(); *set != nullptr; ++set) {
    for (int seed = 0; seed < 120; ++seed) PooledRowsAreThoseOfALookupAfterwards(**set, seed);
  }
  return 0;
}
