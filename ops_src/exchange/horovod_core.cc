#include "exchange/horovod_core.h"

#include <dlfcn.h>

#include <atomic>
#include <mutex>

#include "absl/strings/str_cat.h"

namespace graph_opt {
namespace horovod_core {
namespace {

// As in StatusType.
enum { kOk, kUnknownError, kPreconditionError, kAborted, kInvalidArgument };

std::atomic<const Functions*> loaded{nullptr};

#if _GLIBCXX_USE_CXX11_ABI
constexpr char kString[] = "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";
constexpr char kReason[] = "_ZNK7horovod6common6Status6reasonB5cxx11Ev";
#else
constexpr char kString[] = "Ss";
constexpr char kReason[] = "_ZNK7horovod6common6Status6reasonEv";
#endif

// OpContext's function for a numbered output: releases that have it, with these arguments, have the
// virtual functions of the header.
constexpr char kNumberedOutput[] =
    "_ZN7horovod6common9OpContext14AllocateOutputEiNS0_11TensorShapeEPSt10shared_ptrINS0_6TensorEE"
    "PS3_INS0_10ReadyEventEE";

class Finder {
 public:
  explicit Finder(void* library) : library_(library) {}

  template <typename Function>
  void Find(const std::string& name, Function* function) {
    *function = reinterpret_cast<Function>(dlsym(library_, name.c_str()));
    if (*function == nullptr && missing_.empty()) missing_ = name;
  }

  const std::string& missing() const { return missing_; }

 private:
  void* const library_;
  std::string missing_;  // the first
};

}  // namespace

Status::~Status() {
  // All that it owns on a CPU.
  using std::string;
  const_cast<string&>(Loaded()->reason(this)).~string();
}

absl::Status Status::ToAbsl() const {
  const std::string& reason = Loaded()->reason(this);
  switch (Loaded()->type(this)) {
    case kOk:
      return absl::OkStatus();
    case kPreconditionError:
      return absl::FailedPreconditionError(reason);
    case kAborted:
      return absl::Status(absl::StatusCode::kAborted, reason);
    case kInvalidArgument:
      return absl::InvalidArgumentError(reason);
    default:
      return absl::UnknownError(reason);
  }
}

absl::Status Load(const std::string& path) {
  static std::mutex* const mutex = new std::mutex;
  std::lock_guard<std::mutex> lock(*mutex);
  if (Loaded() != nullptr) return absl::OkStatus();
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is not loaded"));
  }
  Functions found;
  Finder finder(library);
  const char* numbered_output = nullptr;
  finder.Find(kNumberedOutput, &numbered_output);
  finder.Find("_ZN7horovod6common16CheckInitializedEv", &found.check_initialized);
  finder.Find(absl::StrCat("_ZN7horovod6common21EnqueueTensorAlltoallESt10shared_ptrINS0_9OpContext"
                           "EES1_INS0_6TensorEES5_NS0_14ReadyEventListERK",
                           kString, "iSt8functionIFvRKNS0_6StatusEEEi"),
              &found.enqueue_all_to_all);
  finder.Find("_ZN7horovod6common6Status2OKEv", &found.ok);
  finder.Find(absl::StrCat("_ZN7horovod6common6Status12UnknownErrorERK", kString),
              &found.unknown_error);
  finder.Find("_ZNK7horovod6common6Status4typeEv", &found.type);
  finder.Find(kReason, &found.reason);
  if (!finder.missing().empty()) {
    return absl::FailedPreconditionError(absl::StrCat(path, " lacks ", finder.missing()));
  }
  loaded.store(new Functions(found), std::memory_order_release);  // as long as the process lives
  return absl::OkStatus();
}

const Functions* Loaded() { return loaded.load(std::memory_order_acquire); }

}  // namespace horovod_core
}  // namespace graph_opt

extern "C" __attribute__((visibility("default"))) const char* graph_opt_use_horovod(
    const char* path) {
  static std::string* const text = new std::string;
  *text = std::string(graph_opt::horovod_core::Load(path).message());
  return text->c_str();
}
