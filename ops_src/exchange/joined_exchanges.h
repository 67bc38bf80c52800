#ifndef GRAPH_OPT_EXCHANGE_JOINED_EXCHANGES_H_
#define GRAPH_OPT_EXCHANGE_JOINED_EXCHANGES_H_

#include <functional>
#include <string>
#include <vector>

namespace graph_opt {

// The exchanges of a step that send their ids without waiting for one another. They do it together,
// so that a rank without a batch for one of them sends the error in place of the ids of all.
//
//   kReady      an exchange has the ids that it is about to send
//   kReceived   it has received the ids of all ranks
//
// The first exchange that ends its step because of another rank must not do so before all have
// received their ids: some might not be sent any more, and ranks would wait.
//
// Only exchanges that are expected wait for others. All functions are thread-safe.
enum class ExchangePhase { kReady, kReceived };

// A step is about to run these.
void ExpectExchanges(const std::vector<std::string>& exchanges);

// It has ended, and whatever still waits may go on.
void ForgetExchanges(const std::vector<std::string>& exchanges);

// Calls `go_on(true)`, on any thread and without any lock held, once all exchanges of the step have
// come to this phase; at once where none is expected. `go_on(false)` if one of them has withdrawn
// before that. `go_on` may be empty.
using GoOn = std::function<void(bool)>;
void ArriveAtExchange(const std::string& exchange, ExchangePhase phase, GoOn go_on);

// The exchange will not come to this phase, or has, but must not go on. No effect once all have.
void WithdrawFromExchange(const std::string& exchange, ExchangePhase phase);

}  // namespace graph_opt

// Called by graph_opt/ops/joined_exchanges.py, with one name in each line.
extern "C" void graph_opt_expect_exchanges(const char* exchanges);
extern "C" void graph_opt_forget_exchanges(const char* exchanges);

#endif  // GRAPH_OPT_EXCHANGE_JOINED_EXCHANGES_H_
