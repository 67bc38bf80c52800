// Bytes that wait until they may be written.
#ifndef GRAPH_OPT_NETWORK_CHUNK_QUEUE_H_
#define GRAPH_OPT_NETWORK_CHUNK_QUEUE_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

namespace graph_opt {

constexpr size_t kBlockBytes = 1 << 18;

typedef std::unique_ptr<char[]> Block;

// Memory that one queue has done with and the next one can use.
class BlockPool {
 public:
  Block Take() {
    if (blocks_.empty()) return Block(new char[kBlockBytes]);
    Block block = std::move(blocks_.back());
    blocks_.pop_back();
    return block;
  }

  void Give(Block block) {
    if (blocks_.size() < kMostBlocks) blocks_.push_back(std::move(block));
  }

 private:
  static constexpr size_t kMostBlocks = 64;

  std::vector<Block> blocks_;
};

// Where bytes lie, for readv and sendmsg.
struct Pieces {
  static constexpr int kMost = 16;

  void Add(char* data, size_t size) { at[count++] = {data, size}; }

  size_t size() const {
    size_t sum = 0;
    for (int i = 0; i < count; ++i) sum += at[i].iov_len;
    return sum;
  }

  iovec at[kMost];
  int count = 0;
};

// A queue of bytes in blocks, of which every one may be written from some time on. Bytes are read
// into the blocks and written from them: none is copied.
class ChunkQueue {
 public:
  // The pool must outlive the queue.
  explicit ChunkQueue(BlockPool* pool) : pool_(pool) {}
  ~ChunkQueue() { Clear(); }
  ChunkQueue(const ChunkQueue&) = delete;
  ChunkQueue& operator=(const ChunkQueue&) = delete;

  bool empty() const { return chunks_.empty(); }
  // When the oldest bytes may be written; the queue must not be empty.
  int64_t next_due() const { return chunks_.front().due; }

  // Room for so many more bytes.
  Pieces Room(size_t size);
  // Keeps the bytes at the start of that room; times must not fall.
  void Add(size_t bytes, int64_t due);
  // What may be written by now, from the oldest on, as far as it fits into pieces.
  Pieces Due(int64_t now) const;
  // Forgets so many of the oldest bytes.
  void Drop(size_t bytes);
  void Clear();

 private:
  struct Chunk {
    int64_t due;
    uint64_t end;
  };

  // Adds what lies together from `begin` on, but not beyond `end`; returns how many bytes.
  size_t AddPiece(uint64_t begin, uint64_t end, Pieces* pieces) const;

  BlockPool* const pool_;
  std::deque<Block> blocks_;
  std::deque<Chunk> chunks_;
  // Positions in the stream: of the first block, of what waits, and of its end.
  uint64_t start_ = 0;
  uint64_t begin_ = 0;
  uint64_t end_ = 0;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_NETWORK_CHUNK_QUEUE_H_
