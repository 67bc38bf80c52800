// Prints how many random rows of memory all threads together read in a second:
//
//   random_rows ROWS ROW_BYTES THREADS SECONDS
//
// The floor of a lookup: it reads as many rows, and this does nothing else. Rows are asked for some
// time before they are read, which is the fastest way that memory can be read at random.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace {

constexpr int64_t kIndices = 1 << 20;  // for each thread: far more than caches hold rows
constexpr int64_t kAhead = 24;
constexpr int64_t kLineBytes = 64;

using Clock = std::chrono::steady_clock;

// Sums one word of each line of each row.
uint64_t ReadRows(const char* table, int64_t row_bytes, const std::vector<int64_t>& indices) {
  uint64_t sum = 0;
  for (int64_t i = 0; i < kIndices; ++i) {
    const char* const next = table + indices[i + kAhead] * row_bytes;
    const char* const row = table + indices[i] * row_bytes;
    for (int64_t at = 0; at < row_bytes; at += kLineBytes) {
      __builtin_prefetch(next + at);
      uint64_t word;
      std::memcpy(&word, row + at, sizeof(word));
      sum += word;
    }
  }
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: random_rows ROWS ROW_BYTES THREADS SECONDS\n");
    return 2;
  }
  const int64_t rows = std::atoll(argv[1]);
  const int64_t row_bytes = std::atoll(argv[2]);
  const int num_threads = std::atoi(argv[3]);
  const double seconds = std::atof(argv[4]);
  const std::vector<char> table(rows * row_bytes, 1);
  std::atomic<int> ready(0);
  std::atomic<uint64_t> sum(0);
  std::vector<double> rates(num_threads);
  const auto work = [&](int thread) {
    std::vector<int64_t> indices(kIndices + kAhead);
    uint64_t state = 0x9e3779b97f4a7c15u * (thread + 1);
    for (int64_t& index : indices) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      index = static_cast<int64_t>((state >> 33) % rows);
    }
    ++ready;
    while (ready < num_threads) std::this_thread::yield();
    const Clock::time_point start = Clock::now();
    double elapsed = 0;
    int64_t rounds = 0;
    for (; rounds == 0 || elapsed < seconds; ++rounds) {
      sum += ReadRows(table.data(), row_bytes, indices);
      elapsed = std::chrono::duration<double>(Clock::now() - start).count();
    }
    rates[thread] = kIndices * rounds / elapsed;
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < num_threads; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  double total = 0;
  for (double rate : rates) total += rate;
  std::printf("%.0f\n", total);
  return sum == 0;
}
