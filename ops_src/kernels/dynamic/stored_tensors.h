#ifndef GRAPH_OPT_KERNELS_DYNAMIC_STORED_TENSORS_H_
#define GRAPH_OPT_KERNELS_DYNAMIC_STORED_TENSORS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/dynamic/bundle_index.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/tensor_slice.pb.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/protobuf/tensor_bundle.pb.h"

namespace graph_opt {

// The tensors of a checkpoint, read by ranges of rows: TensorFlow's reader takes whole tensors into
// memory, of which a part of a table needs a few rows only.
class StoredTensors {
 public:
  // Some columns of some rows, which lie in one stretch of a file, row by row.
  struct Piece {
    std::string file;
    int64_t offset = 0;
    uint32_t crc32c = 0;
    int64_t first_row = 0;
    int64_t num_rows = 0;
    int64_t first_byte = 0;  // of each row
    int64_t row_bytes = 0;
  };
  struct Tensor {
    std::string name;
    tensorflow::DataType dtype = tensorflow::DT_INVALID;
    tensorflow::TensorShape shape;
    std::vector<Piece> pieces;  // one, or the slices of a partitioned variable

    int64_t rows() const { return shape.dims() == 0 ? 1 : shape.dim_size(0); }
    int64_t row_bytes() const;
  };

  // `prefix` is what tf.train.Saver.save returns.
  StoredTensors(tensorflow::Env* env, const std::string& prefix);

  // Whether there is such a checkpoint.
  const tensorflow::Status& status() const { return index_.status(); }
  const std::string& prefix() const { return prefix_; }

  bool Has(const std::string& name) { return index_.Has(name); }
  // Fails if there is no such tensor, or it has another dtype.
  tensorflow::Status Find(const std::string& name, tensorflow::DataType dtype, Tensor* tensor);
  // Fails if the tensor's bytes are not those that were written.
  tensorflow::Status Verify(const Tensor& tensor);
  // Rows [first, first + count), at `rows`.
  tensorflow::Status Read(const Tensor& tensor, int64_t first, int64_t count, void* rows);

 private:
  tensorflow::Status FindSlice(const tensorflow::TensorSliceProto& proto, const Tensor& tensor,
                               Piece* piece);
  tensorflow::Status FindPiece(const tensorflow::BundleEntryProto& entry, const std::string& name,
                               Piece* piece);
  tensorflow::Status DamagedEntry(const std::string& name) const;
  tensorflow::Status VerifyPiece(const std::string& name, const Piece& piece);
  tensorflow::Status ReadPiece(const Tensor& tensor, const Piece& piece, int64_t first,
                               int64_t count, char* rows);
  tensorflow::Status ReadBytes(const std::string& name, const Piece& piece, int64_t first,
                               int64_t size, char* bytes);

  tensorflow::Env* env_;
  std::string prefix_;
  BundleIndex index_;
  std::map<std::string, std::unique_ptr<tensorflow::RandomAccessFile>> files_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_DYNAMIC_STORED_TENSORS_H_
