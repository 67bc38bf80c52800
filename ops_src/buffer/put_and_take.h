#ifndef GRAPH_OPT_BUFFER_PUT_AND_TAKE_H_
#define GRAPH_OPT_BUFFER_PUT_AND_TAKE_H_

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "buffer/pending_call.h"

namespace graph_opt {

// What a slot of a buffer holds.
template <typename Element>
struct BufferEntry {
  Element element;
  absl::Status error;  // OK: there is an element
};

// A put of a buffer, with what it brings.
template <typename Element>
class PendingPut : public PendingCall {
 public:
  PendingPut(CallOptions options, BufferEntry<Element> entry, int64_t place,
             std::function<void(const absl::Status&)> done)
      : PendingCall(std::move(options)),
        entry(std::move(entry)),
        place(place),
        done_(std::move(done)) {}

  BufferEntry<Element> entry;
  const int64_t place;

 private:
  void RunCallback() override { done_(this->status); }
  std::function<void(const absl::Status&)> done_;
};

// A take of a buffer, with what it gets; or a look at what the next take would get.
template <typename Element>
class PendingTake : public PendingCall {
 public:
  using Copy = Element (*)(const Element&);

  // With `copy`, the element stays where it is.
  PendingTake(CallOptions options, std::function<void(const absl::Status&, Element)> done,
              Copy copy = nullptr)
      : PendingCall(std::move(options)), copy(copy), done_(std::move(done)) {}

  const Copy copy;
  Element taken;

 private:
  void RunCallback() override { done_(this->status, std::move(taken)); }
  std::function<void(const absl::Status&, Element)> done_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_BUFFER_PUT_AND_TAKE_H_
