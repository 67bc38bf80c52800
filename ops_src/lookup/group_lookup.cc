#include "lookup/group_lookup.h"

#include <algorithm>
#include <utility>

#include "lookup/bag_order.h"
#include "lookup/plain_bags.h"
#include "scratch/scratch_array.h"

namespace graph_opt {
namespace {

// A block is worth handing to a thread from about this many bytes of rows: a few microseconds.
constexpr int64_t kLeastBlockBytes = 64 << 10;
// Blocks for each thread: with more, the load is more even; fewer cost less.
constexpr int kBlocksPerThread = 4;
// How many rows are found before they are read.
constexpr int64_t kFoundAtOnce = 1024;

// If pooled rows have more bytes than this, they are written past the caches, which would not hold
// them until they are read, and would first fetch what is overwritten.
constexpr int64_t kMostCachedBytes = 24 << 20;

// Rows that are found and not yet pooled: 32 KiB on the stack, and more for a large bag.
class FoundRows {
 public:
  const void** rows() { return rows_; }
  float* weights() { return weights_; }
  int64_t* offsets() { return offsets_; }
  int64_t capacity() const { return capacity_; }

  // Keeps what was found.
  void Double() {
    ScratchArray<const void*> rows(2 * capacity_);
    ScratchArray<float> weights(2 * capacity_);
    std::copy_n(rows_, capacity_, rows.data());
    std::copy_n(weights_, capacity_, weights.data());
    more_rows_ = std::move(rows);
    more_weights_ = std::move(weights);
    rows_ = more_rows_.data();
    weights_ = more_weights_.data();
    capacity_ *= 2;
  }

 private:
  int64_t capacity_ = 2 * kFoundAtOnce;
  const void** rows_ = first_rows_;
  float* weights_ = first_weights_;
  const void* first_rows_[2 * kFoundAtOnce];
  float first_weights_[2 * kFoundAtOnce];
  int64_t offsets_[kFoundAtOnce + 1];
  ScratchArray<const void*> more_rows_;
  ScratchArray<float> more_weights_;
};

// Finds the rows of one block of bags and pools them in batches.
class BlockPooling {
 public:
  BlockPooling(const Table& table, const Lookup& lookup, const RowKernels& kernels,
               bool past_caches)
      : table_(table), lookup_(lookup), kernels_(kernels), past_caches_(past_caches) {}

  BagFault Run(const BagBlock& block) {
    if (lookup_.bags.weights != nullptr) return RunAs<true>(block);
    BagBlock rest = block;
    rest.begin = AfterSingles(block);
    if (rest.begin == rest.end && rest.end > block.begin) return BagFault();
    rest.begin = AfterPlain(rest);
    return rest.begin == rest.end && rest.end > block.begin ? BagFault() : RunAs<false>(rest);
  }

 private:
  // Copies the rows of the bags of one id that the block begins with. Returns the bag after them.
  int64_t AfterSingles(const BagBlock& block) const {
    const Bags& bags = lookup_.bags;
    const bool is_sparse = bags.layout == Bags::kSparse;
    if (table_.data.size() != 1 || block.begin == block.end) return block.begin;
    if (bags.places != nullptr) return block.begin;
    if (!is_sparse && (bags.layout != Bags::kDense || bags.width != 1)) return block.begin;
    const int64_t k = bags.Begin(block.begin);
    const int64_t k_end = bags.End(block.end);
    const int64_t id_bytes = bags.wide_ids ? 8 : 4;
    SingleRows rows;
    rows.ids = static_cast<const char*>(bags.ids) + k * id_bytes;
    rows.wide_ids = bags.wide_ids;
    rows.positions = is_sparse ? bags.positions + k * bags.stride : nullptr;
    rows.stride = bags.stride;
    rows.first_bag = block.begin;
    rows.count = std::min(k_end - k, block.end - block.begin);
    rows.rows = table_.data[0];
    rows.num_rows = static_cast<uint64_t>(table_.shards.num_rows());
    rows.row_bytes = RowBytesOf(table_.type, table_.dim);
    rows.row_stride = table_.stride(0);
    rows.pooled_bytes = lookup_.pooled_stride * ByteSize(lookup_.pooled_type);
    rows.pooled = static_cast<char*>(lookup_.pooled) + block.begin * rows.pooled_bytes;
    rows.past_caches = past_caches_;
    rows.type = table_.type;
    rows.pooled_type = lookup_.pooled_type;
    rows.dim = table_.dim;
    const int64_t done = kernels_.copy_rows(rows);
    // All of the block's ids are read, each for a bag: no bag has a second one.
    if (done == k_end - k && done == block.end - block.begin) return block.end;
    // The id that stopped it may be the last bag's second one. Where positions are not in order,
    // the rest would not be found where the singles end.
    const int64_t singles = std::max<int64_t>(done - 1, 0);
    const int64_t rest = block.begin + singles;
    return bags.Begin(rest) == k + singles ? rest : block.begin;
  }

  // Pools the plain bags that the block begins with. Returns the bag after them.
  int64_t AfterPlain(const BagBlock& block) {
    const Bags& bags = lookup_.bags;
    if (!MayBePlain(bags) || table_.data.size() != 1) return block.begin;
    const char* const data = static_cast<const char*>(table_.data[0]);
    const uint64_t num_rows = static_cast<uint64_t>(table_.shards.num_rows());
    const int64_t stride = table_.stride(0);
    const int64_t ids_in_bag = bags.num_ids / std::max<int64_t>(bags.num_bags, 1) + 1;
    const int64_t bags_at_once = std::max<int64_t>(kFoundAtOnce / ids_in_bag, 1);
    BagSpan span = {block.begin, 0, 0, bags.Begin(block.begin)};
    for (; span.first_bag < block.end; span.first_bag += span.num_bags) {
      span.num_bags = std::min(bags_at_once, block.end - span.first_bag);
      span.begin = span.end;
      span.end = bags.End(span.first_bag + span.num_bags);
      while (memory_.capacity() < span.end - span.begin) memory_.Double();
      const void** const rows = memory_.rows();
      const bool is_plain = ForEachPlainId(bags, span, table_.shards.num_rows(), memory_.offsets(),
                                           [&](int64_t k, int64_t, uint64_t id) {
                                             rows[k] = data + (id < num_rows ? id : 0) * stride;
                                           });
      if (!is_plain) return span.first_bag;
      Pool(span.first_bag + span.num_bags, span.num_bags);
    }
    return block.end;
  }

  // What the loop changes is in local variables, which the compiler keeps in registers.
  template <bool kWeighted>
  BagFault RunAs(const BagBlock& block) {
    BagFault fault;
    fault.lookup = block.lookup;
    const bool is_whole = table_.data.size() == 1;
    const char* const data = static_cast<const char*>(table_.data[0]);
    const uint64_t num_rows = static_cast<uint64_t>(table_.shards.num_rows());
    const int64_t stride = table_.stride(0);
    const void** rows = memory_.rows();
    float* weights = memory_.weights();
    int64_t* const offsets = memory_.offsets();
    int64_t capacity = memory_.capacity();
    int64_t count = 0;
    int64_t bags = 0;
    offsets[0] = 0;
    const bool in_order = ForEachOccurrence(
        lookup_.bags, block.begin, block.end, &fault.bag,
        [&](int64_t bag, int64_t, int64_t id, float weight) {
          if (count == capacity) {
            memory_.Double();
            rows = memory_.rows();
            weights = memory_.weights();
            capacity *= 2;
          }
          if (is_whole && static_cast<uint64_t>(id) < num_rows) {
            rows[count] = data + id * stride;
          } else {
            const int64_t key = table_.shards.KeyOf(id);
            if (key < 0) {
              fault.kind = BagFault::kIdOutOfRange;
              fault.bag = bag;
              fault.id = id;
              return false;
            }
            rows[count] = table_.Row(key);
          }
          if (kWeighted) weights[count] = weight;
          ++count;
          return true;
        },
        [&](int64_t bag) {
          offsets[++bags] = count;
          if (count < kFoundAtOnce && bags < kFoundAtOnce) return;
          Pool(bag + 1, bags);
          count = 0;
          bags = 0;
        });
    if (fault.kind != BagFault::kNone) return fault;
    if (!in_order) {
      fault.kind = BagFault::kPositionsOutOfOrder;
      return fault;
    }
    if (bags > 0) Pool(block.end, bags);
    return fault;
  }

  // Pools the rows found, which are of the `bags` bags before `end_bag`.
  void Pool(int64_t end_bag, int64_t bags) {
    PoolBlock block;
    block.rows = memory_.rows();
    block.offsets = memory_.offsets();
    block.num_bags = bags;
    block.weights = lookup_.bags.weights == nullptr ? nullptr : memory_.weights();
    block.dim = table_.dim;
    block.type = table_.type;
    block.combiner = lookup_.bags.combiner;
    block.pooled = static_cast<char*>(lookup_.pooled) +
                   (end_bag - bags) * lookup_.pooled_stride * ByteSize(lookup_.pooled_type);
    block.pooled_stride = lookup_.pooled_stride;
    block.pooled_type = lookup_.pooled_type;
    kernels_.pool(block);
  }

  const Table& table_;
  const Lookup& lookup_;
  const RowKernels& kernels_;
  const bool past_caches_;
  FoundRows memory_;
};

// The amount of work in the bags before `bag`.
int64_t WorkBefore(const Bags& bags, int64_t bag) { return bag + bags.End(bag); }

// The first bag with at least `work` before it.
int64_t BagAtWork(const Bags& bags, int64_t work) {
  int64_t low = 0;
  int64_t high = bags.num_bags;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (WorkBefore(bags, middle) < work) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

BagFault PoolAll(const std::vector<Table>& tables, const std::vector<Lookup>& lookups,
                 const RowKernels& kernels, Parallel* parallel) {
  int64_t pooled_bytes = 0;
  for (const Lookup& lookup : lookups) {
    pooled_bytes += lookup.bags.num_bags * tables[lookup.table].dim * ByteSize(lookup.pooled_type);
  }
  const bool past_caches = pooled_bytes > kMostCachedBytes;
  const std::vector<BagBlock> blocks = BlocksOf(RowsOf(tables, lookups), parallel->num_threads());
  FirstFault first;
  parallel->Run(static_cast<int64_t>(blocks.size()), [&](int64_t i) {
    const Lookup& lookup = lookups[blocks[i].lookup];
    const BagFault fault =
        BlockPooling(tables[lookup.table], lookup, kernels, past_caches).Run(blocks[i]);
    if (fault.kind != BagFault::kNone) first.Tell(fault);
  });
  return first.fault();
}

}  // namespace

std::vector<RowsOfBags> RowsOf(const std::vector<Table>& tables,
                               const std::vector<Lookup>& lookups) {
  std::vector<RowsOfBags> rows;
  rows.reserve(lookups.size());
  for (const Lookup& lookup : lookups) {
    const Table& table = tables[lookup.table];
    rows.push_back(RowsOfBags{&lookup.bags, RowBytesOf(table.type, table.dim)});
  }
  return rows;
}

int64_t BytesOf(const std::vector<RowsOfBags>& lookups) {
  int64_t bytes = 0;
  for (const RowsOfBags& rows : lookups) bytes += rows.bytes();
  return bytes;
}

std::vector<BagBlock> BlocksOf(const std::vector<RowsOfBags>& lookups, int num_threads) {
  const int64_t block_bytes =
      std::max(kLeastBlockBytes, BytesOf(lookups) / (num_threads * kBlocksPerThread) + 1);
  std::vector<BagBlock> blocks;
  blocks.reserve(lookups.size());
  for (size_t i = 0; i < lookups.size(); ++i) {
    const Bags& bags = *lookups[i].bags;
    const int64_t work = bags.num_bags + bags.num_ids;
    const int64_t pieces =
        num_threads == 1 ? 1 : (lookups[i].bytes() + block_bytes - 1) / block_bytes;
    int64_t begin = 0;
    for (int64_t piece = 1; piece <= pieces; ++piece) {
      const int64_t end = piece == pieces ? bags.num_bags : BagAtWork(bags, work / pieces * piece);
      if (end > begin) blocks.push_back(BagBlock{static_cast<int64_t>(i), begin, end});
      begin = std::max(begin, end);
    }
    // Ids that no bag holds are a fault, and a block must look at them.
    if (bags.num_bags == 0 && bags.num_ids > 0) {
      blocks.push_back(BagBlock{static_cast<int64_t>(i), 0, 0});
    }
  }
  return blocks;
}

BagFault PoolBags(const Table& table, const Lookup& lookup, const BagBlock& block,
                  const RowKernels& kernels) {
  return BlockPooling(table, lookup, kernels, false).Run(block);
}

BagFault GroupLookup(const std::vector<Table>& tables, const std::vector<Lookup>& lookups,
                     const RowKernels& kernels, Parallel* parallel) {
  ScratchPool::OfProcess()->BeginCall();
  const BagFault fault = PoolAll(tables, lookups, kernels, parallel);
  if (!fault.MayBeOfOrder()) return fault;
  return PoolAll(tables, InBagOrder<Lookup>(lookups).in_order(), kernels, parallel);
}

}  // namespace graph_opt
