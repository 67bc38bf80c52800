#include "cuda/self_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apply/group_apply.h"
#include "cuda/check_groups.h"
#include "cuda/device_status.h"
#include "cuda/host_group.h"

namespace graph_opt {
namespace {

// Relative errors that are allowed, for results of order 1: roots, powers and quotients may be
// rounded differently, and 16-bit results in the other direction.
constexpr float kAllowed = 2e-5f;
constexpr float kAllowedOf[] = {kAllowed, 1.1f / 1024, 1.1f / 128};

float ElementAt(const void* values, int64_t at, int32_t type) {
  if (type == GRAPH_OPT_CUDA_FLOAT) {
    float value;
    std::memcpy(&value, static_cast<const char*>(values) + at * 4, 4);
    return value;
  }
  uint16_t narrow;
  std::memcpy(&narrow, static_cast<const char*>(values) + at * 2, 2);
  if (type == GRAPH_OPT_CUDA_HALF) return HalfToFloat(Half{narrow});
  const uint32_t bits = static_cast<uint32_t>(narrow) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Fails where two matrices differ, and says where they do first. Rows are `stride` apart.
absl::Status Compare(const void* got, const void* wanted, int64_t rows, int64_t columns,
                     int64_t stride, int32_t type) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      const float is = ElementAt(got, row * stride + column, type);
      const float need = ElementAt(wanted, row * stride + column, type);
      const bool near = std::fabs(is - need) <= kAllowedOf[type] * (1 + std::fabs(need));
      if (near || (std::isnan(is) && std::isnan(need))) continue;  // never where only one is a NaN
      return absl::InternalError(
          absl::StrCat("row ", row, ", column ", column, " is ", is, ", need ", need));
    }
  }
  return absl::OkStatus();
}

// Whether a kernel was launched, and what was wrong with it.
absl::Status Launched(const char* kernel, int32_t returned) {
  const absl::Status status = DeviceStatus(returned);
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat("the ", kernel, " kernel fails: ", status.message()));
}

absl::Status WrongKernel(const char* kernel, const std::string& of_what, absl::string_view wrong) {
  return absl::InternalError(absl::StrCat("the ", kernel, " kernel (", of_what, "): ", wrong));
}

std::vector<PooledGradient> GradientsOf(const GraphOptCudaGroup& group) {
  std::vector<PooledGradient> gradients(group.num_lookups);
  for (int32_t i = 0; i < group.num_lookups; ++i) {
    gradients[i].table = group.lookups[i].table;
    gradients[i].gradients = group.lookups[i].pooled;
    gradients[i].stride = group.lookups[i].pooled_stride;
  }
  return gradients;
}

// The groups, and what CPU and GPU compute from them.
class Check {
 public:
  Check() : optimizers_(UsualOptimizersOfGpus()), plain_({}, &cpu_), updated_(optimizers_, &cpu_) {
    fault_ = cpu_.Reserve(sizeof(uint64_t));
    images_bytes_ = cpu_.size();
    for (CheckGroup* group : {&plain_, &updated_}) {
      const GivenGroup sizes = group->At(nullptr, CheckGroup::kPooled, 0);
      const int64_t lookup = graph_opt_cuda_lookup_workspace(&sizes.group);
      const int64_t sort = graph_opt_cuda_sort_workspace(&sizes.group);
      if (status_ == 0) status_ = std::min<int64_t>({lookup, sort, 0});
      workspace_bytes_ = std::max({workspace_bytes_, lookup, sort});
    }
  }

  absl::Status Bytes(int64_t* bytes) const {
    *bytes = images_bytes_ + workspace_bytes_;
    return DeviceStatus(static_cast<int32_t>(status_));
  }

  // Checks what later steps read before they run: a wrong place could end the process.
  absl::Status Run(void* memory, void* stream) {
    if (status_ < 0) return Launched("sort", static_cast<int32_t>(status_));
    device_ = static_cast<char*>(memory);
    workspace_ = device_ + images_bytes_;
    stream_ = stream;
    GRAPH_OPT_RETURN_IF_ERROR(Upload(cpu_.data(), images_bytes_, device_));
    GRAPH_OPT_RETURN_IF_ERROR(RunLookupAndGradient());
    GRAPH_OPT_RETURN_IF_ERROR(Download());
    GRAPH_OPT_RETURN_IF_ERROR(CompareLookup());
    GRAPH_OPT_RETURN_IF_ERROR(CompareGradient());
    GRAPH_OPT_RETURN_IF_ERROR(RunUpdates());
    GRAPH_OPT_RETURN_IF_ERROR(Download());
    for (size_t i = 0; i < optimizers_.size(); ++i) GRAPH_OPT_RETURN_IF_ERROR(CompareUpdate(i));
    return CompareFault();
  }

 private:
  absl::Status Upload(const char* from, int64_t bytes, char* to) {
    return Launched("first", graph_opt_cuda_upload_rows(from, bytes, 1, to, bytes, stream_));
  }

  // All that the kernels wrote.
  absl::Status Download() {
    got_.resize(images_bytes_);
    return Launched("last", graph_opt_cuda_download(device_, images_bytes_, got_.data(), stream_));
  }

  // With zeros in the workspace, a kernel that fails to write does not lead others astray.
  absl::Status ClearWorkspace() {
    const std::vector<char> zeros(workspace_bytes_, 0);
    return Upload(zeros.data(), workspace_bytes_, workspace_);
  }

  uint64_t* FaultWord() { return reinterpret_cast<uint64_t*>(device_ + fault_); }

  absl::Status RunLookupAndGradient() {
    const GivenGroup pooled = plain_.At(device_, CheckGroup::kPooled, 0);
    const GivenGroup summed = plain_.At(device_, CheckGroup::kGradients, 0);
    GRAPH_OPT_RETURN_IF_ERROR(ClearWorkspace());
    GRAPH_OPT_RETURN_IF_ERROR(
        Launched("lookup", graph_opt_cuda_lookup(&pooled.group, workspace_, FaultWord(), stream_)));
    GRAPH_OPT_RETURN_IF_ERROR(
        Launched("sort", graph_opt_cuda_sort(&summed.group, workspace_, FaultWord(), stream_)));
    counts_.resize(summed.group.num_shards);
    GRAPH_OPT_RETURN_IF_ERROR(Launched(
        "sort", graph_opt_cuda_count_rows(&summed.group, workspace_, counts_.data(), stream_)));
    GRAPH_OPT_RETURN_IF_ERROR(CompareCounts());
    return Launched("gradient", graph_opt_cuda_sum(&summed.group, workspace_, stream_));
  }

  absl::Status RunUpdates() {
    const GivenGroup sorted = updated_.At(device_, CheckGroup::kGradients, 0);
    GRAPH_OPT_RETURN_IF_ERROR(ClearWorkspace());
    GRAPH_OPT_RETURN_IF_ERROR(
        Launched("sort", graph_opt_cuda_sort(&sorted.group, workspace_, FaultWord(), stream_)));
    for (size_t i = 0; i < optimizers_.size(); ++i) {
      const GivenGroup updated = updated_.At(device_, CheckGroup::kGradients, static_cast<int>(i));
      const Optimizer& optimizer = optimizers_[i].optimizer;
      GRAPH_OPT_RETURN_IF_ERROR(Launched(
          "update", graph_opt_cuda_apply(&updated.group, &optimizer, workspace_, stream_)));
    }
    return absl::OkStatus();
  }

  absl::Status CompareCounts() {
    const GivenGroup given = plain_.At(cpu_.data(), CheckGroup::kGradients, 0);
    const GraphOptCudaGroup& group = given.group;
    for (int32_t t = 0; t < group.num_tables; ++t) tables_.push_back(GradientTableOf(group, t));
    std::vector<PooledGradient> gradients = GradientsOf(group);
    TakeBags(group, &gradients);
    gradient_.reset(new GroupGradient(tables_, gradients, BestRowKernels(), &sequential_));
    gradient_->Sort();
    for (int32_t t = 0; t < group.num_tables; ++t) {
      for (int32_t s = 0; s < group.tables[t].num_shards; ++s) {
        const int64_t count = counts_[group.tables[t].first_shard + s];
        const int64_t wanted = gradient_->NumRows(t, s);
        if (count == wanted) continue;
        return absl::InternalError(absl::StrCat("the sort kernels find ", count, " rows in part ",
                                                s, " of a table (", plain_.TableText(t), "), need ",
                                                wanted));
      }
    }
    return absl::OkStatus();
  }

  // Bags as functors take them: positions that sizes make rows become rows.
  void TakeBags(const GraphOptCudaGroup& group, std::vector<PooledGradient>* gradients) {
    for (int32_t i = 0; i < group.num_lookups; ++i) {
      (*gradients)[i].bags = RowsOf(group.lookups[i], &positions_);
    }
  }

  static Bags RowsOf(const GraphOptCudaLookup& lookup,
                     std::vector<std::unique_ptr<std::vector<int64_t>>>* memory) {
    Bags bags = BagsOf(lookup);
    if (bags.layout != Bags::kSparse || lookup.num_sizes == 1) return bags;
    memory->emplace_back(new std::vector<int64_t>);
    memory->back()->resize(lookup.num_ids);
    FlattenPositions(lookup, lookup.positions, memory->back()->data());
    bags.positions = memory->back()->data();
    bags.stride = 1;
    return bags;
  }

  absl::Status CompareFault() {
    uint64_t fault;
    std::memcpy(&fault, got_.data() + fault_, sizeof(fault));
    if (fault == GRAPH_OPT_CUDA_NO_FAULT) return absl::OkStatus();
    return absl::InternalError("the lookup and sort kernels find bad ids where there are none");
  }

  absl::Status CompareLookup() {
    const GivenGroup given = plain_.At(cpu_.data(), CheckGroup::kPooled, 0);
    const GraphOptCudaGroup& group = given.group;
    std::vector<Table> tables(group.num_tables);
    std::vector<Lookup> lookups(group.num_lookups);
    for (int32_t t = 0; t < group.num_tables; ++t) {
      tables[t].shards = tables_[t].shards;
      tables[t].dim = tables_[t].dim;
      tables[t].type = tables_[t].type;
      for (int32_t s = 0; s < group.tables[t].num_shards; ++s) {
        tables[t].data.push_back(group.shards[group.tables[t].first_shard + s].rows);
      }
    }
    for (int32_t i = 0; i < group.num_lookups; ++i) {
      lookups[i].bags = RowsOf(group.lookups[i], &positions_);
      lookups[i].table = group.lookups[i].table;
      lookups[i].pooled = group.lookups[i].pooled;
      lookups[i].pooled_stride = group.lookups[i].pooled_stride;
      lookups[i].pooled_type = tables[lookups[i].table].type;
    }
    GroupLookup(tables, lookups, BestRowKernels(), &sequential_);
    for (int32_t i = 0; i < group.num_lookups; ++i) {
      const GraphOptCudaLookup& lookup = group.lookups[i];
      const absl::Status same =
          Compare(Got(lookup.pooled), lookup.pooled, lookup.num_bags, tables_[lookup.table].dim,
                  lookup.pooled_stride, group.tables[lookup.table].type);
      if (!same.ok()) return WrongKernel("lookup", plain_.LookupText(i), same.message());
    }
    return absl::OkStatus();
  }

  absl::Status CompareGradient() {
    const GivenGroup given = plain_.At(cpu_.data(), CheckGroup::kGradients, 0);
    const GraphOptCudaGroup& group = given.group;
    std::vector<std::vector<GroupGradient::ShardSums>> sums(group.num_tables);
    for (int32_t t = 0; t < group.num_tables; ++t) {
      for (int32_t s = 0; s < group.tables[t].num_shards; ++s) {
        const GraphOptCudaShard& shard = group.shards[group.tables[t].first_shard + s];
        sums[t].push_back({shard.indices, shard.sums});
      }
    }
    gradient_->SumRows(sums);
    for (int32_t t = 0; t < group.num_tables; ++t) {
      for (int32_t s = 0; s < group.tables[t].num_shards; ++s) {
        const GraphOptCudaShard& shard = group.shards[group.tables[t].first_shard + s];
        const int64_t count = gradient_->NumRows(t, s);
        if (std::memcmp(Got(shard.indices), shard.indices, count * sizeof(int64_t)) != 0) {
          return WrongKernel("gradient", plain_.TableText(t), "other rows of the table");
        }
        const absl::Status same = Compare(Got(shard.sums), shard.sums, count, tables_[t].dim,
                                          tables_[t].dim, group.tables[t].type);
        if (!same.ok()) return WrongKernel("gradient", plain_.TableText(t), same.message());
      }
    }
    return absl::OkStatus();
  }

  absl::Status CompareUpdate(size_t which) {
    const UsualOptimizer& one = optimizers_[which];
    const GivenGroup given =
        updated_.At(cpu_.data(), CheckGroup::kGradients, static_cast<int>(which));
    const GraphOptCudaGroup& group = given.group;
    std::vector<UpdatedTable> tables(group.num_tables);
    std::vector<PooledGradient> gradients = GradientsOf(group);
    TakeBags(group, &gradients);
    for (int32_t t = 0; t < group.num_tables; ++t) {
      tables[t].table = GradientTableOf(group, t);
      for (int32_t s = 0; s < group.tables[t].num_shards; ++s) {
        const GraphOptCudaShard& shard = group.shards[group.tables[t].first_shard + s];
        UpdatedTable::Shard place = {static_cast<float*>(shard.rows), {}};
        std::copy(shard.slots, shard.slots + kMostSlots, place.slots);
        tables[t].shards.push_back(place);
      }
    }
    GroupApply(one.optimizer, tables, gradients, BestRowKernels(), &sequential_);
    for (int32_t t = 0; t < group.num_tables; ++t) {
      for (int32_t s = 0; s < group.tables[t].num_shards; ++s) {
        const GraphOptCudaShard& shard = group.shards[group.tables[t].first_shard + s];
        const int64_t dim = group.tables[t].dim;
        std::vector<const void*> parts = {shard.rows};
        parts.insert(parts.end(), shard.slots, shard.slots + one.initial_slots.size());
        for (const void* part : parts) {
          const absl::Status same =
              Compare(Got(part), part, shard.num_rows, dim, dim, GRAPH_OPT_CUDA_FLOAT);
          if (same.ok()) continue;
          return WrongKernel("update", absl::StrCat(one.text, ", ", updated_.TableText(t)),
                             same.message());
        }
      }
    }
    return absl::OkStatus();
  }

  // The GPU's version of a part of the CPU's memory.
  const void* Got(const void* of_cpu) {
    return got_.data() + (static_cast<const char*>(of_cpu) - cpu_.data());
  }

  CheckMemory cpu_;
  const std::vector<UsualOptimizer> optimizers_;
  CheckGroup plain_;
  CheckGroup updated_;
  int64_t fault_ = 0;
  int64_t images_bytes_ = 0;
  int64_t workspace_bytes_ = 0;
  int64_t status_ = 0;
  char* device_ = nullptr;
  char* workspace_ = nullptr;
  void* stream_ = nullptr;
  Sequential sequential_;
  std::vector<int64_t> counts_;
  std::vector<GradientTable> tables_;
  std::unique_ptr<GroupGradient> gradient_;
  std::vector<std::unique_ptr<std::vector<int64_t>>> positions_;
  std::vector<char> got_;
};

}  // namespace

absl::Status SelfCheck(void* memory, void* stream) { return Check().Run(memory, stream); }

absl::Status SelfCheckBytes(int64_t* bytes) { return Check().Bytes(bytes); }

}  // namespace graph_opt
