#ifndef GRAPH_OPT_SCRATCH_SCRATCH_ARRAY_H_
#define GRAPH_OPT_SCRATCH_SCRATCH_ARRAY_H_

#include <cstdint>
#include <cstdlib>
#include <new>
#include <type_traits>
#include <utility>

#include "scratch/scratch_pool.h"

namespace graph_opt {

// An array in scratch memory. Its elements are not initialized.
template <typename T>
class ScratchArray {
  static_assert(std::is_trivial<T>::value, "elements are neither constructed nor destroyed");

 public:
  ScratchArray() = default;
  explicit ScratchArray(int64_t count) { Reserve(count); }
  ~ScratchArray() { Clear(); }
  ScratchArray(ScratchArray&& other) noexcept { Swap(&other); }
  ScratchArray& operator=(ScratchArray&& other) noexcept {
    Swap(&other);
    return *this;
  }

  // Makes room for `count` elements. What was written is lost if the array has to grow.
  void Reserve(int64_t count) {
    const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
    if (bytes <= block_.bytes) return;
    Clear();
    block_ = Take(bytes);
  }

  void Swap(ScratchArray* other) { std::swap(block_, other->block_); }

  T* data() { return reinterpret_cast<T*>(block_.data); }
  const T* data() const { return reinterpret_cast<const T*>(block_.data); }
  T& operator[](int64_t i) { return data()[i]; }
  const T& operator[](int64_t i) const { return data()[i]; }

 private:
  void Clear() {
    if (block_.data != nullptr) GiveBack(block_);
    block_ = ScratchPool::Block{nullptr, 0};
  }

#ifdef __SANITIZE_ADDRESS__  // it must see where each array ends
  static ScratchPool::Block Take(int64_t bytes) {
    char* const data = static_cast<char*>(std::malloc(bytes));
    if (data == nullptr) throw std::bad_alloc();
    return ScratchPool::Block{data, bytes};
  }
  static void GiveBack(const ScratchPool::Block& block) { std::free(block.data); }
#else
  static ScratchPool::Block Take(int64_t bytes) { return ScratchPool::OfProcess()->Take(bytes); }
  static void GiveBack(const ScratchPool::Block& block) {
    ScratchPool::OfProcess()->GiveBack(block);
  }
#endif

  ScratchPool::Block block_ = {nullptr, 0};
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_SCRATCH_SCRATCH_ARRAY_H_
