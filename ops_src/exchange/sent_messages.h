#ifndef GRAPH_OPT_EXCHANGE_SENT_MESSAGES_H_
#define GRAPH_OPT_EXCHANGE_SENT_MESSAGES_H_

#include <atomic>
#include <cstdint>
#include <string>

namespace graph_opt {

// How often this process has sent the messages of this key, "group/rank/name". Whoever reads it
// before and after a step that failed knows whether other ranks are now in the middle of that step.
// Never destroyed.
std::atomic<int64_t>* SentMessages(const std::string& key);

}  // namespace graph_opt

// Called by graph_opt/ops/sent_messages.py.
extern "C" int64_t graph_opt_sent_messages(const char* key);

#endif  // GRAPH_OPT_EXCHANGE_SENT_MESSAGES_H_
