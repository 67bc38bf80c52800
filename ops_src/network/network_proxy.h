// A TCP proxy that makes loopback as slow as a network: latency, and a limit of bandwidth.
//
//     worker ──► [ listener ──(delay, rate)──► target ] ──► server
//     worker ◄── [          ◄──(delay, rate)──        ] ◄── server
//
// One thread does it all, in turns: it waits until something has come or is due, then reads and
// writes on all connections. What is read is due so long after it arrived, which Linux stamps it
// with. So while something waits to be written, the thread may sleep for a moment: messages that
// come meanwhile do not wake it one by one, and none of them is due before.
#ifndef GRAPH_OPT_NETWORK_NETWORK_PROXY_H_
#define GRAPH_OPT_NETWORK_NETWORK_PROXY_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "network/chunk_queue.h"
#include "network/clock.h"
#include "network/direction.h"
#include "network/file_descriptor.h"
#include "network/link.h"

struct epoll_event;

namespace graph_opt {

class NetworkProxy {
 public:
  // Each target has a link of its own each way. A rate of 0 is no limit. Calls are counted only if
  // asked for: that reads in the bytes.
  NetworkProxy(double delay_seconds, double bytes_per_second, bool counts_calls);
  ~NetworkProxy();

  // Listens on a port of loopback, which it returns, for what is to go to this address. Returns a
  // negative errno if it cannot.
  int AddTarget(const std::string& host, const std::string& port);

  // Of what is read from now on, which overtakes nothing; may be called by any thread.
  void SetDelay(double seconds) { delay_seconds_ = seconds; }

  enum class Outcome { kGoesOn, kStopped, kOtherSignal, kFailed };

  // Forwards until the descriptor `stop` becomes readable or is closed. From `wake`, which must not
  // block, it reads the numbers of signals as bytes: SIGUSR1 resets all connections, and each new
  // one, until SIGUSR2. At any other it returns, and may be called again. Fails with errno set.
  // Never returns kGoesOn.
  Outcome Run(int stop, int wake);

  // Closes all sockets.
  void Close();

  const Passed& passed() const { return passed_; }

 private:
  struct Target;
  struct Connection;
  // What epoll tells of.
  struct Watched {
    Target* target;   // of a listener
    Direction* from;  // whose source, and
    Direction* to;    // whose sink the end of a connection is
  };

  bool Start(int stop, int wake);
  bool Watch(int descriptor, uint32_t events, Watched* watched);
  bool WatchEnds(Connection* connection);
  Outcome Take(const epoll_event& event, int wake);
  Outcome ReadSignals(int wake);
  Outcome Accept(Target* target);
  void Reset();
  void RunConnections(int64_t now);
  void ApplyDelay();

  std::atomic<double> delay_seconds_;
  double applied_delay_;
  const double bytes_per_second_;
  const bool counts_calls_;
  Passed passed_;
  BlockPool pool_;
  FileDescriptor epoll_;
  Watched stop_ = {};
  Watched wake_ = {};
  bool is_cut_ = false;
  bool must_reset_ = false;
  std::vector<std::unique_ptr<Target>> targets_;
  std::vector<std::unique_ptr<Connection>> connections_;
  int64_t longest_sleep_;
  int64_t next_run_ = kNever;
  int64_t sleeps_until_ = kNever;  // and takes no notice of what comes
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_NETWORK_NETWORK_PROXY_H_
