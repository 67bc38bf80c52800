#ifndef GRAPH_OPT_EXCHANGE_MERGED_UPDATES_H_
#define GRAPH_OPT_EXCHANGE_MERGED_UPDATES_H_

#include <cstdint>
#include <string>

namespace graph_opt {

// Whether sessions may have one op of ours do what updates by an op of TensorFlow's do, since it
// does so to the same bits here. The op is named without "Resource".
enum class Merging { kUnknown, kAllowed, kRefused };
Merging MergingOf(const std::string& stock_op);

// Notes what became of the updates of an exchange's tables in the latest session that runs them.
// `sums` is the node that sums what ranks send, by its graph's number and its name: "2/gradients";
// `refusal` is empty if one op updates all.
void NoteUpdates(const std::string& sums, int32_t num_tables, const std::string& refusal);

}  // namespace graph_opt

// Called by graph_opt/ops/merged_updates.py. The second returns how many tables the updates of an
// exchange are of, 0 if none were met, and why they are not one op, valid until the thread's next
// call; null if they are.
extern "C" {
void graph_opt_merge_updates(const char* stock_op, int32_t allowed);
int32_t graph_opt_noted_updates(const char* sums, const char** refusal);
}

#endif  // GRAPH_OPT_EXCHANGE_MERGED_UPDATES_H_
