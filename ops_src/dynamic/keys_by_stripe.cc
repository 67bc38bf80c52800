#include "dynamic/keys_by_stripe.h"

#include <algorithm>

#include "keys/key_hash.h"

namespace graph_opt {

KeysByStripe::KeysByStripe(const int64_t* keys, const uint32_t* places, int64_t num_keys,
                           int num_stripes, int stripe_shift, Parallel* parallel)
    : begins_(num_stripes + 1, 0), keys_(num_keys), places_(num_keys) {
  constexpr int64_t kLeastKeys = 4096;  // for which another thread is worth its start
  const int64_t num_blocks =
      std::max<int64_t>(1, std::min<int64_t>(parallel->num_threads(), num_keys / kLeastKeys));
  const auto block_begin = [&](int64_t block) { return block * num_keys / num_blocks; };
  const auto place_of = [&](int64_t i) { return places == nullptr ? i : int64_t{places[i]}; };
  const auto stripe_of = [&](int64_t key) {
    return static_cast<int>(MixKey(static_cast<uint64_t>(key)) >> stripe_shift);
  };
  std::vector<int64_t> next(num_blocks * num_stripes, 0);
  parallel->Run(num_blocks, [&](int64_t block) {
    int64_t* const counts = &next[block * num_stripes];
    for (int64_t i = block_begin(block); i < block_begin(block + 1); ++i) {
      ++counts[stripe_of(keys[place_of(i)])];
    }
  });
  int64_t begin = 0;
  for (int stripe = 0; stripe < num_stripes; ++stripe) {
    begins_[stripe] = begin;
    for (int64_t block = 0; block < num_blocks; ++block) {
      const int64_t count = next[block * num_stripes + stripe];
      next[block * num_stripes + stripe] = begin;
      begin += count;
    }
  }
  begins_[num_stripes] = begin;
  parallel->Run(num_blocks, [&](int64_t block) {
    int64_t* const to = &next[block * num_stripes];
    for (int64_t i = block_begin(block); i < block_begin(block + 1); ++i) {
      const int64_t place = place_of(i);
      const int64_t next_of_stripe = to[stripe_of(keys[place])]++;
      keys_[next_of_stripe] = keys[place];
      places_[next_of_stripe] = static_cast<uint32_t>(place);
    }
  });
}

std::vector<int> KeysByStripe::StripesBySize() const {
  std::vector<int> stripes;
  for (int stripe = 0; stripe < num_stripes(); ++stripe) {
    if (begin(stripe) < end(stripe)) stripes.push_back(stripe);
  }
  const auto is_longer = [this](int one, int other) {
    return end(one) - begin(one) > end(other) - begin(other);
  };
  std::stable_sort(stripes.begin(), stripes.end(), is_longer);
  return stripes;
}

}  // namespace graph_opt
