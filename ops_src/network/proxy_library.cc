#include "network/proxy_library.h"

#include <cerrno>

#include "network/network_proxy.h"

using graph_opt::NetworkProxy;

void* graph_opt_proxy_new(double delay_seconds, double bytes_per_second, int counts_calls) {
  return new NetworkProxy(delay_seconds, bytes_per_second, counts_calls != 0);
}

int graph_opt_proxy_add_target(void* proxy, const char* host, const char* port) {
  return static_cast<NetworkProxy*>(proxy)->AddTarget(host, port);
}

int graph_opt_proxy_run(void* proxy, int stop, int wake) {
  switch (static_cast<NetworkProxy*>(proxy)->Run(stop, wake)) {
    case NetworkProxy::Outcome::kStopped:
      return 0;
    case NetworkProxy::Outcome::kOtherSignal:
      return 1;
    default:
      return -errno;
  }
}

void graph_opt_proxy_set_delay(void* proxy, double seconds) {
  static_cast<NetworkProxy*>(proxy)->SetDelay(seconds);
}

void graph_opt_proxy_close(void* proxy) { static_cast<NetworkProxy*>(proxy)->Close(); }

uint64_t graph_opt_proxy_calls(const void* proxy) {
  return static_cast<const NetworkProxy*>(proxy)->passed().calls;
}

uint64_t graph_opt_proxy_bytes(const void* proxy) {
  return static_cast<const NetworkProxy*>(proxy)->passed().bytes;
}

void graph_opt_proxy_delete(void* proxy) { delete static_cast<NetworkProxy*>(proxy); }
