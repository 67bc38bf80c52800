#ifndef GRAPH_OPT_SCRATCH_SCRATCH_POOL_H_
#define GRAPH_OPT_SCRATCH_SCRATCH_POOL_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace graph_opt {

// Memory that the group ops need for the time of a call, as large as their batch. To map and clear
// new pages in every call would cost more than what is done with them, so blocks that come back are
// kept for later calls of any op. A block that none of the last kCallsKept calls took goes back to
// the system: what is kept is what recent calls needed, however large an earlier batch was.
class ScratchPool {
 public:
  static constexpr int64_t kCallsKept = 128;

  struct Block {
    char* data;  // on a cache line's boundary
    int64_t bytes;
  };

  struct Use {
    int64_t held_bytes;  // in use and kept
    int64_t idle_bytes;  // kept for later calls
    int64_t peak_bytes;  // the most ever held
  };

  ScratchPool();
  ~ScratchPool();
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;

  // The one of all group ops. It is never destroyed: threads may outlive static objects.
  static ScratchPool* OfProcess();

  // A block of at least `bytes`, at least 1; what it contains is undefined. Throws std::bad_alloc.
  Block Take(int64_t bytes);
  void GiveBack(const Block& block);

  // A call of a group op begins. Any thread, any number of calls at a time.
  void BeginCall();

  // While there is a user, blocks are kept between calls.
  void AddUser();
  void RemoveUser();

  Use use() const;

 private:
  struct Idle {
    char* data;
    int64_t since;  // the number of the call
  };

  void FreeIdleBefore(int64_t call);

  std::atomic<int64_t> calls_{0};
  mutable std::mutex mutex_;
  std::vector<std::vector<Idle>> idle_;  // by class of size, the oldest first; guarded by mutex_
  Use use_ = {};                         // guarded by mutex_
  int64_t users_ = 0;                    // guarded by mutex_
};

// A member of kernels that use scratch memory: when the last one goes, so does the memory.
class ScratchUser {
 public:
  ScratchUser() { ScratchPool::OfProcess()->AddUser(); }
  ~ScratchUser() { ScratchPool::OfProcess()->RemoveUser(); }
  ScratchUser(const ScratchUser&) = delete;
  ScratchUser& operator=(const ScratchUser&) = delete;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_SCRATCH_SCRATCH_POOL_H_
