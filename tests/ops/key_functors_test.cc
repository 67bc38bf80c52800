// Rows of keys, and exchanges of a step, without TensorFlow.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <vector>

#include "exchange/joined_exchanges.h"
#include "functors_testing.h"
#include "keys/key_index.h"

namespace graph_opt {
namespace {

typedef std::vector<int64_t> Numbers;
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

Numbers Found(const KeyIndex& index, const Numbers& keys) {
  Numbers rows(keys.size());
  index.Find(keys.data(), keys.size(), rows.data());
  return rows;
}

void TestRowsAreGivenInTheOrderOfKeys() {
  KeyIndex index;
  Numbers row_keys(5, 0);
  Numbers keys = {7, kLeast, 7, -1};
  Numbers rows(keys.size());
  index.FindOrAdd(keys.data(), 4, 5, rows.data(), row_keys.data());
  Check(rows == Numbers({0, 1, 0, 2}), "rows in the order of keys");
  keys = {kMost, 7, 0};
  rows.resize(3);
  index.FindOrAdd(keys.data(), 3, 5, rows.data(), row_keys.data());
  Check(rows == Numbers({3, 0, 4}), "new keys get the next rows");
  Check(row_keys == Numbers({7, kLeast, -1, kMost, 0}), "the key of each row");
  Check(Found(index, {kMost, 8, kLeast}) == Numbers({3, -1, 1}), "found, or absent");
  KeyIndex again;
  Check(again.Assign(row_keys.data(), 5).ok(), "keys are taken");
  Check(Found(again, row_keys) == Numbers({0, 1, 2, 3, 4}), "the same rows");
}

void TestAFullVocabularyLeavesKeysOut() {
  KeyIndex index;
  Numbers row_keys(3, 0);
  const Numbers keys = {4, 5, 4, 6, 7, 5, 8, 6};
  Numbers rows(keys.size());
  index.FindOrAdd(keys.data(), keys.size(), 3, rows.data(), row_keys.data());
  Check(rows == Numbers({0, 1, 0, 2, -1, 1, -1, 2}), "the first three have rows");
  Check(row_keys == Numbers({4, 5, 6}) && index.size() == 3, "and their keys are kept");
  index.FindOrAdd(keys.data(), keys.size(), 0, rows.data(), row_keys.data());
  Check(rows[3] == 2 && rows[4] == -1, "without room they are found");
}

void TestAKeyOfTwoRowsIsAnError() {
  KeyIndex index;
  const Numbers keys = {3, 4, 3};
  const absl::Status wrong = index.Assign(keys.data(), 3);
  Check(absl::IsDataLoss(wrong) && index.size() == 0, "twice the same key");
  Check(wrong.message() == "rows 0 and 2 both have key 3", "names both rows");
}

void TestExchangesOfAStepEndTogether() {
  constexpr ExchangePhase kEnd = ExchangePhase::kReceived;
  int ended = 0;
  const auto end = [&ended](bool all_came) { ended += all_came; };
  ArriveAtExchange("other", kEnd, end);
  Check(ended == 1, "one that is not expected waits for nothing");
  ExpectExchanges({"a", "b", "c"});
  ArriveAtExchange("a", kEnd, end);
  ArriveAtExchange("b", kEnd, nullptr);
  Check(ended == 1, "c is missing");
  ArriveAtExchange("c", kEnd, end);
  Check(ended == 3, "both that failed end");
  ExpectExchanges({"a", "b"});
  ArriveAtExchange("b", kEnd, end);
  Check(ended == 3, "the next step waits as well");
  ForgetExchanges({"a", "b"});
  Check(ended == 4, "until it is over");
}

void TestExchangesOfAStepSendAllOrNothing() {
  constexpr ExchangePhase kSend = ExchangePhase::kReady;
  int sent = 0;
  int kept = 0;
  const auto send = [&](bool all_came) { ++(all_came ? sent : kept); };
  ExpectExchanges({"a", "b", "c"});
  ArriveAtExchange("a", kSend, send);
  WithdrawFromExchange("a", kSend);
  ArriveAtExchange("b", kSend, send);
  Check(sent == 0 && kept == 2, "nothing is sent once one has withdrawn");
  ArriveAtExchange("b", ExchangePhase::kReceived, send);
  Check(kept == 2, "the phases are independent");
  ForgetExchanges({"a", "b", "c"});
  sent = kept = 0;
  ExpectExchanges({"a", "b"});
  ArriveAtExchange("a", kSend, send);
  ArriveAtExchange("b", kSend, send);
  WithdrawFromExchange("a", kSend);
  Check(sent == 2 && kept == 0, "all have been sent");
  ForgetExchanges({"a", "b"});
}

}  // namespace
}  // namespace graph_opt

int main() {
  graph_opt::TestRowsAreGivenInTheOrderOfKeys();
  graph_opt::TestAFullVocabularyLeavesKeysOut();
  graph_opt::TestAKeyOfTwoRowsIsAnError();
  graph_opt::TestExchangesOfAStepEndTogether();
  graph_opt::TestExchangesOfAStepSendAllOrNothing();
  return 0;
}
