// Tickets, and buffers under many threads, without TensorFlow.

#include <atomic>
#include <future>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "bounded_buffer_testing.h"

namespace graph_opt {
namespace {

// Takes `count` elements of a buffer that are there, and returns their tickets.
std::vector<TicketRef> TakeTickets(Buffer* buffer, int count) {
  std::vector<TicketRef> tickets;
  for (int i = 0; i < count; ++i) {
    CHECK(GetNow(Put(buffer, i)).ok());
    tickets.push_back(GetNow(Take(buffer)).ticket);
    CHECK(tickets.back() != nullptr);
  }
  return tickets;
}

void CloseEndsTakesWhenTheLastWaitingPutGivesUp() {
  auto buffer = MakeBuffer(2);
  auto upstream = MakeBuffer(9);
  std::vector<TicketRef> tickets = TakeTickets(upstream.get(), 3);
  std::future<BufferStatus> third = Put(buffer.get(), 2, tickets[2], Options(20));
  std::future<Outcome> take = Take(buffer.get());
  buffer->Close();
  CHECK(!Ready(take));
  CHECK(Get(std::move(third)).code == BufferStatus::kDeadlineExceeded);
  CHECK(Get(std::move(take)).status.code == BufferStatus::kOutOfRange);
}

void TicketsKeepTheOrderAndTheSlotsAhead() {
  auto upstream = MakeBuffer(9);
  auto buffer = MakeBuffer(2);
  std::vector<TicketRef> tickets = TakeTickets(upstream.get(), 4);
  std::future<BufferStatus> put3 = Put(buffer.get(), 3, tickets[3]);
  std::future<BufferStatus> put2 = Put(buffer.get(), 2, tickets[2]);
  CHECK(!Ready(put3) && !Ready(put2));  // two batches are ahead of 2: their slots stay free
  CHECK(GetNow(Put(buffer.get(), 1, tickets[1])).ok());
  std::future<Outcome> take = Take(buffer.get());
  CHECK(!Ready(take) && buffer->Size() == 1);
  CHECK(GetNow(Put(buffer.get(), 0, tickets[0])).ok());
  CHECK(GetNow(std::move(take)).number == 0);
  CHECK(GetNow(std::move(put2)).ok() && !Ready(put3));
  CHECK(GetNow(Take(buffer.get())).number == 1);
  CHECK(GetNow(std::move(put3)).ok());
  CHECK(GetNow(Take(buffer.get())).number == 2);
  CHECK(GetNow(Take(buffer.get())).number == 3);
}

void DeadTicketsAreSkipped() {
  auto upstream = MakeBuffer(9);
  auto buffer = MakeBuffer(2);
  std::vector<TicketRef> tickets = TakeTickets(upstream.get(), 3);
  CHECK(GetNow(Put(buffer.get(), 1, tickets[1])).ok());
  std::future<BufferStatus> put2 = Put(buffer.get(), 2, tickets[2]);
  std::future<Outcome> take = Take(buffer.get());
  CHECK(!Ready(take));
  tickets[0] = nullptr;
  CHECK(Get(std::move(take)).number == 1);
  CHECK(Get(std::move(put2)).ok());
  CHECK(Get(Take(buffer.get())).number == 2);
  CHECK(buffer->Metrics().dropped == 1);
}

void FailedPutDropsItsTicket() {
  auto upstream = MakeBuffer(9);
  auto buffer = MakeBuffer(1);
  std::vector<TicketRef> tickets = TakeTickets(upstream.get(), 2);
  CHECK(GetNow(Put(buffer.get(), -1)).ok());
  Caller caller;
  std::future<BufferStatus> put0 = Put(buffer.get(), 0, tickets[0], caller.Options());
  std::future<BufferStatus> put1 = Put(buffer.get(), 1, tickets[1]);
  tickets.clear();
  caller.GiveUp();
  CHECK(GetNow(std::move(put0)).code == BufferStatus::kCancelled);
  CHECK(GetNow(Take(buffer.get())).number == -1);
  CHECK(Get(std::move(put1)).ok());
  CHECK(GetNow(Take(buffer.get())).number == 1);
}

void TicketsOfAResumedBufferBlockNobody() {
  auto upstream = MakeBuffer(9);
  auto buffer = MakeBuffer(2);
  std::vector<TicketRef> old = TakeTickets(upstream.get(), 4);
  CHECK(GetNow(Put(buffer.get(), 1, old[1])).ok());
  std::future<BufferStatus> put3 = Put(buffer.get(), 3, old[3]);
  std::future<Outcome> take = Take(buffer.get());
  CHECK(!Ready(take) && !Ready(put3));
  upstream->Resume(9);
  CHECK(GetNow(std::move(take)).number == 1);
  CHECK(GetNow(std::move(put3)).ok());
  CHECK(GetNow(Put(buffer.get(), 2, old[2])).ok());  // in order of arrival
  CHECK(GetNow(Take(buffer.get())).number == 3);
  CHECK(GetNow(Take(buffer.get())).number == 2);
  std::vector<TicketRef> fresh = TakeTickets(upstream.get(), 2);
  CHECK(GetNow(Put(buffer.get(), 1, fresh[1])).ok());
  CHECK(GetNow(Put(buffer.get(), 0, fresh[0])).ok());
  CHECK(GetNow(Take(buffer.get())).number == 0);
}

void UnorderedCallsIgnoreTickets() {
  auto upstream = MakeBuffer(9);
  auto buffer = MakeBuffer(1);
  std::vector<TicketRef> tickets = TakeTickets(upstream.get(), 2);
  CallOptions unordered = Options();
  unordered.unordered = true;
  CHECK(GetNow(Put(buffer.get(), 1, tickets[1], std::move(unordered))).ok());
  unordered = Options();
  unordered.unordered = true;
  Outcome outcome = GetNow(Take(buffer.get(), std::move(unordered)));
  CHECK(outcome.number == 1 && outcome.ticket == nullptr);
}

void SpentTicketKeepsTheOrderOfArrival() {
  auto upstream = MakeBuffer(9);
  auto buffer = MakeBuffer(3);
  std::vector<TicketRef> tickets = TakeTickets(upstream.get(), 2);
  CHECK(GetNow(Put(buffer.get(), 0, tickets[0])).ok());
  CHECK(GetNow(Put(buffer.get(), 7, tickets[0])).ok());
  CHECK(GetNow(Put(buffer.get(), 1, tickets[1])).ok());
  for (int number : {0, 7, 1}) CHECK(GetNow(Take(buffer.get())).number == number);
}

void SeveralLinesShareABuffer() {
  auto left = MakeBuffer(9);
  auto right = MakeBuffer(9);
  auto buffer = MakeBuffer(3);
  std::vector<TicketRef> lefts = TakeTickets(left.get(), 2);
  std::vector<TicketRef> rights = TakeTickets(right.get(), 2);
  CHECK(GetNow(Put(buffer.get(), 1, lefts[1])).ok());  // and a slot for the left 0
  std::future<BufferStatus> right1 = Put(buffer.get(), 11, rights[1]);
  CHECK(!Ready(right1));  // it would need two
  std::future<BufferStatus> plain = Put(buffer.get(), 99);
  CHECK(GetNow(std::move(plain)).ok());
  CHECK(GetNow(Put(buffer.get(), 0, lefts[0])).ok());
  CHECK(buffer->Size() == 3);
  for (int number : {0, 1}) CHECK(GetNow(Take(buffer.get())).number == number);
  CHECK(GetNow(std::move(right1)).ok());
  CHECK(GetNow(Take(buffer.get())).number == 99);
  CHECK(GetNow(Put(buffer.get(), 10, rights[0])).ok());
  for (int number : {10, 11}) CHECK(GetNow(Take(buffer.get())).number == number);
}

void OneLineMayFeedTwoBuffers() {
  auto upstream = MakeBuffer(9);
  auto first = MakeBuffer(2);
  auto second = MakeBuffer(2);
  std::vector<TicketRef> tickets = TakeTickets(upstream.get(), 3);
  std::future<BufferStatus> put2 = Put(second.get(), 2, tickets[2]);
  CHECK(!Ready(put2));
  CHECK(GetNow(Put(first.get(), 1, tickets[1])).ok());
  CHECK(GetNow(std::move(put2)).ok());
  std::future<Outcome> take = Take(second.get());
  CHECK(!Ready(take));
  CHECK(GetNow(Put(first.get(), 0, tickets[0])).ok());
  CHECK(GetNow(std::move(take)).number == 2);
}

// Batches go from an upstream buffer through workers in random order to a buffer; some are dropped.
// Single-threaded, so that a run can be repeated from its seed.
void AnyOrderOfEventsKeepsTheOrder() {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const int capacity = 1 + random() % 4;
    const int workers = 1 + random() % 6;
    auto upstream = MakeBuffer(1);
    auto buffer = MakeBuffer(capacity);
    std::vector<std::pair<int, TicketRef>> held;
    std::vector<std::future<BufferStatus>> puts;
    std::vector<int> taken;
    std::vector<bool> dropped(60, false);
    int next = 0;
    auto take_all = [&] {
      while (buffer->Size() > 0) {
        Outcome outcome = Get(Take(buffer.get()));
        CHECK(outcome.status.ok());
        taken.push_back(outcome.number);
      }
    };
    while (next < 60 || !held.empty()) {
      const unsigned choice = random() % 8;
      size_t waiting = 0;
      for (const auto& put : puts) waiting += !Ready(put);
      if (choice < 4 && next < 60 && static_cast<int>(held.size() + waiting) < workers) {
        CHECK(GetNow(Put(upstream.get(), next)).ok());
        Outcome outcome = GetNow(Take(upstream.get()));
        held.emplace_back(next++, std::move(outcome.ticket));
      } else if (!held.empty()) {
        std::swap(held[random() % held.size()], held.back());
        if (choice == 7) {
          dropped[held.back().first] = true;
        } else {
          puts.push_back(Put(buffer.get(), held.back().first, held.back().second));
        }
        held.pop_back();
      } else {
        take_all();
      }
      CHECK(buffer->Size() <= capacity);
    }
    take_all();
    for (auto& put : puts) CHECK(Get(std::move(put)).ok());
    buffer->Close();
    take_all();
    std::vector<int> expected;
    for (int i = 0; i < 60; ++i) {
      if (!dropped[i]) expected.push_back(i);
    }
    CHECK(taken == expected);
  }
}

// One producer, `workers` threads in between that lose and give up some batches, one consumer.
void ThreadsKeepTheOrder() {
  const int batches = 3000;
  const int workers = 4;
  auto upstream = MakeBuffer(3);
  auto buffer = MakeBuffer(2);
  std::vector<std::atomic<int>> lost(batches);
  for (auto& flag : lost) flag = 0;
  std::thread producer([&] {
    for (int i = 0; i < batches; ++i) CHECK(Get(Put(upstream.get(), i)).ok());
    upstream->Close();
  });
  std::atomic<int> working(workers);
  std::vector<std::thread> threads;
  for (int worker = 0; worker < workers; ++worker) {
    threads.emplace_back([&, worker] {
      std::mt19937 random(worker);
      while (true) {
        Outcome outcome = Get(Take(upstream.get()));
        if (!outcome.status.ok()) break;
        for (unsigned i = random() % 20; i > 0; --i) std::this_thread::yield();
        const unsigned choice = random() % 20;
        if (choice == 0) {
          lost[outcome.number] = 1;
          continue;
        }
        Caller caller;
        std::future<BufferStatus> put =
            Put(buffer.get(), outcome.number, std::move(outcome.ticket), caller.Options());
        if (choice == 1) caller.GiveUp();
        if (!Get(std::move(put)).ok()) lost[outcome.number] = 1;
      }
      if (--working == 0) buffer->Close();
    });
  }
  std::vector<int> taken;
  std::mt19937 random(99);
  while (true) {
    Caller caller;
    std::future<Outcome> take = Take(buffer.get(), caller.Options());
    if (random() % 4 == 0) caller.GiveUp();
    Outcome outcome = Get(std::move(take));
    CHECK(buffer->Size() <= 2);
    if (outcome.status.code == BufferStatus::kCancelled) continue;
    if (!outcome.status.ok()) break;
    taken.push_back(outcome.number);
  }
  producer.join();
  for (std::thread& thread : threads) thread.join();
  std::vector<int> expected;
  for (int i = 0; i < batches; ++i) {
    if (!lost[i]) expected.push_back(i);
  }
  CHECK(taken == expected);
}

// Every call ends exactly once while threads put, take, give up, time out, cancel and resume.
void EveryCallEndsOnce() {
  auto upstream = MakeBuffer(2);
  auto buffer = MakeBuffer(2);
  std::atomic<int> begun(0);
  std::atomic<int> ended(0);
  std::vector<std::thread> threads;
  for (int kind = 0; kind < 6; ++kind) {
    threads.emplace_back([&, kind] {
      std::mt19937 random(kind);
      for (int i = 0; i < 2000; ++i) {
        Caller caller;
        CallOptions options = caller.Options();
        options.timeout_millis = 1 + random() % 3;
        auto done = std::make_shared<std::promise<void>>();
        std::future<void> finished = done->get_future();
        ++begun;
        if (kind % 2 == 0) {
          TicketRef ticket;
          if (Get(Put(upstream.get(), i, nullptr, Options(1))).ok()) {
            ticket = Get(Take(upstream.get(), Options(1))).ticket;
          }
          buffer->Put(Batch(), std::move(ticket), std::move(options),
                      [&, done](const BufferStatus&) {
                        ++ended;
                        done->set_value();
                      });
        } else {
          buffer->Take(std::move(options), [&, done](const BufferStatus&, Buffer::Taken) {
            ++ended;
            done->set_value();
          });
        }
        if (random() % 5 == 0) caller.GiveUp();
        if (random() % 50 == 0) buffer->Cancel(BufferStatus(15, "torn"));
        if (random() % 10 == 0) buffer->Resume(2);
        if (random() % 50 == 0) upstream->Resume(2);
        Get(std::move(finished));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(begun == ended);
  const BufferMetrics metrics = buffer->Metrics();
  CHECK(metrics.pending_puts == 0 && metrics.pending_takes == 0);
}

const Test kTests[] = {
    TEST(CloseEndsTakesWhenTheLastWaitingPutGivesUp),
    TEST(TicketsKeepTheOrderAndTheSlotsAhead),
    TEST(DeadTicketsAreSkipped),
    TEST(FailedPutDropsItsTicket),
    TEST(TicketsOfAResumedBufferBlockNobody),
    TEST(UnorderedCallsIgnoreTickets),
    TEST(SpentTicketKeepsTheOrderOfArrival),
    TEST(SeveralLinesShareABuffer),
    TEST(OneLineMayFeedTwoBuffers),
    TEST(AnyOrderOfEventsKeepsTheOrder),
    TEST(ThreadsKeepTheOrder),
    TEST(EveryCallEndsOnce),
};

}  // namespace
}  // namespace graph_opt

int main(int count, char** arguments) {
  return graph_opt::RunTests(graph_opt::kTests, count, arguments);
}
