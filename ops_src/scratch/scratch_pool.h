#ifndef GRAPH_OPT_SCRATCH_SCRATCH_POOL_H_
#define GRAPH_OPT_SCRATCH_SCRATCH_POOL_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace graph_opt {

// A pool of the memory that group ops need during a call, which is as large as their batch. Mapping
// and clearing new pages in every call would cost more than using them, so returned blocks are kept
// for later calls of any op. A block that none of the last kCallsKept calls used is returned to the
// system, so that the pool holds what recent calls needed, however large an earlier batch was.
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

  // The pool that all group ops share. Never destroyed: threads may outlive static objects.
  static ScratchPool* OfProcess();

  // A block of at least `bytes` (which is at least 1), not initialized. Throws std::bad_alloc.
  Block Take(int64_t bytes);
  void GiveBack(const Block& block);

  // Called as a call of a group op begins, from any thread.
  void BeginCall();

  // While there is a user, blocks are kept between calls.
  void AddUser();
  void RemoveUser();

  Use use() const;

 private:
  struct Idle {
    char* data;
    int64_t since;  // the number of the call that returned it
  };

  void FreeIdleBefore(int64_t call);

  std::atomic<int64_t> calls_{0};
  mutable std::mutex mutex_;
  std::vector<std::vector<Idle>> idle_;  // by class of size, the oldest first; guarded by mutex_
  Use use_ = {};                         // guarded by mutex_
  int64_t users_ = 0;                    // guarded by mutex_
};

// A member of kernels that use scratch memory. The memory is freed with the last of them.
class ScratchUser {
 public:
  ScratchUser() { ScratchPool::OfProcess()->AddUser(); }
  ~ScratchUser() { ScratchPool::OfProcess()->RemoveUser(); }
  ScratchUser(const ScratchUser&) = delete;
  ScratchUser& operator=(const ScratchUser&) = delete;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_SCRATCH_SCRATCH_POOL_H_
