#include "packed/sent_bags.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "packed/packed_bags.h"
#include "packed/row_request.h"

namespace graph_opt {
namespace {

constexpr int kFilledIdWord = 3;  // of the header of packed bags

absl::Status OtherLookups(int table) {
  return absl::InvalidArgumentError(
      absl::StrCat("the requests are not of these lookups, by what they have of table ", table));
}

// Whether the words are the bags of the table's lookups.
bool AreBagsOf(const SentBags& bags, int64_t count, int table,
               const std::vector<PooledGradient>& lookups) {
  const int64_t* at = bags.words;
  const int64_t* const end = at + bags.num_words;
  for (const PooledGradient& lookup : lookups) {
    if (lookup.table != table) continue;
    PackedBags packed;
    if (count-- == 0 || !FindPackedBags(&at, end, &packed).ok()) return false;
    const bool is_same = packed.num_bags == lookup.bags.num_bags &&
                         packed.num_ids <= lookup.bags.num_ids &&
                         packed.combiner == lookup.bags.combiner;
    if (!is_same) return false;
  }
  return count == 0 && at == end;
}

}  // namespace

absl::Status FindSentBags(const std::vector<SentRequest>& requests,
                          const std::vector<int>& first_shards, const std::vector<int>& servers,
                          const std::vector<PooledGradient>& lookups, std::vector<SentBags>* bags) {
  const int num_tables = static_cast<int>(first_shards.size()) - 1;
  std::vector<int64_t> next(requests.size(), 0);
  bags->assign(num_tables, SentBags());
  for (int t = 0; t < num_tables; ++t) {
    for (int shard = first_shards[t]; shard < first_shards[t + 1]; ++shard) {
      const SentRequest& request = requests[servers[shard]];
      int64_t& at = next[servers[shard]];
      const int64_t left = request.size - at - kRequestHeaderWords;
      if (left < 0) return OtherLookups(t);
      const int64_t count = request.words[at];
      const SentBags sent = {request.words + at + kRequestHeaderWords, request.words[at + 1]};
      if (sent.num_words < 0 || sent.num_words > left) return OtherLookups(t);
      at += kRequestHeaderWords + sent.num_words;
      if (count <= 0) continue;
      if (first_shards[t + 1] - first_shards[t] > 1) return OtherLookups(t);
      if (!AreBagsOf(sent, count, t, lookups)) return OtherLookups(t);
      (*bags)[t] = sent;
    }
  }
  for (size_t server = 0; server < requests.size(); ++server) {
    if (next[server] != requests[server].size) return OtherLookups(num_tables - 1);
  }
  return absl::OkStatus();
}

void CopySentBags(const SentBags& bags, const std::vector<const PooledGradient*>& lookups,
                  int64_t* words) {
  std::copy_n(bags.words, bags.num_words, words);
  const int64_t* at = words;
  for (const PooledGradient* lookup : lookups) {
    const int64_t first = at - words;
    PackedBags packed;
    if (!FindPackedBags(&at, words + bags.num_words, &packed).ok()) return;  // FindSentBags looked
    const int64_t filled_id = lookup->bags.filled_id;
    words[first + kFilledIdWord] = filled_id >= 0 && HasEmptyBag(packed) ? filled_id : -1;
  }
}

}  // namespace graph_opt
