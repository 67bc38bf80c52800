#ifndef GRAPH_OPT_KERNELS_FOUND_RESOURCE_H_
#define GRAPH_OPT_KERNELS_FOUND_RESOURCE_H_

#include <string>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/lib/core/refcount.h"

namespace graph_opt {

// The resource of a name on an op's device, which is made if there is none.
template <typename Resource>
tensorflow::Status FindOrMake(tensorflow::OpKernelContext* ctx, const std::string& container,
                              const std::string& name,
                              tensorflow::core::RefCountPtr<Resource>* found) {
  Resource* resource = nullptr;
  TF_RETURN_IF_ERROR(ctx->resource_manager()->LookupOrCreate<Resource>(
      container, name, &resource, [](Resource** made) {
        *made = new Resource;
        return tensorflow::Status();
      }));
  found->reset(resource);
  return tensorflow::Status();
}

// The same in the container of what has none of its own.
template <typename Resource>
tensorflow::Status FindOrMake(tensorflow::OpKernelContext* ctx, const std::string& name,
                              tensorflow::core::RefCountPtr<Resource>* found) {
  return FindOrMake(ctx, ctx->resource_manager()->default_container(), name, found);
}

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_FOUND_RESOURCE_H_
