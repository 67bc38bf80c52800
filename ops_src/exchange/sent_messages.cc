#include "exchange/sent_messages.h"

#include <map>
#include <mutex>

namespace graph_opt {

std::atomic<int64_t>* SentMessages(const std::string& key) {
  static std::mutex* const mutex = new std::mutex;
  static auto* const counts = new std::map<std::string, std::atomic<int64_t>>;
  std::lock_guard<std::mutex> lock(*mutex);
  return &(*counts)[key];
}

}  // namespace graph_opt

extern "C" __attribute__((visibility("default"))) int64_t graph_opt_sent_messages(const char* key) {
  return graph_opt::SentMessages(key)->load();
}
