// Deferred rows without TensorFlow: who catches up which rows, at the same time as whom.
#include <cfloat>
#include <cstdlib>
#include <thread>

#include "deferred_functors_testing.h"
#include "packed/deferred_request.h"
#include "packed/row_update.h"

namespace graph_opt {
namespace {

Optimizer AdamAt(int64_t step, float epsilon = 1e-3f, float beta2 = 0.99f) {
  const auto power = [step](float beta) {
    return static_cast<float>(std::pow(beta, static_cast<double>(step + 1)));
  };
  return MakeOptimizer("Adam", {0.01f, 0.9f, beta2, epsilon, power(0.9f), power(beta2)});
}

std::vector<int64_t> RandomIds(Random* random, int64_t rows, int64_t most) {
  std::vector<int64_t> ids(Below(random, most + 1));
  for (int64_t& id : ids) id = Below(random, rows);
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

std::vector<float> RandomGradients(Random* random, int64_t count) {
  std::vector<float> gradients(count);
  for (float& gradient : gradients) gradient = Number(random);
  return gradients;
}

void RandomStep(Random* random, int64_t rows, int64_t dim, const Optimizer& optimizer, int64_t run,
                Training* training, Parallel* parallel) {
  const std::vector<int64_t> ids = RandomIds(random, rows, 12);
  training->Step(optimizer, ids, RandomGradients(random, static_cast<int64_t>(ids.size()) * dim),
                 parallel, run);
}

// Whether a row is where all its steps take it, up to rounding. One step more or less would change
// moments by a percent or more.
bool IsCurrent(const Training& training, int64_t row) {
  for (int which = 0; which < 3; ++which) {
    const double of_float = training.Stepwise(which, row).greatest;
    if (training.Deferred(which, row).greatest > 2 * of_float + 100) return false;
  }
  return true;
}

void RowsAreCaughtUpOneByOne(int seeds) {
  constexpr int64_t kRows = 50;
  constexpr int64_t kDim = 5;
  for (int seed = 0; seed < seeds; ++seed) {
    Random random(seed);
    Threads threads(3);
    Training training(&random, kRows, kDim, {0, 0}, BestRowKernels());
    training.CatchUp({0, 1}, &threads);  // nothing has happened
    std::vector<bool> touched(kRows, false);
    for (int step = 0; step < 120; ++step) {
      RandomStep(&random, kRows, kDim, AdamAt(step), step, &training, &threads);
      std::vector<int64_t> ids = RandomIds(&random, kRows, 20);
      ids.insert(ids.end(), {-1, kRows, int64_t{1} << 40, 3, 3});
      training.CatchUp(ids, &threads);
      for (int64_t id : ids) {
        if (id >= 0 && id < kRows) CHECK(IsCurrent(training, id));
      }
    }
    training.CatchUpAll(&threads);
    for (int64_t row = 0; row < kRows; ++row) CHECK(IsCurrent(training, row));
    const Values<float> settled = training.deferred();
    training.CatchUpAll(&threads);
    CHECK(training.deferred() == settled);
  }
}

// A row whose slots are assigned while it rests is no longer at rest.
void AssignedSlotsAreNoticed() {
  constexpr int64_t kRows = 9;
  constexpr int64_t kDim = 3;
  Random random(5);
  Sequential sequential;
  Training training(&random, kRows, kDim, {0, 0}, BestRowKernels());
  const auto idle = [&](int64_t step) {
    training.Step(AdamAt(step), {0}, std::vector<float>(kDim, 0.5f), &sequential, step);
  };
  const auto assign = [&](int64_t row, float value) {
    for (int which : {1, 2}) training.Assign(which, row, value);
  };
  assign(4, 0.25f);  // before the first step, as a checkpoint does
  for (int step = 0; step < 5; ++step) idle(step);
  training.CatchUp({4, 7}, &sequential);  // row 7 rests
  CHECK(IsCurrent(training, 4));
  training.CatchUpAll(&sequential);
  assign(7, 0.5f);
  for (int step = 5; step < 9; ++step) idle(step);
  training.CatchUp({7}, &sequential);
  CHECK(IsCurrent(training, 7));
  CHECK(training.deferred()[1][7 * kDim] < 0.5f);
}

// A run that had all rows caught up leaves them so; other runs do not.
void RunsWithADenseReaderEndSettled() {
  constexpr int64_t kRows = 20;
  Random random(6);
  Sequential sequential;
  Training training(&random, kRows, 4, {0, 0}, BestRowKernels());
  const auto step_in_run = [&](int64_t step, int64_t run) {
    const Values<float> before = training.deferred();
    training.Step(AdamAt(step), {1}, std::vector<float>(4, 1.0f), &sequential, run);
    return training.deferred()[1][2 * 4] != before[1][2 * 4];
  };
  training.Step(AdamAt(0), {1, 2}, std::vector<float>(8, 1.0f), &sequential, 0);
  CHECK(!step_in_run(1, 1));
  training.CatchUpAll(&sequential, 2);
  CHECK(step_in_run(2, 2));
  for (int64_t row = 0; row < kRows; ++row) CHECK(IsCurrent(training, row));
  CHECK(!step_in_run(3, 3));
}

// Another epsilon or beta is another rule, under which no row may make steps of the one before.
void RulesMayChange() {
  constexpr int64_t kRows = 30;
  Random random(8);
  Threads threads(2);
  Training training(&random, kRows, 6, {0, 0}, BestRowKernels());
  for (int step = 0; step < 400; ++step) {
    const int rule = step / 60;
    const Optimizer optimizer =
        AdamAt(step, rule % 2 == 0 ? 1e-3f : 0.1f, rule % 3 == 0 ? 0.99f : 0.9f);
    RandomStep(&random, kRows, 6, optimizer, step, &training, &threads);
  }
  training.CatchUpAll(&threads);
  for (int64_t row = 0; row < kRows; ++row) CHECK(IsCurrent(training, row));
}

// No row misses so many steps that the sums it needs are forgotten.
void OldRowsAreSwept() {
  constexpr int64_t kRows = 200;
  Random random(9);
  Sequential sequential;
  Training training(&random, kRows, 2, {0, 0}, BestRowKernels());
  const std::vector<float> gradients(kRows * 2, 0.5f);
  std::vector<int64_t> all(kRows);
  for (int64_t row = 0; row < kRows; ++row) all[row] = row;
  training.Step(AdamAt(0), all, gradients, &sequential);
  bool any_old = false;
  for (int step = 1; step < 5000; ++step) {
    training.Step(AdamAt(step), {0}, {0.5f, 0.25f}, &sequential, step);
    for (int64_t row = 0; row < kRows; ++row) {
      const int64_t age = training.Age(row);
      CHECK(age <= 768);
      any_old |= age > 256;
    }
  }
  CHECK(any_old);
  training.CatchUpAll(&sequential);
  for (int64_t row = 0; row < kRows; ++row) CHECK(IsCurrent(training, row));
}

// Threads catch up rows all the time, and now and then all rows, while updates run.
void ManyThreadsAtOnce() {
  constexpr int64_t kRows = 300;
  Random random(10);
  Threads threads(2);
  Training training(&random, kRows, 8, {0, 0}, BestRowKernels());
  std::atomic<bool> done(false);
  std::vector<std::thread> readers;
  for (int reader = 0; reader < 3; ++reader) {
    readers.emplace_back([&, reader] {
      Random own(100 + reader);
      Sequential sequential;
      while (!done) {
        training.CatchUp(RandomIds(&own, kRows, 64), &sequential);
        if (Below(&own, 20) == 0) training.CatchUpAll(&sequential, 1 << 30);
      }
    });
  }
  for (int step = 0; step < 600; ++step) {
    RandomStep(&random, kRows, 8, AdamAt(step), step, &training, &threads);
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
  training.CatchUpAll(&threads);
  for (int64_t row = 0; row < kRows; ++row) CHECK(IsCurrent(training, row));
}

// Some tables in shards with deferred rows, two steps of them, as a lookup and as servers catch up
// and update them.
struct Sharded {
  explicit Sharded(Random* random) : table(random, 41, 3, 3, Partition::kDiv) {
    for (const std::vector<float>& part : table.parts) {
      slots.emplace_back(part.size(), 0.5f);
      states.emplace_back(new DeferredRows(static_cast<int64_t>(part.size()) / 3));
    }
  }

  std::vector<DeferredShard> Places() {
    std::vector<DeferredShard> places(states.size());
    for (size_t shard = 0; shard < states.size(); ++shard) {
      places[shard].rows = states[shard].get();
      places[shard].table = table.parts[shard].data();
      places[shard].slots[0] = places[shard].slots[1] = slots[shard].data();
      places[shard].dim = 3;
    }
    return places;
  }

  // Whether the row has been caught up since all slots were 0.5.
  bool IsBrought(int64_t id) const {
    const int64_t key = table.map.KeyOf(id);
    const int shard = table.map.ShardOf(key);
    return slots[shard][(key - table.map.first_key(shard)) * 3] != 0.5f;
  }

  OwnedTable table;
  std::vector<std::vector<float>> slots;  // as both moments
  std::vector<std::unique_ptr<DeferredRows>> states;
};

void IdsAreThoseOfShardsAndBags() {
  Random random(12);
  Threads threads(2);
  for (bool wide : {false, true}) {
    Sharded sharded(&random);
    {
      DeferredUpdate idle(AdamAt(0), sharded.Places(), 0, BestRowKernels(), &threads);
    }
    const int64_t wide_ids[] = {0, 40, -3, 14, 41};
    const int32_t narrow_ids[] = {0, 40, -3, 14, 41};
    DeferredLookup lookup = {};
    lookup.bags.ids = wide ? static_cast<const void*>(wide_ids) : narrow_ids;
    lookup.bags.wide_ids = wide;
    lookup.bags.num_ids = 5;
    lookup.bags.default_id = 27;
    DeferredTable table = {sharded.table.map, sharded.Places()};
    table.shards[2].rows = wide ? table.shards[2].rows : nullptr;
    CatchUp({table}, {lookup}, BestRowKernels(), &threads);
    for (int64_t id = 0; id < 41; ++id) {
      const bool named = id == 0 || id == 14 || id == 27 || id == 40;
      const bool is_deferred = wide || sharded.table.map.ShardOf(sharded.table.map.KeyOf(id)) != 2;
      CHECK(sharded.IsBrought(id) == (named && is_deferred));
    }
  }
}

void RequestsNameRowsAndBags() {
  Random random(13);
  Threads threads(2);
  Sharded sharded(&random);
  {
    DeferredUpdate idle(AdamAt(0), sharded.Places(), 0, BestRowKernels(), &threads);
  }
  const int64_t ids[] = {0, 5, 300, 13};
  const int64_t positions[] = {0, 0, 1, 3};
  Bags bags;
  bags.layout = Bags::kSparse;
  bags.ids = ids;
  bags.num_ids = 4;
  bags.positions = positions;
  bags.num_bags = 4;
  bags.default_id = 7;
  BagPacking packing;
  CHECK(packing.Read(bags, 301).kind == BagFault::kNone);
  std::vector<int64_t> request = {0, 2, 3, 99, 1, packing.num_words()};
  request.resize(request.size() + packing.num_words());
  CHECK(packing.Write(request.data() + 6) == request.data() + request.size());
  request.insert(request.end(), {0, 0});
  std::vector<ServedShard> served;
  for (const DeferredShard& place : sharded.Places()) {
    served.push_back({"table", place.table, place.rows->num_rows(), 3});
  }
  std::vector<RequestedRows> requested;
  CHECK(ReadRequest(request.data(), static_cast<int64_t>(request.size()), served, &requested).ok());
  CatchUp(sharded.Places(), requested, DeferredNeeds::kAll, BestRowKernels(), &threads);
  const int64_t second = sharded.table.map.first_key(1);
  for (int64_t id = 0; id < 41; ++id) {
    const bool named =
        id == 3 || id == second || id == second + 5 || id == second + 7 || id == second + 13;
    CHECK(sharded.IsBrought(id) == named);
  }
}

// The update of a server gives the bits of a local one, and both wait for each other.
void ServersUpdateAsLocalTables() {
  Random random(14);
  Threads threads(2);
  constexpr int64_t kRows = 3000;
  constexpr int64_t kDim = 2;
  Values<float> local(3, std::vector<float>(kRows * kDim, 0.0f));
  Values<float> served = local;
  DeferredRows local_state(kRows);
  DeferredRows served_state(kRows);
  for (int step = 0; step < 30; ++step) {
    std::vector<int64_t> rows = RandomIds(&random, kRows, 2500);
    std::vector<float> gradients =
        RandomGradients(&random, static_cast<int64_t>(rows.size()) * kDim);
    UpdatedTable table;
    table.table.shards = TableShards(Partition::kMod, {kRows});
    table.table.dim = kDim;
    table.shards.push_back({local[0].data(), {local[1].data(), local[2].data()}, &local_state});
    PooledGradient lookup = {};
    lookup.bags.ids = rows.data();
    lookup.bags.num_ids = lookup.bags.num_bags = static_cast<int64_t>(rows.size());
    lookup.gradients = gradients.data();
    lookup.stride = kDim;
    UpdatedShard shard = {
        "table", served[0].data(), {served[1].data(), served[2].data()}, kRows, kDim};
    shard.deferred = &served_state;
    RowUpdate update;
    update.blocks.push_back({static_cast<int64_t>(rows.size()), kDim, 0,
                             static_cast<int64_t>(rows.size()), rows.data(), gradients.data()});
    update.bags.resize(1);
    DeferredShard local_place = {&local_state, local[0].data(), {}, kDim};
    DeferredShard served_place = {&served_state, served[0].data(), {}, kDim};
    for (int slot = 0; slot < 2; ++slot) {
      local_place.slots[slot] = local[slot + 1].data();
      served_place.slots[slot] = served[slot + 1].data();
    }
    DeferredUpdate both(AdamAt(step), {served_place, local_place, DeferredShard(), local_place},
                        step, BestRowKernels(), &threads);
    GroupApply(AdamAt(step), {table}, {lookup}, BestRowKernels(), &threads);
    ApplyUpdate(AdamAt(step), {shard}, update, BestRowKernels(), &threads);
  }
  CHECK(local == served);
}

void OthersAreNotDeferrable() {
  const auto says = [](const Optimizer& optimizer, const char* what) {
    return std::string(CheckDeferrable(optimizer).message()).find(what) != std::string::npos;
  };
  CHECK(CheckDeferrable(AdamAt(0)).ok());
  CHECK(says(AdamAt(0, 0.0f), "epsilon is 0; need more than 0"));
  CHECK(says(AdamAt(0, 1.0f, 1.5f), "multiplied by 1.5 in each step; need 0 to 1"));
  CHECK(says(MakeOptimizer("Adagrad", {0.1f, 0.0f}), "leaves rows without gradient as they are"));
}

}  // namespace
}  // namespace graph_opt

int main(int argc, char** argv) {
  using namespace graph_opt;
  RowsAreCaughtUpOneByOne(argc > 1 ? std::atoi(argv[1]) : 10);
  AssignedSlotsAreNoticed();
  RunsWithADenseReaderEndSettled();
  RulesMayChange();
  OldRowsAreSwept();
  ManyThreadsAtOnce();
  IdsAreThoseOfShardsAndBags();
  RequestsNameRowsAndBags();
  ServersUpdateAsLocalTables();
  OthersAreNotDeferrable();
  return 0;
}
