#include "kernels/dynamic/table_options.h"

#include "kernels/dynamic/json_object.h"
#include "kernels/kernel_names.h"

namespace graph_opt {
namespace {

void ReadInitial(JsonObject* all, DynamicTableOptions* options) {
  JsonObject initial = all->Object("initial");
  std::string kind = "constant";
  initial.Read("kind", &kind);
  InitialValues& values = options->initial_values;
  if (kind == "bank") {
    options->initial = InitialKind::kBank;
  } else if (kind == "constant") {
    options->initial = InitialKind::kConstant;
    initial.Read("value", &options->initial_constant);
  } else if (kind == "uniform" || kind == "normal" || kind == "truncated_normal") {
    options->initial = InitialKind::kKeyed;
    values.distribution = kind == "uniform"  ? Distribution::kUniform
                          : kind == "normal" ? Distribution::kNormal
                                             : Distribution::kTruncatedNormal;
    values.second = 1;
    initial.Read("first", &values.first);
    initial.Read("second", &values.second);
    initial.ReadInt64String("key", &values.key);
    values.width = options->dim;
  } else {
    initial.Fail("kind", "bank, constant, uniform, normal or truncated_normal");
  }
  all->Finish(&initial);
}

}  // namespace

Status ReadTableOptions(const std::string& json, const std::string& name,
                        DynamicTableOptions* options) {
  JsonObject all("options of dynamic table '" + name + "'", json);
  options->name = name;
  all.Read("dim", &options->dim);
  ReadInitial(&all, options);
  all.Read("no_permission", &options->no_permission);
  all.Read("stripes", &options->stripes);
  all.Read("reserved_bytes", &options->reserved_bytes);
  const int stripes = options->stripes;
  if (stripes < 1 || stripes > 4096 || (stripes & (stripes - 1)) != 0) {
    all.Fail("stripes", "a power of two, at most 4096");
  }
  if (options->reserved_bytes <= 0) all.Fail("reserved_bytes", "a positive number");
  if (options->dim <= 0 && all.Has("dim")) all.Fail("dim", "a positive number");
  TF_RETURN_IF_ERROR(all.Finish());
  if (options->dim > 0) return Status();
  return tensorflow::errors::InvalidArgument("options of dynamic table '", name,
                                             "' have no 'dim'; need the width of its rows");
}

}  // namespace graph_opt
