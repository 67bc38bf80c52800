#include "kernels/dynamic/table_options.h"

#include "kernels/dynamic/json_object.h"
#include "kernels/kernel_names.h"
#include "tensorflow/core/lib/core/errors.h"

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

void ReadAdmission(JsonObject* all, TablePolicies* policies) {
  if (!all->Has("admission")) return;
  JsonObject admission = all->Object("admission");
  AdmissionOptions* const of = &policies->admission;
  std::string kind;
  admission.Read("kind", &kind);
  if (kind == "counter" || kind == "bloom") {
    of->kind = kind == "counter" ? Admission::kCounter : Admission::kBloom;
    admission.Read("filter_freq", &of->filter_freq);
    if (of->filter_freq < 0) admission.Fail("filter_freq", "a number of occurrences");
  } else if (kind == "probability") {
    of->kind = Admission::kProbability;
    admission.Read("probability", &of->probability);
    admission.ReadInt64String("key", &policies->admission_seed);
    if (!(of->probability >= 0 && of->probability <= 1)) admission.Fail("probability", "[0, 1]");
  } else {
    admission.Fail("kind", "counter, bloom or probability");
  }
  if (kind == "bloom") {
    admission.Read("expected_keys", &of->expected_keys);
    admission.Read("false_positive_probability", &of->false_positive_probability);
    const double p = of->false_positive_probability;
    if (of->expected_keys <= 0) admission.Fail("expected_keys", "a positive number");
    if (!(p > 0 && p < 1)) admission.Fail("false_positive_probability", "one within (0, 1)");
  }
  all->Finish(&admission);
}

void ReadEviction(JsonObject* all, EvictionOptions* of) {
  all->Read("capacity", &of->capacity);
  if (of->capacity < 0) all->Fail("capacity", "a number of rows, or 0");
  if (!all->Has("eviction")) return;
  JsonObject eviction = all->Object("eviction");
  std::string kind;
  eviction.Read("kind", &kind);
  if (kind == "steps_to_live") {
    eviction.Read("steps_to_live", &of->steps_to_live);
  } else if (kind == "l2") {
    eviction.Read("l2_threshold", &of->l2_threshold);
  } else if (kind == "lru" || kind == "epoch_lru") {  // the same order
    of->order = EvictionOrder::kLru;
  } else if (kind == "lfu") {
    of->order = EvictionOrder::kLfu;
  } else if (kind == "epoch_lfu") {
    of->order = EvictionOrder::kEpochLfu;
  } else if (kind == "custom") {
    of->order = EvictionOrder::kCustom;
  } else {
    eviction.Fail("kind", "steps_to_live, l2, lru, lfu, epoch_lru, epoch_lfu or custom");
  }
  all->Finish(&eviction);
}

void ReadLimit(JsonObject* all, TablePolicies* policies) {
  if (!all->Has("limit")) return;
  JsonObject limit = all->Object("limit");
  limit.Read("rows", &policies->limit.rows);
  limit.Read("option", &policies->limit.option);
  if (policies->limit.rows <= 0) limit.Fail("rows", "a positive number");
  all->Finish(&limit);
  if (policies->eviction.capacity > 0 || all->Has("admission")) {
    all->Fail("limit", "none where a table has a capacity, or an admission filter");
  }
}

void ReadTiers(JsonObject* all, TierOptions* of) {
  if (!all->Has("tiers")) return;
  JsonObject tiers = all->Object("tiers");
  tiers.Read("memory_bytes", &of->memory_bytes);
  tiers.Read("path", &of->folder);
  tiers.Read("file_bytes", &of->file_bytes);
  if (of->memory_bytes < 0) tiers.Fail("memory_bytes", "a number of bytes");
  if (of->file_bytes < 0) tiers.Fail("file_bytes", "a number of bytes, or 0");
  all->Finish(&tiers);
}

}  // namespace

Status ReadTableOptions(const std::string& json, const std::string& name,
                        DynamicTableOptions* options) {
  JsonObject all("options of dynamic table '" + name + "'", json);
  options->name = name;
  all.Read("dim", &options->dim);
  ReadInitial(&all, options);
  all.Read("no_permission", &options->no_permission);
  ReadAdmission(&all, &options->policies);
  ReadEviction(&all, &options->policies.eviction);
  ReadLimit(&all, &options->policies);
  ReadTiers(&all, &options->policies.tiers);
  all.Read("counts_lookups", &options->counts_lookups);
  all.Read("notes_times", &options->notes_times);
  if (options->notes_times && options->policies.eviction.steps_to_live > 0) {
    all.Fail("notes_times", "false where rows live for so many steps");
  }
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
