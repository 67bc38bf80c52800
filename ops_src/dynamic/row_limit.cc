// How a dynamic table with a limit refuses keys that it has no room for.
#include "dynamic/row_limit.h"

#include <atomic>
#include <mutex>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "dynamic/dynamic_table.h"
#include "dynamic/keys_by_stripe.h"

namespace graph_opt {

absl::Status DynamicTable::CheckRoom(const KeysByStripe& keys, int64_t num_keys,
                                     Parallel* parallel) const {
  const RowLimit& limit = options_.policies.limit;
  if (size_ + num_keys <= limit.rows) return absl::OkStatus();
  std::atomic<int64_t> needed{0};
  std::atomic<int64_t> example{0};
  parallel->Run(keys.num_stripes(), [&](int64_t number) {
    Stripe* const stripe = stripes_[number].get();
    const std::lock_guard<std::mutex> lock(*stripe->mutex());
    absl::flat_hash_set<int64_t> absent;
    for (int64_t i = keys.begin(number); i < keys.end(number); ++i) {
      if (stripe->Find(Stripe::Probe(keys.key(i))) == Stripe::kAbsent) absent.insert(keys.key(i));
    }
    if (absent.empty()) return;
    needed += absent.size();
    example = *absent.begin();
  });
  if (size_ + needed <= limit.rows) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("table ", options_.name, " has ", size_.load(), " of at most ", limit.rows,
                   " rows", limit.option.empty() ? "" : absl::StrCat(" (", limit.option, ")"),
                   ", and ", needed.load(), " new keys of this batch, such as ", example.load(),
                   ", need one each: raise the limit, or look them up without giving them rows"));
}

}  // namespace graph_opt
