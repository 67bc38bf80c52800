#ifndef GRAPH_OPT_REQUESTS_IMPORTED_FUNCTION_H_
#define GRAPH_OPT_REQUESTS_IMPORTED_FUNCTION_H_

#include <cstdint>

namespace graph_opt {

// Has all loaded libraries that import a function call another one instead; returns how many do.
// Calls that the compiler bound within a library are not imports, and stay. Only for ELF with
// glibc; elsewhere nothing is replaced.
int32_t ReplaceImportedFunction(const char* symbol, void* replacement);

// The function of this name that loaded libraries import, whatever replaces it; null if none does.
void* ImportedFunction(const char* symbol);

}  // namespace graph_opt

#endif  // GRAPH_OPT_REQUESTS_IMPORTED_FUNCTION_H_
