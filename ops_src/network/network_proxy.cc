#include "network/network_proxy.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <initializer_list>
#include <utility>

#include "network/arrival_time.h"
#include "network/clock.h"
#include "network/timed_wait.h"

namespace graph_opt {
namespace {

constexpr int kMostEvents = 64;
constexpr linger kAborted = {1, 0};  // closing sends a reset at once

void PassOnAtOnce(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void ResetOnClose(int socket) {
  setsockopt(socket, SOL_SOCKET, SO_LINGER, &kAborted, sizeof kAborted);
}

FileDescriptor Connected(const std::string& host, const std::string& port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return FileDescriptor();
  FileDescriptor connected;
  for (const addrinfo* one = found; one != nullptr && !connected.is_open(); one = one->ai_next) {
    FileDescriptor tried(socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol));
    if (!tried.is_open()) continue;
    if (connect(tried.number(), one->ai_addr, one->ai_addrlen) == 0) connected = std::move(tried);
  }
  freeaddrinfo(found);
  return connected;
}

int64_t LongestSleep(double delay_seconds) {
  return std::min(Link(delay_seconds, 0).delay() / 20, kMillisecond / 20);
}

}  // namespace

struct NetworkProxy::Target {
  std::string host;
  std::string port;
  FileDescriptor listener;
  Link there;
  Link back;
  Watched watched;
};

struct NetworkProxy::Connection {
  Connection(FileDescriptor caller, FileDescriptor answerer, Target* target, bool counts_calls,
             BlockPool* pool, Passed* passed)
      : client(std::move(caller)),
        server(std::move(answerer)),
        there(client.number(), server.number(), counts_calls, &target->there, pool, passed),
        back(server.number(), client.number(), false, &target->back, pool, passed),
        of_client{nullptr, &there, &back},
        of_server{nullptr, &back, &there} {}

  FileDescriptor client;
  FileDescriptor server;
  Direction there;
  Direction back;
  Watched of_client;
  Watched of_server;
};

NetworkProxy::NetworkProxy(double delay_seconds, double bytes_per_second, bool counts_calls)
    : delay_seconds_(delay_seconds),
      applied_delay_(delay_seconds),
      bytes_per_second_(bytes_per_second),
      counts_calls_(counts_calls),
      longest_sleep_(LongestSleep(delay_seconds)) {}

NetworkProxy::~NetworkProxy() {}

int NetworkProxy::AddTarget(const std::string& host, const std::string& port) {
  FileDescriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener.is_open()) return -errno;
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  sockaddr* const any = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener.number(), any, size) != 0 || listen(listener.number(), SOMAXCONN) != 0 ||
      getsockname(listener.number(), any, &size) != 0) {
    return -errno;
  }
  const Link link(delay_seconds_, bytes_per_second_);
  targets_.emplace_back(new Target{host, port, std::move(listener), link, link, {}});
  targets_.back()->watched.target = targets_.back().get();
  return ntohs(address.sin_port);
}

NetworkProxy::Outcome NetworkProxy::Run(int stop, int wake) {
  // Else Linux may wake this thread up to 50 us late, which would be added to each delay.
  prctl(PR_SET_TIMERSLACK, 1UL);
  // A file has no end to wait for: epoll refuses what select calls readable.
  if (!Start(stop, wake)) return errno == EPERM ? Outcome::kStopped : Outcome::kFailed;
  while (true) {
    if (sleeps_until_ != kNever) SleepUntil(sleeps_until_);
    epoll_event events[kMostEvents];
    const int count = WaitUntil(epoll_.number(), next_run_, events, kMostEvents);
    if (count < 0) return Outcome::kFailed;
    for (int i = 0; i < count; ++i) {
      const Outcome outcome = Take(events[i], wake);
      if (outcome != Outcome::kGoesOn) return outcome;
    }
    RunConnections(Now());
  }
}

void NetworkProxy::Close() {
  connections_.clear();
  targets_.clear();
  epoll_ = FileDescriptor();
}

bool NetworkProxy::Start(int stop, int wake) {
  epoll_ = FileDescriptor(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.is_open() || !Watch(stop, EPOLLIN, &stop_) || !Watch(wake, EPOLLIN, &wake_)) {
    return false;
  }
  for (const auto& target : targets_) {
    if (!Watch(target->listener.number(), EPOLLIN, &target->watched)) return false;
  }
  for (const auto& connection : connections_) {
    if (!WatchEnds(connection.get())) return false;
  }
  return true;
}

bool NetworkProxy::Watch(int descriptor, uint32_t events, Watched* watched) {
  epoll_event event = {};
  event.events = events;
  event.data.ptr = watched;
  return epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, descriptor, &event) == 0;
}

bool NetworkProxy::WatchEnds(Connection* connection) {
  // Told of changes only, so that what is watched for need never change.
  const uint32_t changes = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  return Watch(connection->client.number(), changes, &connection->of_client) &&
         Watch(connection->server.number(), changes, &connection->of_server);
}

NetworkProxy::Outcome NetworkProxy::Take(const epoll_event& event, int wake) {
  const Watched* const watched = static_cast<Watched*>(event.data.ptr);
  if (watched == &stop_) return Outcome::kStopped;
  if (watched == &wake_) return ReadSignals(wake);
  if (watched->target != nullptr) return Accept(watched->target);
  const uint32_t ended = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
  if (event.events & (EPOLLIN | ended)) watched->from->SourceIsReadable(event.events & ended);
  if (event.events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) watched->to->SinkIsWritable();
  return Outcome::kGoesOn;
}

NetworkProxy::Outcome NetworkProxy::ReadSignals(int wake) {
  Outcome outcome = Outcome::kGoesOn;
  char number;
  while (read(wake, &number, 1) == 1) {
    if (number != SIGUSR1 && number != SIGUSR2) {
      outcome = Outcome::kOtherSignal;
    } else {
      is_cut_ = number == SIGUSR1;
      must_reset_ |= is_cut_;
    }
  }
  return outcome;
}

NetworkProxy::Outcome NetworkProxy::Accept(Target* target) {
  FileDescriptor client(accept4(target->listener.number(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!client.is_open()) {
    // The others are faults of that connection alone.
    const bool is_fatal = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    return is_fatal ? Outcome::kFailed : Outcome::kGoesOn;
  }
  if (is_cut_) {
    ResetOnClose(client.number());
    return Outcome::kGoesOn;
  }
  FileDescriptor server = Connected(target->host, target->port);
  // To the client this looks as if nobody listened at the target.
  if (!server.is_open()) return Outcome::kGoesOn;
  for (const int end : {client.number(), server.number()}) {
    PassOnAtOnce(end);
    StampArrivals(end);
    fcntl(end, F_SETFL, O_NONBLOCK);
  }
  connections_.emplace_back(new Connection(std::move(client), std::move(server), target,
                                           counts_calls_, &pool_, &passed_));
  return WatchEnds(connections_.back().get()) ? Outcome::kGoesOn : Outcome::kFailed;
}

void NetworkProxy::Reset() {
  for (const auto& connection : connections_) {
    ResetOnClose(connection->client.number());
    ResetOnClose(connection->server.number());
  }
  connections_.clear();
  must_reset_ = false;
}

void NetworkProxy::ApplyDelay() {
  const double delay = delay_seconds_;
  if (delay == applied_delay_) return;
  applied_delay_ = delay;
  longest_sleep_ = LongestSleep(delay);
  for (const auto& target : targets_) {
    target->there.set_delay(delay);
    target->back.set_delay(delay);
  }
}

void NetworkProxy::RunConnections(int64_t now) {
  ApplyDelay();
  if (must_reset_) Reset();
  next_run_ = kNever;
  bool must_hear = false;
  bool any_finished = false;
  for (const auto& connection : connections_) {
    connection->there.Run(now);
    connection->back.Run(now);
    next_run_ = std::min({next_run_, connection->there.next_run(), connection->back.next_run()});
    must_hear |= connection->there.must_hear() || connection->back.must_hear();
    any_finished |= connection->there.is_finished() && connection->back.is_finished();
  }
  // What comes from now on is stamped, and due after the delay: nobody need look yet. But not for
  // long, since senders of many bytes may wait for room.
  const bool may_sleep = next_run_ != kNever && !must_hear;
  sleeps_until_ = may_sleep ? std::min(next_run_, now + longest_sleep_) : kNever;
  if (!any_finished) return;
  const auto is_over = [](const std::unique_ptr<Connection>& connection) {
    return connection->there.is_finished() && connection->back.is_finished();
  };
  connections_.erase(std::remove_if(connections_.begin(), connections_.end(), is_over),
                     connections_.end());
}

}  // namespace graph_opt
