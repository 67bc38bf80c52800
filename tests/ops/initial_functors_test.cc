// Initial rows without TensorFlow: Philox gives its published words, and threads change nothing.
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "functors_testing.h"
#include "initial/initial_rows.h"
#include "initial/philox.h"

namespace graph_opt {
namespace {

// The known answers that come with Random123, the authors' library.
void TestPublishedWords() {
  Check(Philox({0, 0, 0, 0}, 0) == PhiloxCounter({0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}),
        "zeros");
  const uint32_t ones = 0xffffffff;
  Check(Philox({ones, ones, ones, ones}, ~uint64_t{0}) ==
            PhiloxCounter({0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}),
        "ones");
  Check(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822) ==
            PhiloxCounter({0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}),
        "digits of pi");
}

void TestThreads() {
  const int64_t count = 5000;
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < count; ++i) rows.push_back(i * 7919 - 1000000);
  for (Distribution distribution :
       {Distribution::kUniform, Distribution::kNormal, Distribution::kTruncatedNormal}) {
    const InitialValues values = {distribution, 42, 3, 13, -1.0f, 2.0f};
    std::vector<float> alone(count * values.width), together(count * values.width);
    Sequential sequential;
    Threads threads(4);
    WriteInitialRows(values, rows.data(), count, &sequential, alone.data());
    WriteInitialRows(values, rows.data(), count, &threads, together.data());
    Check(alone == together, "threads");
    for (float value : alone) {
      if (distribution == Distribution::kUniform) Check(value >= -1 && value <= 2, "bounds");
      if (distribution == Distribution::kTruncatedNormal) Check(value >= -5 && value <= 3, "cut");
    }
  }
  Sequential sequential;
  WriteInitialRows({Distribution::kNormal, 1, 0, 0, 0, 1}, rows.data(), count, &sequential,
                   nullptr);  // no columns
  WriteInitialRows({Distribution::kNormal, 1, 0, 4, 0, 1}, nullptr, 0, &sequential, nullptr);
}

}  // namespace
}  // namespace graph_opt

int main() {
  graph_opt::TestPublishedWords();
  graph_opt::TestThreads();
}
