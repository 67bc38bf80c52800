#include "requests/imported_function.h"

#if defined(__linux__) && defined(__GLIBC__) && (defined(__x86_64__) || defined(__aarch64__))

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

namespace graph_opt {

namespace {

#if defined(__x86_64__)
constexpr uint32_t kCallOfImport = R_X86_64_JUMP_SLOT;
#else
constexpr uint32_t kCallOfImport = R_AARCH64_JUMP_SLOT;
#endif

using Entry = ElfW(Dyn);
using Relocation = ElfW(Rela);
using Segment = ElfW(Phdr);
using Symbol = ElfW(Sym);

struct Request {
  const char* symbol;
  void* replacement;
  int32_t replaced;
};

// What the dynamic section of a library says about the functions that it imports.
struct Imports {
  const Relocation* slots = nullptr;
  size_t bytes = 0;
  const Symbol* symbols = nullptr;
  const char* names = nullptr;

  bool complete() const { return slots != nullptr && symbols != nullptr && names != nullptr; }
};

Imports ImportsOf(const Entry* section) {
  Imports imports;
  for (; section->d_tag != DT_NULL; ++section) {
    // The loader has made these addresses absolute.
    const auto* address = reinterpret_cast<const void*>(section->d_un.d_ptr);
    if (section->d_tag == DT_JMPREL) imports.slots = static_cast<const Relocation*>(address);
    if (section->d_tag == DT_PLTRELSZ) imports.bytes = section->d_un.d_val;
    if (section->d_tag == DT_SYMTAB) imports.symbols = static_cast<const Symbol*>(address);
    if (section->d_tag == DT_STRTAB) imports.names = static_cast<const char*>(address);
  }
  return imports;
}

// Whether the loader has made an address read-only after it had filled it in.
bool IsSealed(const dl_phdr_info& library, uintptr_t address) {
  for (int i = 0; i < library.dlpi_phnum; ++i) {
    const Segment& header = library.dlpi_phdr[i];
    const uintptr_t begin = library.dlpi_addr + header.p_vaddr;
    if (header.p_type != PT_GNU_RELRO) continue;
    if (address >= begin && address < begin + header.p_memsz) return true;
  }
  return false;
}

bool Write(const dl_phdr_info& library, void** slot, void* value) {
  const auto address = reinterpret_cast<uintptr_t>(slot);
  const uintptr_t page_bytes = sysconf(_SC_PAGESIZE);
  auto* page = reinterpret_cast<void*>(address & ~(page_bytes - 1));
  const bool is_sealed = IsSealed(library, address);
  if (is_sealed && mprotect(page, page_bytes, PROT_READ | PROT_WRITE) != 0) return false;
  __atomic_store_n(slot, value, __ATOMIC_RELEASE);
  if (is_sealed) mprotect(page, page_bytes, PROT_READ);
  return true;
}

int ReplaceIn(dl_phdr_info* library, size_t, void* data) {
  auto* request = static_cast<Request*>(data);
  const Entry* section = nullptr;
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    const Segment& header = library->dlpi_phdr[i];
    if (header.p_type != PT_DYNAMIC) continue;
    section = reinterpret_cast<const Entry*>(library->dlpi_addr + header.p_vaddr);
  }
  // The kernel's own library is not relocated, and imports nothing.
  const Imports imports = section == nullptr ? Imports() : ImportsOf(section);
  if (!imports.complete()) return 0;
  for (size_t i = 0; i < imports.bytes / sizeof(Relocation); ++i) {
    const Relocation& each = imports.slots[i];
    if (ELF64_R_TYPE(each.r_info) != kCallOfImport) continue;
    const char* name = imports.names + imports.symbols[ELF64_R_SYM(each.r_info)].st_name;
    if (std::strcmp(name, request->symbol) != 0) continue;
    auto* slot = reinterpret_cast<void**>(library->dlpi_addr + each.r_offset);
    request->replaced += Write(*library, slot, request->replacement);
    break;
  }
  return 0;
}

}  // namespace

int32_t ReplaceImportedFunction(const char* symbol, void* replacement) {
  Request request{symbol, replacement, 0};
  dl_iterate_phdr(ReplaceIn, &request);
  return request.replaced;
}

}  // namespace graph_opt

#else

namespace graph_opt {

int32_t ReplaceImportedFunction(const char*, void*) { return 0; }

}  // namespace graph_opt

#endif
