#include "scratch/scratch_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace graph_opt {
namespace {

constexpr int kLeastBits = 12;  // of the smallest class, 4 KiB
constexpr int kMostBits = 48;
// A class is at most 25 % larger than the one before; a block of one of the next four classes, up
// to twice the size, will do as well.
constexpr int kClassesPerDoubling = 4;
constexpr int kClassesThatDo = kClassesPerDoubling;
constexpr int kNumClasses = (kMostBits - kLeastBits) * kClassesPerDoubling;
// Blocks of this size and above are mapped, since malloc may keep what is freed.
constexpr int64_t kLeastMappedBytes = 256 << 10;
constexpr int64_t kLineBytes = 64;
// How often idle blocks are searched for old ones.
constexpr int64_t kCallsBetweenLooks = 16;

int64_t BytesOfClass(int index) {
  const int bits = kLeastBits + index / kClassesPerDoubling;
  return (int64_t{kClassesPerDoubling} + index % kClassesPerDoubling) << (bits - 2);
}

// The first class of at least so many bytes.
int ClassOf(int64_t bytes) {
  int bits = kLeastBits;
  while (bits < kMostBits - 1 && bytes > int64_t{2} << bits) ++bits;
  int index = (bits - kLeastBits) * kClassesPerDoubling;
  while (index < kNumClasses - 1 && BytesOfClass(index) < bytes) ++index;
  if (BytesOfClass(index) < bytes) throw std::bad_alloc();
  return index;
}

char* Allocate(int64_t bytes) {
  if (bytes < kLeastMappedBytes) {
    void* data = nullptr;
    if (posix_memalign(&data, kLineBytes, bytes) != 0) throw std::bad_alloc();
    return static_cast<char*>(data);
  }
  void* const data =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  return static_cast<char*>(data);
}

void Free(char* data, int64_t bytes) {
  if (bytes < kLeastMappedBytes) {
    std::free(data);
  } else {
    munmap(data, bytes);
  }
}

}  // namespace

constexpr int64_t ScratchPool::kCallsKept;

ScratchPool::ScratchPool() : idle_(kNumClasses) {}

ScratchPool::~ScratchPool() { FreeIdleBefore(calls_ + 1); }

ScratchPool* ScratchPool::OfProcess() {
  static ScratchPool* const pool = new ScratchPool;
  return pool;
}

ScratchPool::Block ScratchPool::Take(int64_t bytes) {
  const int wanted = ClassOf(bytes);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (int i = wanted; i < std::min(wanted + kClassesThatDo, kNumClasses); ++i) {
      if (idle_[i].empty()) continue;
      const Block block = {idle_[i].back().data, BytesOfClass(i)};
      idle_[i].pop_back();
      use_.idle_bytes -= block.bytes;
      return block;
    }
  }
  const Block block = {Allocate(BytesOfClass(wanted)), BytesOfClass(wanted)};
  std::lock_guard<std::mutex> lock(mutex_);
  use_.held_bytes += block.bytes;
  use_.peak_bytes = std::max(use_.peak_bytes, use_.held_bytes);
  return block;
}

void ScratchPool::GiveBack(const Block& block) {
  std::lock_guard<std::mutex> lock(mutex_);
  idle_[ClassOf(block.bytes)].push_back(Idle{block.data, calls_});
  use_.idle_bytes += block.bytes;
}

void ScratchPool::BeginCall() {
  const int64_t call = ++calls_;
  if (call % kCallsBetweenLooks != 0) return;
  std::lock_guard<std::mutex> lock(mutex_);
  FreeIdleBefore(call - kCallsKept);
}

void ScratchPool::FreeIdleBefore(int64_t call) {
  for (int i = 0; i < kNumClasses; ++i) {
    size_t count = 0;
    for (; count < idle_[i].size() && idle_[i][count].since < call; ++count) {
      Free(idle_[i][count].data, BytesOfClass(i));
      use_.held_bytes -= BytesOfClass(i);
      use_.idle_bytes -= BytesOfClass(i);
    }
    idle_[i].erase(idle_[i].begin(), idle_[i].begin() + count);
  }
}

void ScratchPool::AddUser() {
  std::lock_guard<std::mutex> lock(mutex_);
  ++users_;
}

void ScratchPool::RemoveUser() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (--users_ == 0) FreeIdleBefore(calls_ + 1);
}

ScratchPool::Use ScratchPool::use() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return use_;
}

}  // namespace graph_opt
