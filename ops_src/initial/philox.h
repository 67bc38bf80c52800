#ifndef GRAPH_OPT_INITIAL_PHILOX_H_
#define GRAPH_OPT_INITIAL_PHILOX_H_

#include <array>
#include <cstdint>

namespace graph_opt {

// Four random words for each counter: Philox 4x32 with ten rounds, from "Parallel random numbers:
// as easy as 1, 2, 3" (Salmon et al. 2011). There is no state, so any element of a stream can be
// made alone, by any thread.
using PhiloxCounter = std::array<uint32_t, 4>;

inline PhiloxCounter Philox(PhiloxCounter counter, uint64_t key) {
  uint32_t low_key = static_cast<uint32_t>(key);
  uint32_t high_key = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t{0xD2511F53} * counter[0];
    const uint64_t second = uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<uint32_t>(second >> 32) ^ counter[1] ^ low_key, static_cast<uint32_t>(second),
        static_cast<uint32_t>(first >> 32) ^ counter[3] ^ high_key, static_cast<uint32_t>(first)};
    low_key += 0x9E3779B9;
    high_key += 0xBB67AE85;
  }
  return counter;
}

}  // namespace graph_opt

#endif  // GRAPH_OPT_INITIAL_PHILOX_H_
