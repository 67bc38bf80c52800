#include "kernels/buffer/session_resources.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/protobuf/config.pb.h"

namespace graph_opt {
std::string NameInSession(tensorflow::OpKernelContext* ctx, const std::string& name) {
#if GRAPH_OPT_TENSORFLOW < 2000
  const auto& attributes = ctx->op_kernel().def().attr();
  const auto owner = attributes.find("_buffer_owner");
  return owner == attributes.end() ? name : absl::StrCat(owner->second.s(), "/", name);
#else
  tensorflow::FunctionLibraryRuntime* const functions = ctx->function_library();
  if (functions == nullptr) return name;
  const tensorflow::ConfigProto* const config = functions->config_proto();
  if (config == nullptr) return name;
  const std::string& session = config->experimental().session_metadata().name();
  return absl::StartsWith(session, "graph_opt/") ? absl::StrCat(session, "/", name) : name;
#endif
}

}  // namespace graph_opt
