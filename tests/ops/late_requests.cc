// Has the masters of a process send the requests of a step late, one after the other.

#include <chrono>
#include <thread>

#include "requests/imported_function.h"

namespace {

// tsl::RPCState<google::protobuf::Message>::StartCall()
constexpr char kSend[] = "_ZN3tsl8RPCStateIN6google8protobuf7MessageEE9StartCallEv";

void (*send)(void* request) = nullptr;
int delay_millis = 0;

void SendLate(void* request) {
  std::this_thread::sleep_for(std::chrono::milliseconds(delay_millis));
  send(request);
}

}  // namespace

// Returns how many libraries send such requests.
extern "C" int delay_requests(int millis) {
  delay_millis = millis;
  if (send != nullptr) return 1;
  send = reinterpret_cast<void (*)(void*)>(graph_opt::ImportedFunction(kSend));
  if (send == nullptr) return 0;
  return graph_opt::ReplaceImportedFunction(kSend, reinterpret_cast<void*>(SendLate));
}
