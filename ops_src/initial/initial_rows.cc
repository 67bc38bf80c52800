#include "initial/initial_rows.h"

#include <algorithm>
#include <cmath>

#include "initial/philox.h"

namespace graph_opt {
namespace {

constexpr int64_t kLanes = 4;                // values made from one counter
constexpr int64_t kValuesPerTask = 1 << 14;  // about a tenth of a millisecond
constexpr double kTwoPi = 6.283185307179586476925;
constexpr double kUnit = 2.3283064365386962890625e-10;  // 2^-32

PhiloxCounter Words(const InitialValues& values, int64_t row, int64_t block, uint32_t attempt) {
  const uint64_t bits = static_cast<uint64_t>(row);
  return Philox({static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32),
                 static_cast<uint32_t>(block), attempt},
                values.key);
}

// In [0, 1), with the 24 bits that a float has.
float Uniform(uint32_t word) { return static_cast<float>(word >> 8) * 5.9604644775390625e-8f; }

// Two independent values of the standard normal distribution, by Box and Muller.
void Normal(uint32_t radius_word, uint32_t angle_word, float* output) {
  const double radius = std::sqrt(-2.0 * std::log((radius_word + 1.0) * kUnit));
  const double angle = kTwoPi * kUnit * angle_word;
  output[0] = static_cast<float>(radius * std::cos(angle));
  output[1] = static_cast<float>(radius * std::sin(angle));
}

void NormalLanes(const PhiloxCounter& words, float* lanes) {
  Normal(words[0], words[1], lanes);
  Normal(words[2], words[3], lanes + 2);
}

// The lanes beyond two deviations are drawn again, each from the same lane of the next attempt.
void TruncatedLanes(const InitialValues& values, int64_t row, int64_t block, float* lanes) {
  NormalLanes(Words(values, row, block, 0), lanes);
  const auto is_outside = [](float value) { return std::abs(value) > 2.0f; };
  for (uint32_t attempt = 1; std::any_of(lanes, lanes + kLanes, is_outside); ++attempt) {
    float others[kLanes];
    NormalLanes(Words(values, row, block, attempt), others);
    for (int64_t i = 0; i < kLanes; ++i) {
      if (is_outside(lanes[i])) lanes[i] = others[i];
    }
  }
}

void Lanes(const InitialValues& values, int64_t row, int64_t block, float* lanes) {
  switch (values.distribution) {
    case Distribution::kUniform: {
      const PhiloxCounter words = Words(values, row, block, 0);
      for (int64_t i = 0; i < kLanes; ++i) {
        lanes[i] = values.first + (values.second - values.first) * Uniform(words[i]);
      }
      return;
    }
    case Distribution::kNormal:
      NormalLanes(Words(values, row, block, 0), lanes);
      break;
    case Distribution::kTruncatedNormal:
      TruncatedLanes(values, row, block, lanes);
      break;
  }
  for (int64_t i = 0; i < kLanes; ++i) lanes[i] = values.first + values.second * lanes[i];
}

}  // namespace

void WriteInitialRow(const InitialValues& values, int64_t row, float* output) {
  const int64_t end = values.column + values.width;
  for (int64_t column = values.column; column < end;) {
    const int64_t block = column / kLanes;
    float lanes[kLanes] = {};  // A compiler cannot know that there is no other distribution.
    Lanes(values, row, block, lanes);
    const int64_t block_end = std::min(end, (block + 1) * kLanes);
    for (; column < block_end; ++column) *output++ = lanes[column - block * kLanes];
  }
}

void WriteInitialRows(const InitialValues& values, const int64_t* rows, int64_t count,
                      Parallel* parallel, float* output) {
  const int64_t per_task =
      std::max<int64_t>(1, kValuesPerTask / std::max<int64_t>(1, values.width));
  parallel->Run((count + per_task - 1) / per_task, [&](int64_t task) {
    const int64_t end = std::min(count, (task + 1) * per_task);
    for (int64_t i = task * per_task; i < end; ++i) {
      WriteInitialRow(values, rows[i], output + i * values.width);
    }
  });
}

}  // namespace graph_opt
