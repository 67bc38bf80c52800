#include "requests/unsent_calls.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "requests/imported_function.h"

namespace graph_opt {
namespace {

// Elements of an array lie closer than this.
constexpr uintptr_t kLargestStride = 1024;

// The calls of one step of which some are not sent yet.
struct Sending {
  bool Overlaps(uintptr_t begin, uintptr_t end) const { return first <= end && begin <= last; }

  uint64_t number;
  uintptr_t first;
  uintptr_t last;
  bool is_cancelled;
};

class AllSending {
 public:
  // Never destroyed: threads of masters may outlive the library's static objects.
  static AllSending& Process() {
    static AllSending* const all = new AllSending;
    return *all;
  }

  // Adds calls that lie within these addresses, and returns their number.
  uint64_t Add(uintptr_t first, uintptr_t last) {
    std::lock_guard<std::mutex> lock(mutex_);
    // A step that ended before it was sent has left its memory to this one.
    RemoveIf([=](const Sending& each) { return each.Overlaps(first, last); });
    sending_.push_back({++added_, first, last, false});
    return added_;
  }

  void Remove(uint64_t number) {
    std::lock_guard<std::mutex> lock(mutex_);
    RemoveIf([=](const Sending& each) { return each.number == number; });
  }

  void Cancel(uintptr_t call) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (Sending& each : sending_) {
      if (each.Overlaps(call, call)) each.is_cancelled = true;
    }
  }

  bool IsCancelled(uint64_t number) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const Sending& each : sending_) {
      if (each.number == number) return each.is_cancelled;
    }
    return false;
  }

 private:
  template <typename Condition>
  void RemoveIf(Condition condition) {
    sending_.erase(std::remove_if(sending_.begin(), sending_.end(), condition), sending_.end());
  }

  std::mutex mutex_;
  std::vector<Sending> sending_;  // guarded by mutex_
  uint64_t added_ = 0;            // guarded by mutex_
};

// What the calling thread has done last. Without a destructor, which would need a function of later
// C libraries than portable wheels may.
struct Thread {
  uintptr_t first = 0;
  uintptr_t last = 0;
  uintptr_t stride = 0;
  int made = 0;
  int sent = 0;
  bool has_numbered = false;
  uint64_t sending = 0;  // The number of its step; 0 for none.
};

thread_local Thread thread;

// Whether a call lies behind the last one that the thread has made, as the next element.
bool IsNext(uintptr_t call) {
  if (thread.made == 0 || thread.has_numbered || call <= thread.last) return false;
  const uintptr_t stride = call - thread.last;
  return thread.made == 1 ? stride <= kLargestStride : stride == thread.stride;
}

void ForgetSending() {
  if (thread.sending != 0) AllSending::Process().Remove(thread.sending);
  thread.sending = 0;
}

}  // namespace

void UnsentCalls::NoteMade(const void* made) {
  const auto call = reinterpret_cast<uintptr_t>(made);
  if (IsNext(call)) {
    thread.stride = call - thread.last;
    thread.last = call;
    ++thread.made;
    return;
  }
  ForgetSending();
  thread = Thread();
  thread.first = thread.last = call;
  thread.made = 1;
}

void UnsentCalls::NoteNumbered() {
  if (thread.has_numbered) return;
  thread.has_numbered = true;
  if (thread.made > 1) thread.sending = AllSending::Process().Add(thread.first, thread.last);
}

void UnsentCalls::NoteCancelled(const void* call) {
  AllSending::Process().Cancel(reinterpret_cast<uintptr_t>(call));
}

bool UnsentCalls::NoteSent(const void* sent) {
  const auto call = reinterpret_cast<uintptr_t>(sent);
  if (thread.sending == 0 || call < thread.first || call > thread.last) return false;
  const bool is_cancelled = AllSending::Process().IsCancelled(thread.sending);
  if (++thread.sent == thread.made) ForgetSending();
  return is_cancelled;
}

}  // namespace graph_opt

namespace {

using graph_opt::ImportedFunction;
using graph_opt::ReplaceImportedFunction;
using graph_opt::UnsentCalls;

// Functions of TensorFlow's CallOptions. An argument that is not a pointer, the std::function that
// cancels the call, is passed as one to a temporary object.
struct CallFunctions {
  void (*make)(void* call);
  void (*set_cancel)(void* call, void* cancel);
  void (*cancel)(void* call);
};

CallFunctions of_tensorflow;

void Make(void* call) {
  of_tensorflow.make(call);
  UnsentCalls::NoteMade(call);
}

void SetCancel(void* call, void* cancel) {
  // Whatever cancels the call from here on finds how to; what has done so before is noted.
  of_tensorflow.set_cancel(call, cancel);
  if (UnsentCalls::NoteSent(call)) of_tensorflow.cancel(call);
}

void Cancel(void* call) {
  UnsentCalls::NoteCancelled(call);
  of_tensorflow.cancel(call);
}

// The names of CallOptions::CallOptions(), SetCancelCallback(std::function<void()>) and
// StartCancel(): in TensorFlow's namespace first, and from 2.11 on in that of its own library.
struct CallNames {
  const char* make;
  const char* set_cancel;
  const char* cancel;
};

constexpr CallNames kNames[] = {
    {"_ZN3tsl11CallOptionsC1Ev", "_ZN3tsl11CallOptions17SetCancelCallbackESt8functionIFvvEE",
     "_ZN3tsl11CallOptions11StartCancelEv"},
    {"_ZN10tensorflow11CallOptionsC1Ev",
     "_ZN10tensorflow11CallOptions17SetCancelCallbackESt8functionIFvvEE",
     "_ZN10tensorflow11CallOptions11StartCancelEv"},
};

template <typename Function>
bool Find(const char* name, Function* function) {
  *function = reinterpret_cast<Function>(ImportedFunction(name));
  return *function != nullptr;
}

bool Replace() {
  for (const CallNames& names : kNames) {
    CallFunctions found = {};
    if (!Find(names.make, &found.make) || !Find(names.set_cancel, &found.set_cancel) ||
        !Find(names.cancel, &found.cancel)) {
      continue;
    }
    of_tensorflow = found;
    ReplaceImportedFunction(names.make, reinterpret_cast<void*>(Make));
    ReplaceImportedFunction(names.set_cancel, reinterpret_cast<void*>(SetCancel));
    ReplaceImportedFunction(names.cancel, reinterpret_cast<void*>(Cancel));
    return true;
  }
  return false;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int32_t graph_opt_cancel_unsent_calls() {
  static const bool is_replaced = Replace();
  return is_replaced;
}
