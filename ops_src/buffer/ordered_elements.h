#ifndef GRAPH_OPT_BUFFER_ORDERED_ELEMENTS_H_
#define GRAPH_OPT_BUFFER_ORDERED_ELEMENTS_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "buffer/open_places.h"

namespace graph_opt {

// The elements that a buffer holds, in the order in which they leave.
//
// Elements with a place leave in the order of their places: the front one only when every earlier
// place is settled. A new one is let in if and only if
//
//   elements held + open places ahead of it < capacity
//
// so that the slots of the batches ahead stay free for them: the order never deadlocks and the
// capacity is never exceeded. Elements without a place keep the order of arrival.
//
//   capacity 3, place 0 open:   [ slot of 0 | 1 | 2 ]   a put of 3 waits; 0 is let in, then leaves
//
// Not thread-safe by itself: guarded by the buffer's lock.
template <typename Element>
class OrderedElements {
 public:
  size_t size() const { return held_.size(); }
  bool empty() const { return held_.empty(); }
  const OpenPlaces& places() const { return places_; }

  // Whether an element for this open place, or for kNoPlace, fits.
  bool HasRoom(int64_t place, int64_t capacity) const {
    const int64_t held = held_.size();
    if (place == kNoPlace) return held + places_.OpenBefore(admitted_end_) < capacity;
    if (place < admitted_end_) return true;  // a later one was let in only beside its slot
    return held + places_.OpenBefore(place) < capacity;
  }

  // Lets an element in, which settles its place, if it has one.
  void Insert(Element element, int64_t place) {
    if (place == kNoPlace) {
      held_.push_back(Held{std::move(element), place});
      return;
    }
    held_.insert(PositionOf(place), Held{std::move(element), place});
    admitted_end_ = std::max(admitted_end_, place + 1);
    places_.Settle(place);
  }

  // No element will come for this place. Returns false if it was settled before.
  bool Skip(int64_t place) { return places_.Settle(place); }

  // Whether there is a front element and its turn has come.
  bool FrontMayLeave() const {
    return !held_.empty() && places_.OpenBefore(held_.front().place) == 0;
  }

  const Element& Front() const { return held_.front().element; }

  Element PopFront() {
    Element element = std::move(held_.front().element);
    held_.pop_front();
    return element;
  }

  // Removes all elements; the caller destroys what it gets once no lock is held.
  std::vector<Element> Clear() {
    std::vector<Element> elements;
    for (Held& held : held_) elements.push_back(std::move(held.element));
    held_.clear();
    return elements;
  }

  // Counts places from `first` on; for an empty buffer.
  void Restart(int64_t first) {
    places_ = OpenPlaces(first);
    admitted_end_ = first;
  }

 private:
  struct Held {
    Element element;
    int64_t place;
  };

  typename std::deque<Held>::iterator PositionOf(int64_t place) {
    auto position = held_.end();
    for (auto it = held_.end(); it != held_.begin();) {
      --it;
      if (it->place == kNoPlace) continue;
      if (it->place < place) break;
      position = it;
    }
    return position;
  }

  std::deque<Held> held_;
  OpenPlaces places_;
  int64_t admitted_end_ = 0;  // one past the highest place let in: open ones before have a slot
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_BUFFER_ORDERED_ELEMENTS_H_
