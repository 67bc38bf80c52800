// The proxy for Python's ctypes (graph_opt/launch/network_proxy.py).
#ifndef GRAPH_OPT_NETWORK_PROXY_LIBRARY_H_
#define GRAPH_OPT_NETWORK_PROXY_LIBRARY_H_

#include <cstdint>

#define GRAPH_OPT_EXPORTED extern "C" __attribute__((visibility("default")))

// See network_proxy.h.
GRAPH_OPT_EXPORTED void* graph_opt_proxy_new(double delay_seconds, double bytes_per_second,
                                             int counts_calls);
// A port, or a negative errno.
GRAPH_OPT_EXPORTED int graph_opt_proxy_add_target(void* proxy, const char* host, const char* port);
// 0 when stopped, 1 at a signal that is not for the proxy, or a negative errno.
GRAPH_OPT_EXPORTED int graph_opt_proxy_run(void* proxy, int stop, int wake);
GRAPH_OPT_EXPORTED void graph_opt_proxy_set_delay(void* proxy, double seconds);
GRAPH_OPT_EXPORTED void graph_opt_proxy_close(void* proxy);
GRAPH_OPT_EXPORTED uint64_t graph_opt_proxy_calls(const void* proxy);
GRAPH_OPT_EXPORTED uint64_t graph_opt_proxy_bytes(const void* proxy);
GRAPH_OPT_EXPORTED void graph_opt_proxy_delete(void* proxy);

#endif  // GRAPH_OPT_NETWORK_PROXY_LIBRARY_H_
