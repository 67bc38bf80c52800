#include "kernels/deferred/row_states.h"

#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::Status;
namespace errors = tensorflow::errors;

}  // namespace

Status RowStates::Read(OpKernelConstruction* ctx, int num_shards, bool may_be_empty) {
  std::vector<std::string> entries;
  TF_RETURN_IF_ERROR(ctx->GetAttr("row_states", &entries));
  if (may_be_empty && entries.empty()) return Status();
  const std::string& op = ctx->def().name();
  if (entries.size() != static_cast<size_t>(num_shards)) {
    return errors::InvalidArgument(op, ": row_states has ", entries.size(),
                                   " entries, need one for each of the ", num_shards, " shards");
  }
  for (const std::string& entry : entries) {
    const size_t colon = entry.find(':');
    const bool has_container = colon != std::string::npos;
    Place place;
    if (has_container) place.container = entry.substr(0, colon);
    place.name = has_container ? entry.substr(colon + 1) : entry;
    if (place.name.empty()) {
      return errors::InvalidArgument(op, ": row_states has the entry '", entry,
                                     "'; need the name of a variable");
    }
    places_.push_back(place);
  }
  return Status();
}

}  // namespace graph_opt
