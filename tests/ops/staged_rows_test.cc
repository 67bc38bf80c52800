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
  return std::make_shared<StagedBatch>("lookup", std::vector<RowsOfShard>{part}, memory);
}

std::shared_ptr<PendingUpdate> Begin(StagedRows* staged, const std::vector<int64_t>& rows,
                                     const std::string& shard = "a",
                                     Loss if_dropped = Loss::kUnanswered) {
  auto memory = std::make_shared<std::vector<int64_t>>(rows);
  RowsOfShard part;
  part.shard = shard;
  part.rows = memory->data();
  part.count = static_cast<int64_t>(memory->size());
  Sequential parallel;
  return staged->Begin({part}, memory, if_dropped, &parallel);
}

// Answers with rows of one number, the update's.
void Keep(PendingUpdate* update, int64_t number) {
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
  CHECK(staged->Take(batch, &changes) == Taken::kCurrent);
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
  CHECK(staged->Take(batch, &changes) == Taken::kCurrent);
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
  CHECK(staged->Take(waits, &changes) == Taken::kCurrent &&
        changes.empty());  // it was read after the update
}

void ABatchDoesNotWaitOnceItIsStopped() {
  auto staged = std::make_shared<StagedRows>();
  const auto update = Begin(staged.get(), {3, 8});
  bool other = false, same = false;
  const auto stays = Batch({4});
  const auto stops = Batch({3});
  CHECK(!staged->StopWaiting(stays) && !staged->StopWaiting(stops));
  CHECK(staged->Stage(stays, [&other] { other = true; }) && other);
  CHECK(!staged->Stage(stops, [&same] { same = true; }));
  Keep(update.get(), 1);
  CHECK(!same);
}

void BatchesWithRowsOfAnUpdateThatDoesNotAskAreLost() {
  auto staged = std::make_shared<StagedRows>();
  const auto before = Batch({3}), clean = Batch({4}), meanwhile = Batch({3}), after = Batch({3}),
             later = Batch({3});
  std::vector<StagedBatch::Change> changes;
  staged->Stage(before, [] {});
  staged->Stage(clean, [] {});
  {
    const auto update = Begin(staged.get(), {3}, "a", Loss::kUnreported);
    staged->Stage(meanwhile, [] {});
  }
  staged->Stage(after, [] {});
  CHECK(staged->Take(before, &changes) == Taken::kUnreported);
  staged->BeginStep();
  staged->Stage(later, [] {});  // a step has begun, so the one that failed is over
  CHECK(staged->Take(clean, &changes) == Taken::kCurrent);
  CHECK(staged->Take(meanwhile, &changes) == Taken::kUnreported);
  CHECK(staged->Take(after, &changes) == Taken::kUnreported);
  CHECK(staged->Take(later, &changes) == Taken::kCurrent);
  const auto overlapped = Batch({5});
  staged->Stage(overlapped, [] {});
  Begin(staged.get(), {5});
  CHECK(staged->Take(overlapped, &changes) == Taken::kCurrent);
}

// Reads the rows of all lost batches again, as rows of one number.
int ReadAgain(const std::shared_ptr<StagedRows>& staged, float number) {
  for (int count = 0;; ++count) {
    const LostBatch lost = staged->FindLost("lookup", {"a"});
    if (lost.loss == Loss::kNone) return count;
    staged->Stage(lost.again, [] {});
    auto rows = std::make_shared<std::vector<float>>(lost.batch->parts()[0].count, number);
    staged->Replace(lost, {{reinterpret_cast<const char*>(rows->data()), sizeof(float)}}, rows);
  }
}

// What a batch's rows are, of which each was sent as 0.
std::vector<float> Rows(const std::vector<StagedBatch::Change>& changes, size_t count) {
  std::vector<float> rows(count, 0.0f);
  for (const StagedBatch::Change& change : changes) {
    for (size_t i = 0; i < change.places.size(); ++i) {
      rows[change.places[i]] = *reinterpret_cast<const float*>(change.values[i]);
    }
  }
  return rows;
}

void LostBatchesAreReadAgain() {
  auto staged = std::make_shared<StagedRows>();
  const auto first = Batch({3, 4}), second = Batch({4, 5}), clean = Batch({9});
  for (const auto& batch : {first, second, clean}) staged->Stage(batch, [] {});
  Keep(Begin(staged.get(), {3, 4}).get(), 1);
  Begin(staged.get(), {4});  // ends without an answer
  const auto staged_since = Batch({4});
  staged->Stage(staged_since, [] {});
  CHECK(staged->FindLost("another", {"a"}).loss == Loss::kNone);
  CHECK(staged->FindLost("lookup", {"b"}).loss == Loss::kNone);
  CHECK(staged->FindLost("lookup", {"a"}).loss == Loss::kUnanswered);
  CHECK(ReadAgain(staged, 2) == 3);
  const auto update = Begin(staged.get(), {3, 5});
  CHECK((update->asked()[0] == std::vector<bool>{true, true}));
  Keep(update.get(), 3);
  std::vector<StagedBatch::Change> changes;
  CHECK(staged->Take(first, &changes) == Taken::kCurrent);
  CHECK((Rows(changes, 2) == std::vector<float>{3, 2}));
  CHECK((Begin(staged.get(), {3})->asked()[0] == std::vector<bool>{false}));
  staged->LoseAll();
  CHECK(staged->FindLost("lookup", {"a"}).loss == Loss::kWritten);
  CHECK(ReadAgain(staged, 4) == 3);
  CHECK(staged->Take(second, &changes) == Taken::kCurrent);
  CHECK((Rows(changes, 2) == std::vector<float>{4, 4}));
  CHECK(staged->Take(clean, &changes) == Taken::kCurrent);
  CHECK((Rows(changes, 1) == std::vector<float>{4}));
  CHECK(staged->Take(staged_since, &changes) == Taken::kCurrent);
}

std::shared_ptr<PendingUpdate> BeginByBags(StagedRows* staged, const std::string& shard = "a",
                                           Loss if_dropped = Loss::kUnanswered) {
  RowsOfShard part;
  part.shard = shard;
  part.is_of_bags = true;
  Sequential parallel;
  return staged->Begin({part}, nullptr, if_dropped, &parallel);
}

void RowsOfAnUpdateByBagsAreAskedForAnew() {
  auto staged = std::make_shared<StagedRows>();
  const auto before = Batch({3}), meanwhile = Batch({4}), after = Batch({3});
  std::vector<StagedBatch::Change> changes;
  const auto stage = [&staged](const std::shared_ptr<StagedBatch>& batch) {
    bool ready = false;
    staged->Stage(batch, [&ready] { ready = true; });
    CHECK(ready);  // nothing waits for such an update
  };
  CHECK(staged->AsksAhead(before->parts()));
  stage(before);
  Keep(Begin(staged.get(), {3}).get(), 1);
  {
    const auto update = BeginByBags(staged.get());
    CHECK(update->asked()[0].empty());
    stage(meanwhile);
    update->Keep({{2, nullptr, sizeof(float), nullptr}});
  }
  CHECK(!staged->AsksAhead(after->parts()));
  stage(after);
  CHECK(staged->Take(before, &changes) == Taken::kToBeAsked && changes.empty());
  CHECK(staged->Take(meanwhile, &changes) == Taken::kToBeAsked);
  CHECK(staged->Take(after, &changes) == Taken::kCurrent);
  Keep(Begin(staged.get(), {9}).get(), 3);
  CHECK(staged->AsksAhead(after->parts()));
}

void OtherShardsAreNotAskedForAnew() {
  auto staged = std::make_shared<StagedRows>();
  const auto batch = Batch({3});
  std::vector<StagedBatch::Change> changes;
  staged->Stage(batch, [] {});
  const auto update = BeginByBags(staged.get(), "b");
  CHECK(staged->AsksAhead(batch->parts()));
  Keep(Begin(staged.get(), {3}).get(), 1);
  CHECK(staged->Take(batch, &changes) == Taken::kCurrent && changes.size() == 1);
}

// A step that failed may go on to update, and a foreign one did; both are read after.
void RowsOfAnUnansweredUpdateByBagsAreAskedForAnew() {
  auto staged = std::make_shared<StagedRows>();
  std::vector<StagedBatch::Change> changes;
  for (Loss loss : {Loss::kUnanswered, Loss::kUnreported}) {
    const auto before = Batch({3}), after = Batch({3}), later = Batch({3});
    staged->Stage(before, [] {});
    BeginByBags(staged.get(), "a", loss);
    staged->Stage(after, [] {});
    CHECK(ReadAgain(staged, 0) == 0);  // main will
    CHECK(staged->Take(before, &changes) == Taken::kToBeAsked);
    CHECK(staged->Take(after, &changes) == Taken::kToBeAsked);
    staged->Stage(later, [] {});  // after the step that failed
    CHECK(staged->Take(later, &changes) == Taken::kCurrent);
  }
}

// Who asks behind an update learns whether any other has begun since.
void UpdatesOfShardsAreCounted() {
  auto staged = std::make_shared<StagedRows>();
  const std::vector<std::string> a = {"a"}, both = {"a", "b"};
  const int64_t none = staged->NumWrites(a);
  CHECK(staged->NumWritesWith(0, a) == none && staged->NumWritesWith(1, a) == -1);
  auto update = BeginByBags(staged.get(), "a");
  const int64_t one = staged->NumWrites(a);
  CHECK(one > none && staged->NumWritesWith(1, a) == one && staged->NumWritesWith(0, a) == -1);
  auto other = BeginByBags(staged.get(), "b");
  CHECK(staged->NumWritesWith(1, a) == one && staged->NumWrites(both) > one);
  CHECK(staged->NumWritesWith(1, both) == -1 && staged->NumWritesWith(2, both) > one);
  update->Keep({{0, nullptr, sizeof(float), nullptr}});
  CHECK(staged->NumWrites(a) == one && staged->NumWritesWith(0, a) == one);
  other.reset();  // its server may still apply it
  CHECK(staged->NumWritesWith(0, a) == -1);
  staged->Restart();
  staged->LoseAll();
  CHECK(staged->NumWrites(a) == one + 2 && staged->NumWritesWith(0, a) == one + 2);
}

// What is read again between steps is not current either once an update by bags has begun.
void ABatchReadAgainIsAskedForAnew() {
  auto staged = std::make_shared<StagedRows>();
  std::vector<StagedBatch::Change> changes;
  const auto batch = Batch({3});
  staged->Stage(batch, [] {});
  Begin(staged.get(), {3});
  CHECK(ReadAgain(staged, 2) == 1);
  BeginByBags(staged.get());
  CHECK(staged->Take(batch, &changes) == Taken::kToBeAsked && changes.empty());
}

// A table of one row, which updates count up: by its number, or as a bag.
void NoUpdateIsMissed() {
  auto staged = std::make_shared<StagedRows>();
  std::atomic<int64_t> table{0}, taken{0};
  constexpr int kSteps = 2000;
  struct Sent {
    std::shared_ptr<StagedBatch> batch;
    int64_t row = 0;
  };
  std::vector<Sent> sent(kSteps);
  std::vector<std::atomic<bool>> is_sent(kSteps);
  std::thread stage([&] {
    for (int i = 0; i < kSteps; ++i) {
      while (i > taken + 3) std::this_thread::yield();
      sent[i].batch = Batch({3});
      staged->Stage(sent[i].batch, [&, i] {
        sent[i].row = table;
        is_sent[i] = true;
      });
    }
  });
  int asked = 0;
  for (int i = 0; i < kSteps; ++i) {
    while (!is_sent[i]) std::this_thread::yield();
    std::vector<StagedBatch::Change> changes;
    int64_t row = sent[i].row;
    if (staged->Take(sent[i].batch, &changes) == Taken::kToBeAsked) {
      row = table;
      ++asked;
    } else if (!changes.empty()) {
      row = static_cast<int64_t>(*reinterpret_cast<const float*>(changes.back().values[0]));
    }
    CHECK(row == i);
    sent[i].batch.reset();
    ++taken;
    if (i / 16 % 2 == 0) {
      const auto update = Begin(staged.get(), {3});
      Keep(update.get(), ++table);
    } else {
      const auto update = BeginByBags(staged.get());
      ++table;
      update->Keep({{i, nullptr, sizeof(float), nullptr}});
    }
  }
  stage.join();
  CHECK(asked < kSteps);
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
    if (i % 7 == 0) ReadAgain(staged, 0);
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
  graph_opt::ABatchDoesNotWaitOnceItIsStopped();
  graph_opt::BatchesWithRowsOfAnUpdateThatDoesNotAskAreLost();
  graph_opt::LostBatchesAreReadAgain();
  graph_opt::RowsOfAnUpdateByBagsAreAskedForAnew();
  graph_opt::OtherShardsAreNotAskedForAnew();
  graph_opt::RowsOfAnUnansweredUpdateByBagsAreAskedForAnew();
  graph_opt::ABatchReadAgainIsAskedForAnew();
  graph_opt::UpdatesOfShardsAreCounted();
  graph_opt::NoUpdateIsMissed();
  graph_opt::ThreadsAgree();
  return 0;
}
