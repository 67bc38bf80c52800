#include "kernels/staleness/updated_rows.h"

#include <algorithm>
#include <utility>

#include "kernels/found_resource.h"

namespace graph_opt {

tensorflow::Status UpdatedRows::Find(tensorflow::OpKernelContext* ctx, const std::string& table,
                                     Pointer* found) {
  return FindOrMake(ctx, "updated_rows/" + table, found);
}

int64_t UpdatedRows::Position() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return position_;
}

void UpdatedRows::Append(Update update, int64_t kept) {
  std::vector<Update> forgotten;  // Freed once the lock is.
  std::lock_guard<std::mutex> lock(mutex_);
  ++position_;
  last_.push_back(std::move(update));
  while (static_cast<int64_t>(last_.size()) > kept) {
    forgotten.push_back(std::move(last_.front()));
    last_.pop_front();
  }
}

std::vector<UpdatedRows::Update> UpdatedRows::Since(int64_t position) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const int64_t kept = static_cast<int64_t>(last_.size());
  const int64_t count = std::min(std::max<int64_t>(position_ - position, 0), kept);
  return std::vector<Update>(last_.end() - count, last_.end());
}

}  // namespace graph_opt
