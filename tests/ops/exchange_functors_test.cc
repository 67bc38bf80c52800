// The functors of an exchange without TensorFlow: sums in the order of ranks, the same to the bit
// whether ranks or owners pool, safe whatever a message contains, and a rendezvous that ends.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "apply/group_apply.h"
#include "exchange/all_to_all_group.h"
#include "exchange/explained_failures.h"
#include "exchange/horovod_core.h"
#include "exchange/horovod_messages.h"
#include "exchange/received_gradients.h"
#include "exchange/received_requests.h"
#include "exchange/sent_row_gradients.h"
#include "exchange_requests_testing.h"
#include "group_functors_testing.h"

namespace graph_opt {
namespace {

constexpr int64_t kDims[] = {1, 5, 16, 33};

// Shards of an owner, and the rows that each rank asks of each.
struct Owner {
  Owner(Random* random, int num_shards, int num_ranks) {
    for (int s = 0; s < num_shards; ++s) {
      const int64_t dim = kDims[Below(random, 4)];
      const int64_t rows = Below(random, 200);
      values.emplace_back(rows * dim);
      for (float& value : values.back()) value = Number(random);
      shards.push_back(ServedShard{"t" + std::to_string(s), values.back().data(), rows, dim});
    }
    for (int rank = 0; rank < num_ranks; ++rank) {
      asked.emplace_back();
      const bool asks = Below(random, 4) > 0;
      std::vector<int64_t> request;
      for (const ServedShard& shard : shards) {
        std::vector<int64_t> rows;
        for (int64_t row = 0; row < shard.num_rows; ++row) {
          if (asks && Below(random, 3) == 0) rows.push_back(row);
        }
        request.push_back(0);
        request.push_back(static_cast<int64_t>(rows.size()));
        request.insert(request.end(), rows.begin(), rows.end());
        asked.back().push_back(std::move(rows));
      }
      sizes.push_back(AppendRequest(request, &message));
    }
  }

  std::vector<std::vector<float>> values;
  std::vector<ServedShard> shards;
  std::vector<std::vector<std::vector<int64_t>>> asked;  // of each rank, of each shard
  std::vector<int64_t> message;
  std::vector<int64_t> sizes;
};

void GathersAndSumsForAllRanks(const RowKernels& kernels, int seed) {
  Random random(seed);
  Threads threads(1 + seed % 3);
  const int num_ranks = static_cast<int>(1 + Below(&random, 5));
  const Owner owner(&random, static_cast<int>(Below(&random, 4)), num_ranks);
  ReceivedRequests requests;
  CHECK(
      ReadRequests(owner.message.data(), owner.message.size(), owner.sizes, owner.shards, &requests)
          .ok());
  int64_t size = 0;
  for (int64_t elements : ElementsOfRanks(owner.shards, requests)) size += elements;
  std::vector<float> rows(size);
  CHECK(GatherForRanks(owner.shards, requests, RowType::kFloat, kernels, &threads,
                       reinterpret_cast<char*>(rows.data()))
            .ok());
  std::vector<float> gradients(size);
  for (float& gradient : gradients) gradient = Number(&random) / 3;
  std::vector<std::map<int64_t, std::vector<float>>> expected(owner.shards.size());
  size_t at = 0;
  for (int rank = 0; rank < num_ranks; ++rank) {
    for (size_t s = 0; s < owner.shards.size(); ++s) {
      const int64_t dim = owner.shards[s].dim;
      for (int64_t row : owner.asked[rank][s]) {
        std::vector<float>& sum = expected[s][row];
        const bool is_first = sum.empty();
        sum.resize(dim);
        for (int64_t d = 0; d < dim; ++d, ++at) {
          CHECK(rows[at] == owner.values[s][row * dim + d]);
          sum[d] = is_first ? gradients[at] : sum[d] + gradients[at];
        }
      }
    }
  }
  CHECK(at == rows.size());
  if (owner.shards.empty()) return;
  ReceivedGradients sums(owner.shards, requests, reinterpret_cast<const char*>(gradients.data()),
                         RowType::kFloat, kernels, &threads);
  CHECK(sums.Sort().ok());
  std::vector<std::vector<int64_t>> indices(owner.shards.size());
  std::vector<std::vector<float>> values(owner.shards.size());
  std::vector<GroupGradient::ShardSums> to;
  for (size_t s = 0; s < owner.shards.size(); ++s) {
    CHECK(sums.NumRows(static_cast<int>(s)) == static_cast<int64_t>(expected[s].size()));
    indices[s].resize(expected[s].size());
    values[s].resize(expected[s].size() * owner.shards[s].dim);
    to.push_back(GroupGradient::ShardSums{indices[s].data(), values[s].data()});
  }
  sums.SumRows(to);
  for (size_t s = 0; s < owner.shards.size(); ++s) {
    size_t place = 0;
    for (const auto& row : expected[s]) {
      CHECK(indices[s][place] == row.first);
      CHECK(std::equal(row.second.begin(), row.second.end(),
                       values[s].data() + place * owner.shards[s].dim));
      ++place;
    }
  }
}

// One rank's request for a table of one shard, as rows or as bags, and the gradients it sends.
struct Sent {
  std::vector<int64_t> words;
  std::vector<float> gradients;
};

Sent SendRows(const Group& group, const RowKernels& kernels, Parallel* threads) {
  GradientTable table;
  table.shards = group.tables[0].map;
  table.dim = group.tables[0].dim;
  GroupGradient gradient({table}, group.Gradients(), kernels, threads);
  CHECK(gradient.Sort().kind == BagFault::kNone);
  const int64_t count = gradient.NumRows(0, 0);
  Sent sent;
  sent.words = {0, count};
  sent.words.resize(kRequestHeaderWords + count);
  sent.gradients.resize(count * table.dim);
  gradient.SumRows({{{sent.words.data() + kRequestHeaderWords, sent.gradients.data()}}});
  return sent;
}

Sent SendBags(const Group& group) {
  Sent sent;
  sent.words = {static_cast<int64_t>(group.bags.size()), 0};
  for (const PooledGradient& lookup : group.Gradients()) {
    BagPacking packing;
    const Bags& bags = lookup.bags;
    CHECK(packing.Read(bags, group.tables[0].map.num_rows()).kind == BagFault::kNone);
    std::vector<int64_t> packed(packing.num_words());
    packing.Write(packed.data());
    sent.words.insert(sent.words.end(), packed.begin(), packed.end());
    const float* from = static_cast<const float*>(lookup.gradients);
    sent.gradients.insert(sent.gradients.end(), from, from + bags.num_bags * lookup.stride);
  }
  sent.words[1] = static_cast<int64_t>(sent.words.size()) - kRequestHeaderWords;
  return sent;
}

std::pair<std::vector<int64_t>, std::vector<float>> SumOf(const std::vector<Sent>& ranks,
                                                          const ServedShard& shard,
                                                          const RowKernels& kernels,
                                                          Parallel* threads) {
  std::vector<int64_t> message;
  std::vector<int64_t> sizes;
  std::vector<float> gradients;
  for (const Sent& sent : ranks) {
    sizes.push_back(AppendRequest(sent.words, &message));
    gradients.insert(gradients.end(), sent.gradients.begin(), sent.gradients.end());
  }
  ReceivedRequests requests;
  CHECK(ReadRequests(message.data(), message.size(), sizes, {shard}, &requests).ok());
  const std::vector<ServedShard> shards = {shard};
  ReceivedGradients sums(shards, requests, reinterpret_cast<const char*>(gradients.data()),
                         RowType::kFloat, kernels, threads);
  CHECK(sums.Sort().ok());
  std::vector<int64_t> rows(sums.NumRows(0));
  std::vector<float> values(rows.size() * shard.dim);
  sums.SumRows({{rows.data(), values.data()}});
  return {rows, values};
}

void OwnersPoolToTheSameBits(const RowKernels& kernels, int seed) {
  Random random(seed);
  Threads threads(1 + seed % 3);
  std::vector<Sent> rows;
  std::vector<Sent> bags;
  std::vector<Sent> mixed;
  ServedShard shard = {"t", nullptr, 40, 7};
  while (rows.size() < 3) {
    Group group(&random, 1, 2, seed % 2 == 1, false);
    const TableShards& map = group.tables[0].map;
    if (map.num_shards() != 1 || map.num_rows() > 60 || map.num_rows() == 0) continue;
    if (rows.empty()) shard.dim = group.tables[0].dim;
    if (group.tables[0].dim != shard.dim) continue;
    shard.num_rows = std::max(shard.num_rows, map.num_rows());
    rows.push_back(SendRows(group, kernels, &threads));
    bags.push_back(SendBags(group));
    mixed.push_back(rows.size() % 2 ? rows.back() : bags.back());
  }
  const auto expected = SumOf(rows, shard, kernels, &threads);
  CHECK(SumOf(bags, shard, kernels, &threads) == expected);
  CHECK(SumOf(mixed, shard, kernels, &threads) == expected);
}

// An update from what ranks have sent is that from its sums, divided.
void UpdatesAsTheirSumsDo(const RowKernels& kernels, int seed) {
  Random random(seed);
  Threads threads(1 + seed % 3);
  const float divisor = 1 + seed % 3;
  const Owner owner(&random, 1, static_cast<int>(1 + Below(&random, 4)));
  const ServedShard& shard = owner.shards[0];
  ReceivedRequests requests;
  CHECK(
      ReadRequests(owner.message.data(), owner.message.size(), owner.sizes, owner.shards, &requests)
          .ok());
  int64_t size = 0;
  for (int64_t elements : ElementsOfRanks(owner.shards, requests)) size += elements;
  std::vector<float> gradients(size);
  for (float& gradient : gradients) gradient = Number(&random) / 3;
  const char* const received = reinterpret_cast<const char*>(gradients.data());
  const float numbers[] = {0.1f, 1e-7f};
  Optimizer optimizer;
  CHECK(graph_opt_make_optimizer("Adagrad", numbers, 2, nullptr, 0, &optimizer) == nullptr);

  ReceivedGradients sums(owner.shards, requests, received, RowType::kFloat, kernels, &threads);
  CHECK(sums.Sort().ok());
  std::vector<int64_t> rows(sums.NumRows(0));
  std::vector<float> values(rows.size() * shard.dim);
  sums.SumRows({{rows.data(), values.data()}});
  for (float& value : values) value /= divisor;
  PooledGradient of_sums;
  of_sums.bags.ids = rows.data();
  of_sums.bags.num_ids = of_sums.bags.num_bags = static_cast<int64_t>(rows.size());
  of_sums.bags.safe = false;
  of_sums.bags.combiner = Combiner::kSum;
  of_sums.gradients = values.data();
  of_sums.stride = shard.dim;

  ReceivedGradients parts(owner.shards, requests, received, RowType::kFloat, kernels, &threads);
  std::vector<GradientTable> tables;
  std::vector<PooledGradient> of_ranks;
  CHECK(parts.Read(&tables, &of_ranks).ok());
  const auto updated = [&](const std::vector<PooledGradient>& lookups, float by) {
    std::vector<float> memory(owner.values[0]);
    memory.resize(2 * owner.values[0].size(), 0.25f);
    UpdatedTable table;
    table.table = tables[0];
    table.divisor = by;
    table.shards.push_back({memory.data(), {memory.data() + owner.values[0].size()}});
    CHECK(GroupApply(optimizer, {table}, lookups, kernels, &threads).kind == BagFault::kNone);
    return memory;
  };
  CHECK(updated(of_ranks, divisor) == updated({of_sums}, 1));
}

RankState StateOf(absl::StatusCode code, const std::string& text) {
  RankState state;
  state.code = static_cast<int64_t>(code);
  state.text = text;
  return state;
}

void RanksAgreeOnAnError() {
  RankState ended;
  ended.code = kInputEnded;
  const RankState torn = StateOf(absl::StatusCode::kDataLoss, "torn");
  const RankState wrong = StateOf(absl::StatusCode::kInvalidArgument, "wrong");
  const RankState left = StateOf(absl::StatusCode::kCancelled, "left");
  const RankState none = StateOf(absl::StatusCode::kOutOfRange, std::string(9000, 'x'));
  CHECK(AgreedStatus({RankState(), ended}).ok());
  CHECK(AgreedStatus({ended, ended}).code() == absl::StatusCode::kOutOfRange);
  CHECK(AgreedStatus({RankState(), wrong, torn}).message() == "rank 1: wrong");
  CHECK(AgreedStatus({torn, wrong, left}).message() == "rank 2: left");
  CHECK(AgreedStatus({left, torn, none}).code() == absl::StatusCode::kOutOfRange);
  for (const RankState& state : {RankState(), ended, torn, none}) {
    std::vector<int64_t> message;
    AppendHeader(state, &message);
    message.push_back(7);
    const int64_t* at = message.data();
    RankState read;
    CHECK(ReadHeader(&at, at + message.size(), &read).ok() && *at == 7);
    CHECK(read.code == state.code && read.text == state.text.substr(0, kLongestText));
    at = message.data();
    CHECK(read.text.empty() || !ReadHeader(&at, at + 2, &read).ok());
  }
}

void MalformedMessagesAreErrors(const RowKernels& kernels, int seed) {
  Random random(seed);
  Sequential sequential;
  const Owner owner(&random, 2, 3);
  std::vector<int64_t> message = owner.message;
  for (int change = 0; change < 3; ++change) {
    message[Below(&random, message.size())] = Below(&random, 2) ? Below(&random, 300) : -1;
  }
  message.shrink_to_fit();
  ReceivedRequests requests;
  if (!ReadRequests(message.data(), message.size(), owner.sizes, owner.shards, &requests).ok()) {
    return;
  }
  int64_t size = 0;
  for (int64_t elements : ElementsOfRanks(owner.shards, requests)) size += elements;
  std::vector<float> rows(size);
  char* const bytes = reinterpret_cast<char*>(rows.data());
  const absl::Status gathered =
      GatherForRanks(owner.shards, requests, RowType::kFloat, kernels, &sequential, bytes);
  ReceivedGradients sums(owner.shards, requests, bytes, RowType::kFloat, kernels, &sequential);
  const absl::Status sorted = sums.Sort();
  CHECK(gathered.ok() == sorted.ok());
  if (!sorted.ok()) CHECK(sorted.message().find("from rank ") == 0);
}

AllToAllGroup::Message MessageOf(const std::shared_ptr<std::vector<int64_t>>& rows,
                                 std::vector<int64_t> splits, const std::string& kind) {
  AllToAllGroup::Message message;
  message.owner = rows;
  message.data = reinterpret_cast<const char*>(rows->data());
  message.row_bytes = sizeof(int64_t);
  message.kind = kind;
  message.splits = std::move(splits);
  return message;
}

constexpr int kRanks = 4;

// Many messages of many names, from the threads of all ranks at once.
void RanksMeetByName() {
  constexpr int kMessages = 300;
  const auto group = std::make_shared<AllToAllGroup>(kRanks);
  std::atomic<int> received(0);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      for (int i = 0; i < kMessages; ++i) {
        const int number = rank % 2 ? i : kMessages - 1 - i;  // in opposite orders
        const auto rows = std::make_shared<std::vector<int64_t>>(kRanks, number * 10 + rank);
        const auto call = group->NewCall("m" + std::to_string(number), rank);
        group->Send(
            call, MessageOf(rows, std::vector<int64_t>(kRanks, 1), "int64"), 60000,
            [&received, number, rank](const absl::Status& status,
                                      const std::vector<AllToAllGroup::Message>& all) {
              CHECK(status.ok() && all.size() == kRanks);
              for (int from = 0; from < kRanks; ++from) {
                CHECK(reinterpret_cast<const int64_t*>(all[from].data)[rank] == number * 10 + from);
              }
              ++received;
            });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(received == kRanks * kMessages);
}

void NothingWaitsForEver() {
  const auto rows = std::make_shared<std::vector<int64_t>>(2, 0);
  const std::vector<int64_t> splits = {1, 1};
  std::vector<absl::Status> ended;
  const auto done = [&](const absl::Status& status, const std::vector<AllToAllGroup::Message>&) {
    ended.push_back(status);
  };
  const auto has = [&](const std::string& text) {
    return std::string(ended.back().message()).find(text) != std::string::npos;
  };
  auto group = std::make_shared<AllToAllGroup>(2);
  const auto call = group->NewCall("m", 1);
  group->Send(call, MessageOf(rows, splits, "int64"), 0, done);
  group->Send(group->NewCall("m", 1), MessageOf(rows, splits, "int64"), 0, done);
  CHECK(ended.size() == 1 && has("rank 1 sends message 'm' while an earlier one"));
  group->Cancel(call);
  CHECK(ended.size() == 2 && has("rank 1 was cancelled while message 'm'"));
  group->Send(group->NewCall("other", 0), MessageOf(rows, splits, "int64"), 0, done);
  CHECK(ended.size() == 3 && has("rank 1 was cancelled"));
  group->Cancel(call);
  CHECK(ended.size() == 3);

  group = std::make_shared<AllToAllGroup>(2);
  group->Send(group->NewCall("m", 0), MessageOf(rows, splits, "int64"), 0, done);
  group->Send(group->NewCall("m", 1), MessageOf(rows, splits, "float"), 0, done);
  CHECK(ended.size() == 5 && has("rank 0 sends int64 and rank 1 float"));

  group = std::make_shared<AllToAllGroup>(3);
  std::mutex mutex;
  std::condition_variable waits;
  absl::Status late;
  group->Send(group->NewCall("m", 1), MessageOf(rows, {1, 1, 0}, "int64"), 20,
              [&](const absl::Status& status, const std::vector<AllToAllGroup::Message>&) {
                std::lock_guard<std::mutex> lock(mutex);
                late = status;
                waits.notify_one();
              });
  std::unique_lock<std::mutex> lock(mutex);
  waits.wait(lock, [&] { return !late.ok(); });
  CHECK(late.code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(std::string(late.message()).find("has waited 20 ms for ranks 0, 2 of 3") !=
        std::string::npos);
}

void RequestsTakeFourBytesWhereTheyCan() {
  const int64_t most = std::numeric_limits<int32_t>::max();
  for (const int64_t number : {int64_t{-1}, int64_t{7}, most, -most - 1, most + 1, -most - 2}) {
    for (size_t size = 0; size < 6; ++size) {
      std::vector<int64_t> request(size, 3);
      if (size > 0) request[size / 2] = number;
      const bool is_narrow = size == 0 || (number <= most && number >= -most - 1);
      const EncodedRequest sent(request.data(), static_cast<int64_t>(size));
      CHECK(sent.num_words() == static_cast<int64_t>(1 + (is_narrow ? (size + 1) / 2 : size)));
      std::vector<int64_t> words(sent.num_words());
      sent.Write(words.data());
      DecodedRequest widened;
      CHECK(widened.Read(words.data(), words.data() + words.size()).ok());
      CHECK(std::vector<int64_t>(widened.words, widened.words + widened.size) == request);
      words.push_back(0);
      CHECK(!is_narrow || size == 0 ||
            !widened.Read(words.data(), words.data() + words.size()).ok());
      CHECK(!widened.Read(words.data(), words.data()).ok());
    }
  }
}

int32_t CauseOfAbortion(int32_t code, const char* text, char* cause, int32_t size) {
  if (code != static_cast<int32_t>(absl::StatusCode::kAborted)) return 0;
  std::snprintf(cause, size, "rank 1 failed, so %s", text);
  return static_cast<int32_t>(absl::StatusCode::kDataLoss);
}

void FailuresSayWhy() {
  const auto ended = [](absl::StatusCode code) {
    const auto promise = std::make_shared<std::promise<absl::Status>>();
    EndWithCause(absl::Status(code, "it ended"),
                 [promise](const absl::Status& status) { promise->set_value(status); });
    return promise->get_future().get();
  };
  CHECK(ended(absl::StatusCode::kAborted).message() == "it ended");
  graph_opt_find_causes(&CauseOfAbortion);
  CHECK(ended(absl::StatusCode::kInternal).message() == "it ended");
  const absl::Status cause = ended(absl::StatusCode::kAborted);
  CHECK(cause.code() == absl::StatusCode::kDataLoss);
  CHECK(cause.message() == "rank 1 failed, so it ended");
  graph_opt_find_causes(nullptr);
}

void OnlyTheCoreOfHorovodIsCalled() {
  const auto refuses = [](const std::string& library, const std::string& reason) {
    const absl::Status status = horovod_core::Load(library);
    const std::string text(status.message());
    return status.code() == absl::StatusCode::kFailedPrecondition &&
           text.find(library + reason) != std::string::npos;
  };
  CHECK(refuses("/nowhere/mpi_lib.so", " is not loaded"));
  CHECK(refuses("libc.so.6", " lacks _ZN7horovod6common"));
  std::string told;
  HorovodMessages().NewCall("m")->Send(
      RankMessage(), nullptr, [&told](const absl::Status& status, const std::vector<int64_t>&) {
        told = std::string(status.message());
      });
  CHECK(told.find("Horovod has not been initialized") == 0);
}

void RunAll(int seeds) {
  for (const RowKernels* const* kernels = RunnableRowKernels(); *kernels != nullptr; ++kernels) {
    for (int seed = 0; seed < seeds; ++seed) {
      GathersAndSumsForAllRanks(**kernels, seed);
      UpdatesAsTheirSumsDo(**kernels, seed);
      OwnersPoolToTheSameBits(**kernels, seed);
      MalformedMessagesAreErrors(**kernels, seed);
    }
  }
  RanksAgreeOnAnError();
  RanksMeetByName();
  NothingWaitsForEver();
  RequestsTakeFourBytesWhereTheyCan();
  FailuresSayWhy();
  OnlyTheCoreOfHorovodIsCalled();
}

}  // namespace
}  // namespace graph_opt

int main(int argc, char** argv) { graph_opt::RunAll(argc > 1 ? std::atoi(argv[1]) : 40); }
