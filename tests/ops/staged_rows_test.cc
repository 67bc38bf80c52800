// Batches that wait with rows of servers, and updates of these, without TensorFlow.
#include "packed/staged_rows.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "functors_testing.h"

namespace graph_opt {
namespace {

// A batch with some rows of shard "a".
std::shared_ptr<StagedBatch> Batch(const std::vector<int64_t>& rows) {
  auto memory = std::make_shared<std::vector<int64_t>>(rows);
  RowsOfShard part;
  part.shard = "a";
  part.rows = memory->data();
  part.count = static_cast<int64_t>(memory->size());
  return std::make_shared<StagedBatch>(std::vector<RowsOfShard>{part}, memory);
}

std::shared_ptr<UpdateUnderWay> Begin(StagedRows* staged, const std::vector<int64_t>& rows,
                                      const std::string& shard = "a") {
  auto memory = std::make_shared<std::vector<int64_t>>(rows);
  RowsOfShard part;
  part.shard = shard;
  part.rows = memory->data();
  part.count = static_cast<int64_t>(memory->size());
  Sequential parallel;
  return staged->Begin({part}, memory, &parallel);
}

// Answers with rows of one number, the update's.
void Keep(UpdateUnderWay* update, int64_t number) {
  const auto& asked = update->asked()[0];
  auto values = std::make_shared<std::vector<float>>(std::count(asked.begin(), asked.end(), true),
                                                     static_cast<float>(number));
  update->Keep({{number, reinterpret_cast<const char*>(values->data()), sizeof(float), values}});
}

void AnUpdateAsksForRowsOfWaitingBatches() {
  auto staged = std::make_shared<StagedRows>();
  const auto batch = Batch({1, 4, 9});
  bool ready = false;
  staged->Stage(batch, [&ready] { ready = true; });
  CHECK(ready);
  {
    staged->Stage(Batch({2}), [] {});
  }  // is dropped
  const auto update = Begin(staged.get(), {2, 4, 5, 9});
  CHECK((update->asked()[0] == std::vector<bool>{false, true, false, true}));
  CHECK((Begin(staged.get(), {4}, "b")->asked()[0] == std::vector<bool>{false}));
  Keep(update.get(), 7);
  std::vector<StagedBatch::Change> changes;
  CHECK(staged->Take(batch, &changes));
  CHECK(changes.size() == 1);
  CHECK((changes[0].places == std::vector<int64_t>{1, 2}));
  for (const char* value : changes[0].values) {
    CHECK(*reinterpret_cast<const float*>(value) == 7.0f);
  }
  CHECK((Begin(staged.get(), {4})->asked()[0] == std::vector<bool>{false}));
}

void OfTwoAnswersTheLaterOneComesLast() {
  auto staged = std::make_shared<StagedRows>();
  const auto batch = Batch({3});
  staged->Stage(batch, [] {});
  const auto first = Begin(staged.get(), {3});
  const auto second = Begin(staged.get(), {3});
  Keep(second.get(), 2);
  Keep(first.get(), 1);
  std::vector<StagedBatch::Change> changes;
  CHECK(staged->Take(batch, &changes));
  CHECK(changes.size() == 2 && changes[0].order == 1 && changes[1].order == 2);
}

void ABatchWaitsForUpdatesOfItsRows() {
  auto staged = std::make_shared<StagedRows>();
  const auto update = Begin(staged.get(), {3, 8});
  bool other = false, same = false, given_up = false;
  const auto waits = Batch({8});
  const auto stops = Batch({3});
  staged->Stage(Batch({4}), [&other] { other = true; });
  staged->Stage(waits, [&same] { same = true; });
  staged->Stage(stops, [&given_up] { given_up = true; });
  CHECK(other && !same);
  CHECK(staged->StopWaiting(stops));
  Keep(update.get(), 1);
  CHECK(same && !given_up);
  CHECK(!staged->StopWaiting(waits));
  std::vector<StagedBatch::Change> changes;
  CHECK(staged->Take(waits, &changes) && changes.empty());  // it was read after the update
}

void BatchesWithRowsOfAnUnansweredUpdateAreLost() {
  auto staged = std::make_shared<StagedRows>();
  const auto before = Batch({3}), clean = Batch({4}), meanwhile = Batch({3}), after = Batch({3}),
             later = Batch({3});
  std::vector<StagedBatch::Change> changes;
  staged->Stage(before, [] {});
  staged->Stage(clean, [] {});
  {
    const auto update = Begin(staged.get(), {3});
    staged->Stage(meanwhile, [] {});
  }
  staged->Stage(after, [] {});
  CHECK(!staged->Take(before, &changes));
  staged->Stage(later, [] {});  // a step has begun, so the one that failed is over
  CHECK(staged->Take(clean, &changes));
  CHECK(!staged->Take(meanwhile, &changes));
  CHECK(!staged->Take(after, &changes));
  CHECK(staged->Take(later, &changes));
  const auto waiting = Batch({5});
  staged->Stage(waiting, [] {});
  staged->LoseAll();
  CHECK(!staged->Take(waiting, &changes));
}

void ThreadsAgree() {
  auto staged = std::make_shared<StagedRows>();
  std::atomic<int> ready{0};
  constexpr int kBatches = 500;
  std::thread stage([&] {
    for (int i = 0; i < kBatches; ++i) {
      const auto batch = Batch({i % 7, 7 + i % 5});
      staged->Stage(batch, [&ready] { ++ready; });
      std::vector<StagedBatch::Change> changes;
      if (i % 3 == 0) staged->Take(batch, &changes);
      if (i % 5 == 0 && staged->StopWaiting(batch)) ++ready;
    }
  });
  for (int i = 0; i < kBatches; ++i) {
    const auto update = Begin(staged.get(), {i % 7, 8});
    if (i % 4 != 0) Keep(update.get(), i);
  }
  stage.join();
  CHECK(ready == kBatches);
}

}  // namespace
}  // namespace graph_opt

int main() {
  graph_opt::AnUpdateAsksForRowsOfWaitingBatches();
  graph_opt::OfTwoAnswersTheLaterOneComesLast();
  graph_opt::ABatchWaitsForUpdatesOfItsRows();
  graph_opt::BatchesWithRowsOfAnUnansweredUpdateAreLost();
  graph_opt::ThreadsAgree();
  return 0;
}
