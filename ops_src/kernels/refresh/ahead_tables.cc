#include "kernels/refresh/ahead_tables.h"

#include <utility>

#include "kernels/found_resource.h"
#include "kernels/kernel_names.h"
#include "kernels/tensorflow_compat.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {

namespace errors = tensorflow::errors;

namespace {

class ChoiceResource : public tensorflow::ResourceBase {
 public:
  AheadChoice* choice() { return &choice_; }

  std::string DebugString() const override { return "tables whose bags are pooled ahead"; }

 private:
  AheadChoice choice_;
};

class ChosenTables : public tensorflow::ResourceBase {
 public:
  explicit ChosenTables(std::vector<bool> ahead) : ahead_(std::move(ahead)) {}

  const std::vector<bool>& ahead() const { return ahead_; }

  std::string DebugString() const override { return "tables pooled ahead in a step"; }

 private:
  const std::vector<bool> ahead_;
};

typedef tensorflow::core::RefCountPtr<ChoiceResource> ChoicePointer;

}  // namespace

Status AheadTables::Read(OpKernelConstruction* ctx) {
  TF_RETURN_IF_ERROR(ctx->GetAttr("ahead_choice", &name_));
  if (!name_.empty()) name_ = "graph_opt_ahead_choice/" + name_;
  return Status();
}

Status AheadTables::Choose(OpKernelContext* ctx, const std::vector<bool>& may_be_left,
                           std::vector<bool>* ahead) const {
  ChoicePointer found;
  TF_RETURN_IF_ERROR(FindOrMake(ctx, name_, &found));
  *ahead = found->choice()->Choose(static_cast<int>(may_be_left.size()));
  for (size_t t = 0; t < may_be_left.size(); ++t) {
    if (!may_be_left[t]) (*ahead)[t] = true;
  }
  return CreateInStep(ctx, name_, new ChosenTables(*ahead));
}

Status AheadTables::Chosen(OpKernelContext* ctx, std::vector<bool>* ahead) const {
  ahead->clear();
  if (name_.empty() || ctx->step_container() == nullptr) return Status();
  ChosenTables* chosen = nullptr;
  const Status found = LookupInStep(ctx, name_, &chosen);
  if (errors::IsNotFound(found)) return Status();
  TF_RETURN_IF_ERROR(found);
  *ahead = chosen->ahead();
  chosen->Unref();
  return Status();
}

Status AheadTables::Learn(OpKernelContext* ctx, const std::vector<int64_t>& ahead,
                          const std::vector<int64_t>& again) const {
  ChoicePointer found;
  TF_RETURN_IF_ERROR(FindOrMake(ctx, name_, &found));
  for (size_t t = 0; t < ahead.size(); ++t) {
    found->choice()->Learn(static_cast<int>(t), ahead[t], again[t]);
  }
  return Status();
}

}  // namespace graph_opt
