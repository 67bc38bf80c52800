#ifndef GRAPH_OPT_KERNELS_LOOKUP_VARIABLE_TABLES_H_
#define GRAPH_OPT_KERNELS_LOOKUP_VARIABLE_TABLES_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_var.h"

namespace graph_opt {

class DynamicTable;
class MovingTables;

// Where the rows of a variable are.
struct TableMemory {
  char* data;
  int64_t num_rows;
  int64_t dim;
  int64_t stride;     // bytes from row to row
  int64_t first_row;  // that updates may change
};

// The values of a list of variables, for the duration of a kernel call: not copied, and locked as
// TensorFlow's own sparse ops lock them (shared; exclusive for updates with use_locking), in
// the order of the locks' addresses, so that no two calls wait for each other. Each is a matrix
// with its rows, whatever the rank of the variable. Handles may be those of dynamic tables, and of
// their slots, which have no tensor: `memory` says where their rows are.
class VariableTables {
 public:
  enum Purpose { kRead, kUpdate, kUpdateExclusively };
  typedef std::pair<std::string, std::string> Name;  // container and name of a resource

  VariableTables();
  ~VariableTables();

  // Inputs [first, first + count): resource handles, references or plain tensors. Fails if one is
  // not initialized. Called once.
  tensorflow::Status Open(tensorflow::OpKernelContext* ctx, int first, int count, Purpose purpose);

  // The same for the first inputs, one for each of `is_updated`, but takes those that are
  // initialized. Those that are not updated are only read.
  tensorflow::Status OpenThoseInitialized(tensorflow::OpKernelContext* ctx,
                                          const std::vector<bool>& is_updated, Purpose purpose);

  // The same for variables that are no inputs, to be updated: those with these names in the
  // device's resource manager, or references with these values.
  tensorflow::Status OpenNamed(tensorflow::OpKernelContext* ctx, const std::vector<Name>& names);
  tensorflow::Status OpenTensors(const std::vector<tensorflow::Tensor>& values);

  bool is_initialized(int i) const;
  // Fails if one of the first so many is not; they are the inputs from `first` on.
  tensorflow::Status RequireInitialized(tensorflow::OpKernelContext* ctx, int first,
                                        int count) const;

  const tensorflow::Tensor& operator[](int i) const { return tensors_[i]; }
  // For kUpdate: the memory of a variable of floats.
  float* floats(int i);

  // The dynamic table of a handle, also if it is that of a slot; null for variables with a tensor.
  DynamicTable* dynamic_table(int i) const;
  int dynamic_slot(int i) const;  // -1: the table itself

  // Of floats if the table is dynamic; else the tensor must be a matrix.
  TableMemory memory(int i) const;

  // Goes on to move the memory of all that have a tensor to large pages.
  void MoveToLargePages(MovingTables* moving) const;

 private:
  tensorflow::Status OpenAll(tensorflow::OpKernelContext* ctx, int first,
                             const std::vector<bool>& is_updated, Purpose purpose);
  tensorflow::Status OpenResources(tensorflow::OpKernelContext* ctx, int first,
                                   const std::vector<bool>& is_updated, Purpose purpose);
  tensorflow::Status OpenFound(tensorflow::OpKernelContext* ctx,
                               const std::vector<bool>& is_updated, Purpose purpose);
  tensorflow::Status OpenReferences(tensorflow::OpKernelContext* ctx, int first, int count,
                                    Purpose purpose);
  tensorflow::Status FindDynamic(tensorflow::OpKernelContext* ctx, int first);
  void AddUpdateMutexes(std::vector<tensorflow::mutex*>* mutexes) const;
  void LockDynamic();
  void Lock(std::vector<tensorflow::mutex*> mutexes, bool exclusively);
  void Unlock();

  std::vector<tensorflow::core::RefCountPtr<tensorflow::Var>> variables_;
  std::vector<tensorflow::Tensor> tensors_;
  struct Dynamic;
  std::unique_ptr<Dynamic> dynamic_;  // null if no variable is dynamic
  std::vector<tensorflow::mutex*> locked_;
  bool exclusively_ = false;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_LOOKUP_VARIABLE_TABLES_H_
