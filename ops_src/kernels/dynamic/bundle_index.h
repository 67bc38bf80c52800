#ifndef GRAPH_OPT_KERNELS_DYNAMIC_BUNDLE_INDEX_H_
#define GRAPH_OPT_KERNELS_DYNAMIC_BUNDLE_INDEX_H_

#include <memory>
#include <string>

#include "tensorflow/core/lib/core/status.h"
#include "tensorflow/core/lib/io/iterator.h"
#include "tensorflow/core/lib/io/table.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/protobuf/tensor_bundle.pb.h"

namespace graph_opt {

// The file with a checkpoint's index: PREFIX.index.
std::string IndexFile(const std::string& prefix);
// File `shard` of the `num_shards` files with a checkpoint's tensors: PREFIX.data-00000-of-00001.
std::string DataFile(const std::string& prefix, int shard, int num_shards);

// The index of a checkpoint: what lies where. TensorFlow 1.15 does not ship its own reader's
// header.
class BundleIndex {
 public:
  // `prefix` is what tf.train.Saver.save returns.
  BundleIndex(tensorflow::Env* env, const std::string& prefix);

  // Whether there is such a checkpoint, of which the rest must not be asked otherwise.
  const tensorflow::Status& status() const { return status_; }
  int num_files() const { return header_.num_shards(); }

  bool Has(const std::string& key);
  // Whether there is such an entry, and it can be read.
  bool Read(const std::string& key, tensorflow::BundleEntryProto* entry);

 private:
  tensorflow::Status Open(tensorflow::Env* env, const std::string& prefix);
  tensorflow::Status ReadHeader(const std::string& prefix);

  std::unique_ptr<tensorflow::RandomAccessFile> file_;
  std::unique_ptr<tensorflow::table::Table> table_;  // reads file_
  std::unique_ptr<tensorflow::table::Iterator> entries_;
  tensorflow::BundleHeaderProto header_;
  tensorflow::Status status_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_DYNAMIC_BUNDLE_INDEX_H_
