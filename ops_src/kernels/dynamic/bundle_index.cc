#include "kernels/dynamic/bundle_index.h"

#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/lib/io/table_options.h"
#include "tensorflow/core/lib/strings/stringprintf.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;
using tensorflow::Status;

constexpr int kVersion = 1;
const char kHeaderKey[] = "";

}  // namespace

std::string IndexFile(const std::string& prefix) { return prefix + ".index"; }

std::string DataFile(const std::string& prefix, int shard, int num_shards) {
  return prefix + tensorflow::strings::Printf(".data-%05d-of-%05d", shard, num_shards);
}

BundleIndex::BundleIndex(tensorflow::Env* env, const std::string& prefix)
    : status_(Open(env, prefix)) {}

Status BundleIndex::Open(tensorflow::Env* env, const std::string& prefix) {
  const std::string name = IndexFile(prefix);
  tensorflow::uint64 size = 0;
  TF_RETURN_IF_ERROR(env->GetFileSize(name, &size));
  TF_RETURN_IF_ERROR(env->NewRandomAccessFile(name, &file_));
  tensorflow::table::Table* table = nullptr;
  TF_RETURN_IF_ERROR(
      tensorflow::table::Table::Open(tensorflow::table::Options(), file_.get(), size, &table));
  table_.reset(table);
  entries_.reset(table_->NewIterator());
  return ReadHeader(prefix);
}

Status BundleIndex::ReadHeader(const std::string& prefix) {
  entries_->Seek(kHeaderKey);
  if (!entries_->Valid() || !entries_->key().empty() ||
      !header_.ParseFromArray(entries_->value().data(), entries_->value().size())) {
    return errors::DataLoss("checkpoint '", prefix, "' has no header");
  }
  if (header_.endianness() != tensorflow::BundleHeaderProto::LITTLE) {
    return errors::Unimplemented("checkpoint '", prefix, "' has numbers in big-endian order");
  }
  if (header_.version().min_consumer() > kVersion) {
    return errors::Unimplemented("checkpoint '", prefix, "' is of version ",
                                 header_.version().producer(), ", which needs a newer reader");
  }
  return Status();
}

bool BundleIndex::Has(const std::string& key) {
  entries_->Seek(key);
  return entries_->Valid() && entries_->key() == key;
}

bool BundleIndex::Read(const std::string& key, tensorflow::BundleEntryProto* entry) {
  return Has(key) && entry->ParseFromArray(entries_->value().data(), entries_->value().size());
}

}  // namespace graph_opt
