#include "requests/imported_function.h"

#if defined(__linux__) && defined(__GLIBC__) && (defined(__x86_64__) || defined(__aarch64__))

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string>

namespace graph_opt {

namespace {

#if defined(__x86_64__)
constexpr uint32_t kCallOfImport = R_X86_64_JUMP_SLOT;
constexpr uint32_t kAddressOfImport = R_X86_64_GLOB_DAT;
#else
constexpr uint32_t kCallOfImport = R_AARCH64_JUMP_SLOT;
constexpr uint32_t kAddressOfImport = R_AARCH64_GLOB_DAT;
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

struct Search {
  const char* symbol;
  bool is_found;
  std::string library;
};

// What the dynamic section of a library says about the functions that it imports.
struct Imports {
  const Relocation* slots = nullptr;
  size_t bytes = 0;
  const Symbol* symbols = nullptr;
  const char* names = nullptr;

  bool complete() const { return slots != nullptr && symbols != nullptr && names != nullptr; }
};

bool IsSlot(const Relocation& relocation) {
  const uint32_t type = ELF64_R_TYPE(relocation.r_info);
  return type == kCallOfImport || type == kAddressOfImport;
}

Imports ImportsOf(const Entry* section) {
  Imports imports;
  const Relocation* all = nullptr;
  size_t bytes_of_all = 0;
  for (; section->d_tag != DT_NULL; ++section) {
    // The loader has made these addresses absolute.
    const auto* address = reinterpret_cast<const void*>(section->d_un.d_ptr);
    if (section->d_tag == DT_JMPREL) imports.slots = static_cast<const Relocation*>(address);
    if (section->d_tag == DT_PLTRELSZ) imports.bytes = section->d_un.d_val;
    if (section->d_tag == DT_RELA) all = static_cast<const Relocation*>(address);
    if (section->d_tag == DT_RELASZ) bytes_of_all = section->d_un.d_val;
    if (section->d_tag == DT_SYMTAB) imports.symbols = static_cast<const Symbol*>(address);
    if (section->d_tag == DT_STRTAB) imports.names = static_cast<const char*>(address);
  }
  // Some linkers give calls no table of their own if all functions are found at the start.
  if (imports.slots == nullptr) {
    imports.slots = all;
    imports.bytes = bytes_of_all;
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

// Where a library keeps the address of an imported function; null if it does not import it.
void** SlotOf(const dl_phdr_info& library, const char* symbol) {
  const Entry* section = nullptr;
  for (int i = 0; i < library.dlpi_phnum; ++i) {
    const Segment& header = library.dlpi_phdr[i];
    if (header.p_type != PT_DYNAMIC) continue;
    section = reinterpret_cast<const Entry*>(library.dlpi_addr + header.p_vaddr);
  }
  // The kernel's own library is not relocated, and imports nothing.
  const Imports imports = section == nullptr ? Imports() : ImportsOf(section);
  if (!imports.complete()) return nullptr;
  for (size_t i = 0; i < imports.bytes / sizeof(Relocation); ++i) {
    const Relocation& each = imports.slots[i];
    if (!IsSlot(each)) continue;
    const char* name = imports.names + imports.symbols[ELF64_R_SYM(each.r_info)].st_name;
    if (std::strcmp(name, symbol) == 0) {
      return reinterpret_cast<void**>(library.dlpi_addr + each.r_offset);
    }
  }
  return nullptr;
}

int ReplaceIn(dl_phdr_info* library, size_t, void* data) {
  auto* request = static_cast<Request*>(data);
  void** const slot = SlotOf(*library, request->symbol);
  if (slot != nullptr) request->replaced += Write(*library, slot, request->replacement);
  return 0;
}

int FindIn(dl_phdr_info* library, size_t, void* data) {
  auto* search = static_cast<Search*>(data);
  if (SlotOf(*library, search->symbol) == nullptr) return 0;
  search->is_found = true;
  search->library = library->dlpi_name;
  return 1;  // look no further
}

}  // namespace

int32_t ReplaceImportedFunction(const char* symbol, void* replacement) {
  Request request{symbol, replacement, 0};
  dl_iterate_phdr(ReplaceIn, &request);
  return request.replaced;
}

void* ImportedFunction(const char* symbol) {
  Search search{symbol, false, ""};
  dl_iterate_phdr(FindIn, &search);
  if (!search.is_found) return nullptr;
  // What the loader finds, as the slot may hold the address of code that fills the slot in.
  void* const library = dlopen(search.library.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  void* const function = dlsym(library, symbol);
  dlclose(library);  // It stays loaded: others hold it.
  return function;
}

}  // namespace graph_opt

#else

namespace graph_opt {

int32_t ReplaceImportedFunction(const char*, void*) { return 0; }

void* ImportedFunction(const char*) { return nullptr; }

}  // namespace graph_opt

#endif
