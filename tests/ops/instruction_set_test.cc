// Prints the instruction set for each width given on the command line: of float rows, and of half.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

extern "C" const char* graph_opt_instruction_set(int64_t width, int32_t element_bytes);

int main(int count, char** widths) {
  for (int i = 1; i < count; ++i) {
    const int64_t width = std::atoi(widths[i]);
    std::printf("%s %s\n", graph_opt_instruction_set(width, 4),
                graph_opt_instruction_set(width, 2));
  }
  return 0;
}
