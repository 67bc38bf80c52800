#include "network/chunk_queue.h"

#include <algorithm>

namespace graph_opt {

Pieces ChunkQueue::Room(size_t size) {
  Pieces pieces;
  const uint64_t end = end_ + size;
  while (start_ + blocks_.size() * kBlockBytes < end) blocks_.push_back(pool_->Take());
  for (uint64_t position = end_; position < end;) {
    position += AddPiece(position, end, &pieces);
  }
  return pieces;
}

void ChunkQueue::Add(size_t bytes, int64_t due) {
  end_ += bytes;
  if (!chunks_.empty() && chunks_.back().due == due) {
    chunks_.back().end = end_;
  } else {
    chunks_.push_back({due, end_});
  }
}

Pieces ChunkQueue::Due(int64_t now) const {
  uint64_t end = begin_;
  for (const Chunk& chunk : chunks_) {
    if (chunk.due > now) break;
    end = chunk.end;
  }
  Pieces pieces;
  for (uint64_t position = begin_; position < end && pieces.count < Pieces::kMost;) {
    position += AddPiece(position, end, &pieces);
  }
  return pieces;
}

size_t ChunkQueue::AddPiece(uint64_t begin, uint64_t end, Pieces* pieces) const {
  const uint64_t offset = begin - start_;
  const size_t in_block = offset % kBlockBytes;
  const size_t size = std::min<uint64_t>(end - begin, kBlockBytes - in_block);
  pieces->Add(blocks_[offset / kBlockBytes].get() + in_block, size);
  return size;
}

void ChunkQueue::Drop(size_t bytes) {
  begin_ += bytes;
  while (!chunks_.empty() && chunks_.front().end <= begin_) chunks_.pop_front();
  while (begin_ - start_ >= kBlockBytes) {
    pool_->Give(std::move(blocks_.front()));
    blocks_.pop_front();
    start_ += kBlockBytes;
  }
  // The next bytes go where these were, which the processor's cache still holds.
  if (chunks_.empty()) start_ = begin_;
}

void ChunkQueue::Clear() {
  for (Block& block : blocks_) pool_->Give(std::move(block));
  blocks_.clear();
  chunks_.clear();
  start_ = begin_ = end_;
}

}  // namespace graph_opt
