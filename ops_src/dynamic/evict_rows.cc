// How keys of a dynamic table lose their rows: when it is full, and at checkpoints.
#include <atomic>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "dynamic/dynamic_table.h"

namespace graph_opt {
namespace {

class RowsOfStripe : public ValuedRows {
 public:
  RowsOfStripe(const Stripe& stripe, const RowMetadata* metadata, const RowValues& values)
      : stripe_(stripe), metadata_(metadata), values_(values) {}

  void ForEach(const std::function<void(uint32_t)>& visit) const override {
    stripe_.ForEachRow(visit);
  }
  bool IsUsed(uint32_t row) const override { return !metadata_[row].is_free(); }
  RowValue Value(uint32_t row) const override {
    return values_.Of(metadata_[row].frequency(), metadata_[row].read());
  }
  uint32_t LastRead(uint32_t row) const override { return metadata_[row].read(); }

 private:
  const Stripe& stripe_;
  const RowMetadata* const metadata_;
  const RowValues& values_;
};

// A stripe and what its least valuable row is worth.
struct Offer {
  RowValue value;
  int stripe;

  bool operator<(const Offer& other) const {
    return value == other.value ? stripe < other.stripe : value < other.value;
  }
  bool operator>(const Offer& other) const { return other < *this; }
};

float HalfSquaredNorm(const float* weights, int64_t dim) {
  float sum = 0;
  for (int64_t i = 0; i < dim; ++i) sum += weights[i] * weights[i];
  return 0.5f * sum;
}

}  // namespace

void DynamicTable::EvictOverflow(EvictedRows* evicted) {
  const int64_t capacity = options_.policies.eviction.capacity;
  if (capacity == 0 || size_ <= capacity) return;
  const IndexLock::Guard changes(&index_lock_, IndexLock::kChange);
  const std::lock_guard<std::mutex> lock(eviction_mutex_);
  std::priority_queue<Offer, std::vector<Offer>, std::greater<Offer>> offers;
  // Evicts rows of a stripe that are worth less than what the others offer, then takes its offer.
  const auto visit = [&](int number, const Offer* best) {
    Stripe* const stripe = stripes_[number].get();
    const std::lock_guard<std::mutex> stripe_lock(*stripe->mutex());
    const RowsOfStripe rows(*stripe, metadata(), values_);
    ColdRows::Entry coldest;
    while (stripe->policies()->cold_rows.Coldest(rows, holds_->Oldest(), &coldest)) {
      const Offer offer = {coldest.value, number};
      if (size_ <= capacity) return;
      if (best == nullptr || *best < offer) {
        offers.push(offer);
        return;
      }
      EvictRow(stripe, coldest.row, evicted);
    }
  };
  for (int number = 0; number < options_.stripes; ++number) visit(number, nullptr);
  const Offer last = {RowValue::Highest(), options_.stripes};
  while (size_ > capacity && !offers.empty()) {
    const int number = offers.top().stripe;
    offers.pop();
    const Offer next = offers.empty() ? last : offers.top();
    visit(number, &next);
  }
}

int64_t DynamicTable::Evict(int64_t step, Parallel* parallel, EvictedRows* evicted) {
  const EvictionOptions& options = options_.policies.eviction;
  if (options.steps_to_live == 0 && options.l2_threshold <= 0) return 0;
  const ReadLock lock(this);
  std::vector<EvictedRows> parts(options_.stripes);
  std::atomic<int64_t> count{0};
  {
    const IndexLock::Guard changes(&index_lock_, IndexLock::kChange);
    parallel->Run(options_.stripes, [&](int64_t number) {
      EvictedRows* const part = evicted == nullptr ? nullptr : &parts[number];
      count += EvictFromStripe(stripes_[number].get(), step, part);
    });
  }
  if (evicted != nullptr) {
    for (const EvictedRows& part : parts) evicted->Append(part);
  }
  constexpr int64_t kManyFree = 4;  // a row in so many
  if (count > 0 && RowsInMemory() - size_ > RowsInMemory() / kManyFree) CompactRows();
  return count;
}

int64_t DynamicTable::EvictFromStripe(Stripe* stripe, int64_t step, EvictedRows* evicted) {
  const EvictionOptions& options = options_.policies.eviction;
  int64_t count = 0;
  const std::lock_guard<std::mutex> lock(*stripe->mutex());
  stripe->ForEachRow([&](uint32_t row) {
    RowMetadata* const data = &metadata()[row];
    if (options.steps_to_live > 0 && data->written() == RowMetadata::kNeverWritten) {
      data->set_written(static_cast<int32_t>(step));
    }
    if (data->read() >= holds_->Oldest()) return;
    const bool is_old = options.steps_to_live > 0 && step - data->written() > options.steps_to_live;
    const bool is_small = options.l2_threshold > 0 &&
                          HalfSquaredNorm(records_.Row(row), dim()) < options.l2_threshold;
    if (!is_old && !is_small) return;
    EvictRow(stripe, row, evicted);
    ++count;
  });
  AdmissionFilter* const filter = stripe->policies()->filter.get();
  if (options.steps_to_live > 0 && filter != nullptr) filter->Expire(step, options.steps_to_live);
  return count;
}

void DynamicTable::EvictRow(Stripe* stripe, uint32_t row, EvictedRows* evicted) {
  if (evicted != nullptr) {
    const float* const weights = records_.Row(row);
    evicted->keys.push_back(metadata()[row].key());
    evicted->weights.insert(evicted->weights.end(), weights, weights + dim());
  }
  FreeRow(stripe, row);
  ++evicted_;
}

void DynamicTable::EndEpoch() {
  const ExclusiveLock lock(this);
  values_.EndEpoch(holds_->Last());
}

}  // namespace graph_opt
