#ifndef GRAPH_OPT_EXCHANGE_JOINED_EXCHANGES_H_
#define GRAPH_OPT_EXCHANGE_JOINED_EXCHANGES_H_

#include <functional>
#include <string>
#include <vector>

namespace graph_opt {

// The exchanges of a step that send their ids without waiting for one another. A rank without a
// batch says so in each of them. The first of them to tell another rank must not end its step
// before all have received their ids: some might not be sent any more, and ranks would wait.
//
// Only exchanges that are expected wait for others. All functions are thread-safe.

// A step is about to run these.
void ExpectExchanges(const std::vector<std::string>& exchanges);

// It has ended, and whatever still waits may end.
void ForgetExchanges(const std::vector<std::string>& exchanges);

// An exchange has received the ids of all ranks. Calls `ended`, on any thread and without any lock
// held, once the others of its step have, too; at once where none is expected. `ended` may be
// empty.
void ArriveAtExchange(const std::string& exchange, std::function<void()> ended);

}  // namespace graph_opt

// Called by graph_opt/ops/joined_exchanges.py, with one name in each line.
extern "C" void graph_opt_expect_exchanges(const char* exchanges);
extern "C" void graph_opt_forget_exchanges(const char* exchanges);

#endif  // GRAPH_OPT_EXCHANGE_JOINED_EXCHANGES_H_
