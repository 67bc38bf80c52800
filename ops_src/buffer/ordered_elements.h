#ifndef GRAPH_OPT_BUFFER_ORDERED_ELEMENTS_H_
#define GRAPH_OPT_BUFFER_ORDERED_ELEMENTS_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "buffer/ticket_line.h"

namespace graph_opt {

// The elements that a buffer holds, in the order in which they leave.
//
// Elements of one line leave in the order of their tickets: the front one only when every earlier
// ticket is resolved, and a new one is let in iff
//
//   elements held + open tickets ahead of it < capacity
//
// so that the slots of the batches ahead stay free for them: the order never deadlocks and the
// capacity is never exceeded. Elements without a ticket keep the order of arrival.
//
//   capacity 3, ticket 0 open:   [ slot of 0 | 1 | 2 ]   a put of 3 waits; 0 is let in, then leaves
//
// Not safe for threads by itself: guarded by the buffer's lock.
template <typename Element>
class OrderedElements {
 public:
  size_t size() const { return held_.size(); }
  bool empty() const { return held_.empty(); }

  // Whether an element of `ticket` fits. A ticket, if any, is open and its line was added.
  bool HasRoom(const Ticket* ticket, int64_t capacity) const {
    int64_t slots = held_.size();
    for (const Source& source : sources_) {
      uint64_t end = source.admitted_end;
      if (ticket != nullptr && ticket->line() == source.line) {
        if (ticket->sequence() < end) return true;  // a later one was let in only beside its slot
        end = ticket->sequence();
      }
      slots += source.line->UnresolvedBefore(end);
    }
    return slots < capacity;
  }

  // Lets an element in and spends its ticket, if any. True: others listen to its line, too.
  bool Insert(Element element, const Ticket* ticket) {
    if (ticket == nullptr) {
      held_.push_back(Held{std::move(element), nullptr, 0});
      return false;
    }
    held_.insert(PlaceOf(*ticket), Held{std::move(element), ticket->line(), ticket->sequence()});
    for (Source& source : sources_) {
      if (source.line != ticket->line()) continue;
      source.admitted_end = std::max(source.admitted_end, ticket->sequence() + 1);
    }
    return ticket->line()->Spend(ticket->sequence());
  }

  // Whether there is a front element and its turn has come.
  bool FrontMayLeave() const {
    if (held_.empty()) return false;
    const Held& front = held_.front();
    return front.line == nullptr || front.line->UnresolvedBefore(front.sequence) == 0;
  }

  Element PopFront() {
    Element element = std::move(held_.front().element);
    held_.pop_front();
    return element;
  }

  // Empties itself; the caller destroys what it gets when no lock is held.
  std::vector<Element> Clear() {
    std::vector<Element> elements;
    for (Held& held : held_) elements.push_back(std::move(held.element));
    held_.clear();
    for (Source& source : sources_) source.admitted_end = 0;
    return elements;
  }

  // Elements of this line may come. False: they may already.
  bool AddLine(const std::shared_ptr<TicketLine>& line) {
    for (const Source& source : sources_) {
      if (source.line == line) return false;
    }
    ForgetAbandonedLines();
    sources_.push_back(Source{line, 0});
    return true;
  }

  // Tickets of its lines that died unspent: batches skipped.
  int64_t dropped() const {
    int64_t dropped = forgotten_dropped_;
    for (const Source& source : sources_) dropped += source.line->dropped();
    return dropped;
  }

 private:
  struct Held {
    Element element;
    std::shared_ptr<TicketLine> line;  // null: in order of arrival
    uint64_t sequence;
  };

  // A line whose tickets come in with puts.
  struct Source {
    std::shared_ptr<TicketLine> line;
    uint64_t admitted_end;  // one past the highest sequence let in: open ones below have a slot
  };

  typename std::deque<Held>::iterator PlaceOf(const Ticket& ticket) {
    auto place = held_.end();
    for (auto it = held_.end(); it != held_.begin();) {
      --it;
      if (it->line != ticket.line()) continue;
      if (it->sequence < ticket.sequence()) break;
      place = it;
    }
    return place;
  }

  void ForgetAbandonedLines() {
    for (auto it = sources_.begin(); it != sources_.end();) {
      if (!it->line->abandoned()) {
        ++it;
        continue;
      }
      forgotten_dropped_ += it->line->dropped();
      it = sources_.erase(it);
    }
  }

  std::deque<Held> held_;
  std::vector<Source> sources_;
  int64_t forgotten_dropped_ = 0;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_BUFFER_ORDERED_ELEMENTS_H_
