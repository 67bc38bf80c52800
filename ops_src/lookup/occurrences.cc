#include "lookup/occurrences.h"

#include <algorithm>

#include "lookup/plain_bags.h"
#include "lookup/radix_sort.h"
#include "lookup/scales.h"

namespace graph_opt {
namespace {

// Part of a second-level cache, which gradients pass through as well.
constexpr int64_t kMostSumBytes = 256 << 10;

}  // namespace

// Reads the lookups of a table one after another.
class SortedOccurrences::Collector {
 public:
  Collector(const KeyRange& range, const GradientTable& table,
            const std::vector<PooledGradient>& lookups, SortedOccurrences* into)
      : range_(range), table_(table), into_(into) {
    for (size_t i = 0; i < lookups.size(); ++i) {
      if (lookups[i].table != range.table) continue;
      const Bags& bags = lookups[i].bags;
      ++num_lookups_;
      weighted_ |= bags.weights != nullptr;
      const bool averages = bags.layout != Bags::kDense || bags.width > 1;
      scaled_ |= (bags.combiner != Combiner::kSum && averages) || bags.filled_id >= 0;
      most_ids_ += bags.num_ids;
      if (bags.default_id >= 0 || bags.filled_id >= 0) most_ids_ += bags.num_bags;
      num_bags_ += bags.num_bags;
    }
  }

  // One more than is kept: a word is written before it is known to be in the range.
  int64_t most_words() const { return most_ids_ + 1; }

  // Makes room, before the lookups are read.
  void Prepare() {
    SortedOccurrences& into = *into_;
    const int64_t payloads = weighted_ ? most_ids_ : num_bags_;
    into.count_ = 0;
    into.payload_bits_ = BitsFor(static_cast<uint64_t>(std::max<int64_t>(payloads, 1)));
    into.type_ = table_.type;
    into.dim_ = table_.dim;
    into.has_rows_ = weighted_ || num_lookups_ > 1;
    into.has_divisors_ = weighted_;
    into.has_scales_ = weighted_ || scaled_;
    into.sorted_.Reserve(most_words());
    if (into.has_rows_) into.rows_.Reserve(payloads);
    if (into.has_divisors_) into.divisors_.Reserve(payloads);
    if (into.has_scales_) into.scales_.Reserve(payloads);
  }

  bool Add(const PooledGradient& lookup, BagFault* fault) {
    into_->gradients_ = lookup.gradients;
    into_->stride_ = lookup.stride;
    in_bag_ = 0;
    bag_total_ = 0;
    bag_payload_ = next_payload_;
    const bool in_order =
        weighted_ ? Read<true>(lookup, fault) : ReadPlain(lookup) || Read<false>(lookup, fault);
    if (!weighted_) next_payload_ += lookup.bags.num_bags;
    if (fault->kind == BagFault::kNone && !in_order) fault->kind = BagFault::kPositionsOutOfOrder;
    return fault->kind == BagFault::kNone;
  }

 private:
  // Returns false, and adds nothing, if the bags are not plain.
  bool ReadPlain(const PooledGradient& lookup) {
    const Bags& bags = lookup.bags;
    if (!MayBePlain(bags) || !table_.shards.ids_are_keys()) return false;
    if (bags.filled_id >= table_.shards.num_rows()) return false;
    const uint64_t first = static_cast<uint64_t>(range_.begin);
    const uint64_t length = static_cast<uint64_t>(range_.end - range_.begin);
    const int bits = into_->payload_bits_;
    const uint64_t first_payload = static_cast<uint64_t>(next_payload_);
    uint64_t* const words = into_->sorted_.data();
    size_t count = into_->count_;
    into_->ends_.Reserve(bags.num_bags + 1);
    const BagSpan all = {0, bags.num_bags, 0, bags.num_ids};
    const bool is_plain =
        ForEachPlainId(bags, all, table_.shards.num_rows(), into_->ends_.data(),
                       [&](int64_t, int64_t bag, uint64_t key) {
                         words[count] = key << bits | (first_payload + static_cast<uint64_t>(bag));
                         count += key - first < length;
                       });
    if (!is_plain) return false;
    into_->count_ = count;
    AddFilled(lookup);
    ReadLengths(lookup);
    return true;
  }

  // Adds an occurrence of `filled_id` for each empty bag, after those of all other bags. Their
  // gradient is zero, so it does not matter where in the sum of a row they are.
  void AddFilled(const PooledGradient& lookup) {
    if (lookup.bags.filled_id < 0) return;
    const uint64_t key = static_cast<uint64_t>(lookup.bags.filled_id);
    const uint64_t first = static_cast<uint64_t>(range_.begin);
    if (key - first >= static_cast<uint64_t>(range_.end - range_.begin)) return;
    const uint64_t word = key << into_->payload_bits_ | static_cast<uint64_t>(next_payload_);
    const int64_t* const ends = into_->ends_.data();
    uint64_t* const words = into_->sorted_.data();
    size_t count = into_->count_;
    for (int64_t bag = 0; bag < lookup.bags.num_bags; ++bag) {
      words[count] = word + static_cast<uint64_t>(bag);  // kept if the bag is empty
      count += ends[bag] == ends[bag + 1];
    }
    into_->count_ = count;
  }

  void ReadLengths(const PooledGradient& lookup) {
    const int64_t num_bags = lookup.bags.num_bags;
    if (into_->has_scales_) {
      const Scales scales(lookup.bags.combiner);
      const int64_t* const ends = into_->ends_.data();
      float* const into = into_->scales_.data() + next_payload_;
      for (int64_t bag = 0; bag < num_bags; ++bag) into[bag] = scales.Of(ends[bag + 1] - ends[bag]);
    }
    if (!into_->has_rows_) return;
    const void** const rows = into_->rows_.data() + next_payload_;
    for (int64_t bag = 0; bag < num_bags; ++bag) {
      rows[bag] = GradientRow(lookup, bag, table_.type);
    }
  }

  // What the loop changes is in local variables, which the compiler keeps in registers.
  template <bool kWeighted>
  bool Read(const PooledGradient& lookup, BagFault* fault) {
    const bool ids_are_keys = table_.shards.ids_are_keys();
    const uint64_t num_rows = static_cast<uint64_t>(table_.shards.num_rows());
    const uint64_t first = static_cast<uint64_t>(range_.begin);
    const uint64_t length = static_cast<uint64_t>(range_.end - range_.begin);
    const int bits = into_->payload_bits_;
    const uint64_t first_payload = static_cast<uint64_t>(next_payload_);
    const bool counts_bags = kWeighted || into_->has_scales_ || into_->has_rows_;
    uint64_t* const words = into_->sorted_.data();
    size_t count = into_->count_;
    int64_t in_bag = 0;
    const bool in_order = ForEachOccurrence(
        lookup.bags, 0, lookup.bags.num_bags, &fault->bag,
        [&](int64_t bag, int64_t k, int64_t id, float weight) {
          uint64_t key = static_cast<uint64_t>(id);
          if (!ids_are_keys || key >= num_rows) {
            const int64_t found = table_.shards.KeyOf(id);
            if (found < 0) {
              fault->kind = BagFault::kIdOutOfRange;
              fault->bag = bag;
              fault->id = id;
              return false;
            }
            key = static_cast<uint64_t>(found);
          }
          const uint64_t payload = kWeighted ? static_cast<uint64_t>(next_payload_)
                                             : first_payload + static_cast<uint64_t>(bag);
          if (kWeighted) AddWeighted(lookup, bag, weight);
          in_bag = k == kFilled ? kFilled : in_bag + 1;
          words[count] = key << bits | payload;  // kept if it is in the range
          count += key - first < length;
          return true;
        },
        [&](int64_t bag) {
          if (!counts_bags) return;
          in_bag_ = in_bag;
          EndBag(lookup, bag);
          in_bag = 0;
        });
    into_->count_ = count;
    return in_order;
  }

  static const void* GradientRow(const PooledGradient& lookup, int64_t bag, RowType type) {
    return static_cast<const char*>(lookup.gradients) + bag * lookup.stride * ByteSize(type);
  }

  void AddWeighted(const PooledGradient& lookup, int64_t bag, float weight) {
    into_->rows_[next_payload_] = GradientRow(lookup, bag, table_.type);
    into_->scales_[next_payload_] = weight;
    bag_total_ += PartOfTotal(lookup.bags.combiner, weight);
    ++next_payload_;
  }

  void EndBag(const PooledGradient& lookup, int64_t bag) {
    const Combiner combiner = lookup.bags.combiner;
    const int64_t count = in_bag_ == kFilled ? 0 : in_bag_;
    if (!weighted_) {
      if (into_->has_scales_) into_->scales_[next_payload_ + bag] = ScaleOf(combiner, count);
      if (into_->has_rows_) {
        into_->rows_[next_payload_ + bag] = GradientRow(lookup, bag, table_.type);
      }
    } else if (lookup.bags.weights == nullptr) {
      std::fill(into_->scales_.data() + bag_payload_, into_->scales_.data() + next_payload_,
                ScaleOf(combiner, count));
      std::fill(into_->divisors_.data() + bag_payload_, into_->divisors_.data() + next_payload_,
                1.0f);
    } else {
      std::fill(into_->divisors_.data() + bag_payload_, into_->divisors_.data() + next_payload_,
                DivisorOfTotal(combiner, bag_total_));
    }
    in_bag_ = 0;
    bag_total_ = 0;
    bag_payload_ = next_payload_;
  }

  const KeyRange& range_;
  const GradientTable& table_;
  SortedOccurrences* const into_;
  int num_lookups_ = 0;
  bool weighted_ = false;
  bool scaled_ = false;
  int64_t most_ids_ = 0;
  int64_t num_bags_ = 0;
  int64_t next_payload_ = 0;  // weighted: of the next occurrence; else of the lookup's first bag
  int64_t bag_payload_ = 0;
  int64_t in_bag_ = 0;
  float bag_total_ = 0;
};

BagFault SortedOccurrences::Collect(const KeyRange& range, const GradientTable& table,
                                    InBagOrder<PooledGradient>* lookups,
                                    const RowKernels& kernels) {
  const BagFault fault = Read(range, table, lookups);
  if (fault.kind == BagFault::kNone) Sort(range, kernels);
  return fault;
}

BagFault SortedOccurrences::ReadTable(int number, const GradientTable& table,
                                      InBagOrder<PooledGradient>* lookups) {
  return Read(KeyRange{number, 0, table.shards.num_rows()}, table, lookups);
}

void SortedOccurrences::TakeRange(const KeyRange& range, const SortedOccurrences& table,
                                  const RowKernels& kernels) {
  key_bits_ = table.key_bits_;
  payload_bits_ = table.payload_bits_;
  type_ = table.type_;
  dim_ = table.dim_;
  gradients_ = table.gradients_;
  stride_ = table.stride_;
  has_rows_ = table.has_rows_;
  has_divisors_ = table.has_divisors_;
  has_scales_ = table.has_scales_;
  payloads_ = &table;
  const uint64_t first = static_cast<uint64_t>(range.begin);
  const uint64_t length = static_cast<uint64_t>(range.end - range.begin);
  const int bits = payload_bits_;
  const uint64_t* const from = table.sorted_.data();
  sorted_.Reserve(static_cast<int64_t>(table.count_) + 1);
  uint64_t* const words = sorted_.data();
  size_t count = 0;
  for (size_t i = 0; i < table.count_; ++i) {
    words[count] = from[i];  // kept if it is in the range
    count += (from[i] >> bits) - first < length;
  }
  count_ = count;
  Sort(range, kernels);
}

BagFault SortedOccurrences::Read(const KeyRange& range, const GradientTable& table,
                                 InBagOrder<PooledGradient>* lookups) {
  const BagFault fault = ReadFrom(lookups->given(), range, table);
  if (!fault.MayBeOfOrder()) return fault;
  return ReadFrom(lookups->in_order(), range, table);
}

BagFault SortedOccurrences::ReadFrom(const std::vector<PooledGradient>& lookups,
                                     const KeyRange& range, const GradientTable& table) {
  payloads_ = this;
  Collector collector(range, table, lookups, this);
  collector.Prepare();
  BagFault fault;
  key_bits_ = BitsFor(static_cast<uint64_t>(table.shards.num_rows()));
  if (key_bits_ + payload_bits_ > 64 || collector.most_words() > UINT32_MAX) {
    fault.kind = BagFault::kTooMany;
    return fault;
  }
  for (size_t i = 0; i < lookups.size(); ++i) {
    if (lookups[i].table != range.table) continue;
    fault.lookup = static_cast<int64_t>(i);
    if (!collector.Add(lookups[i], &fault)) return fault;
  }
  return fault;
}

void SortedOccurrences::Sort(const KeyRange& range, const RowKernels& kernels) {
  if (SumByKey(range, kernels)) return;
  RadixSort(payload_bits_, payload_bits_ + key_bits_, &sorted_, &scratch_, count_);
}

// Replaces the occurrences with one for each key, which has their sum. Returns false and changes
// nothing if sorting is cheaper: if the keys are too sparse for a bit set, or the sums do not fit
// into the second-level cache.
bool SortedOccurrences::SumByKey(const KeyRange& range, const RowKernels& kernels) {
  if (type_ != RowType::kFloat || !DenseKeys::Pay(range.begin, range.end, count_)) return false;
  keys_.Begin(range.begin, range.end);
  for (size_t i = 0; i < count_; ++i) keys_.Add(sorted_[i] >> payload_bits_);
  const int64_t num_keys = keys_.Rank();
  if (num_keys * dim_ * static_cast<int64_t>(sizeof(float)) > kMostSumBytes) return false;
  sums_.Reserve(num_keys * dim_);
  std::fill_n(sums_.data(), num_keys * dim_, -0.0f);  // to which adding changes no bit
  kernels.add_to_rows(All(), keys_.set(), sums_.data());
  const int bits = BitsFor(num_keys);
  keys_.ForEach([&](uint64_t key, int64_t rank) { sorted_[rank] = key << bits | rank; });
  count_ = num_keys;
  payload_bits_ = bits;
  gradients_ = sums_.data();
  stride_ = dim_;
  has_rows_ = has_divisors_ = has_scales_ = false;
  return true;
}

Occurrences SortedOccurrences::All() const {
  Occurrences all;
  all.sorted = sorted_.data();
  all.count = static_cast<int64_t>(count_);
  all.payload_bits = payload_bits_;
  all.type = type_;
  all.dim = dim_;
  all.gradients = gradients_;
  all.stride = stride_;
  all.gradient_rows = has_rows_ ? payloads_->rows_.data() : nullptr;
  all.divisors = has_divisors_ ? payloads_->divisors_.data() : nullptr;
  all.scales = has_scales_ ? payloads_->scales_.data() : nullptr;
  return all;
}

Occurrences SortedOccurrences::Between(int64_t begin, int64_t end) const {
  const auto below = [this](uint64_t word, int64_t key) {
    return static_cast<int64_t>(word >> payload_bits_) < key;
  };
  const uint64_t* const all_end = sorted_.data() + count_;
  const uint64_t* const first = std::lower_bound(sorted_.data(), all_end, begin, below);
  const uint64_t* const last = std::lower_bound(first, all_end, end, below);
  Occurrences found = All();
  found.sorted = first;
  found.count = last - first;
  return found;
}

int64_t SortedOccurrences::CountKeys(int64_t begin, int64_t end) const {
  const Occurrences found = Between(begin, end);
  int64_t keys = 0;
  for (int64_t i = 0; i < found.count; ++i) {
    const uint64_t key = found.sorted[i] >> payload_bits_;
    keys += i == 0 || found.sorted[i - 1] >> payload_bits_ != key;
  }
  return keys;
}

}  // namespace graph_opt
