#ifndef GRAPH_OPT_KERNELS_DYNAMIC_JSON_OBJECT_H_
#define GRAPH_OPT_KERNELS_DYNAMIC_JSON_OBJECT_H_

#include <cstdint>
#include <set>
#include <string>

#include "google/protobuf/struct.pb.h"
#include "tensorflow/core/lib/core/status.h"

namespace graph_opt {

// The fields of a JSON object, read one by one; those that are left out keep their defaults. The
// first thing that is wrong is kept until Finish. `what` names the object in errors.
class JsonObject {
 public:
  JsonObject(std::string what, const std::string& json);

  bool Has(const std::string& field) const;

  void Read(const std::string& field, int64_t* value);
  void Read(const std::string& field, int* value);
  void Read(const std::string& field, float* value);
  void Read(const std::string& field, double* value);
  void Read(const std::string& field, std::string* value);
  void Read(const std::string& field, bool* value);
  // Written as a string, since a JSON number does not hold every int64.
  void ReadInt64String(const std::string& field, uint64_t* value);

  // An object within this one, empty if it is left out. Its Finish is part of this one's.
  JsonObject Object(const std::string& field);

  void Fail(const std::string& field, const std::string& need);

  // Fails if anything was wrong, or a field was never asked for.
  tensorflow::Status Finish();
  // Of an object within: keeps what was wrong with it.
  void Finish(JsonObject* inner);

 private:
  JsonObject() = default;

  const google::protobuf::Value* Find(const std::string& field,
                                      google::protobuf::Value::KindCase kind, const char* need);

  std::string what_;
  google::protobuf::Struct fields_;
  std::set<std::string> asked_;
  tensorflow::Status status_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_DYNAMIC_JSON_OBJECT_H_
