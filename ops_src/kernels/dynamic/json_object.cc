#include "kernels/dynamic/json_object.h"

#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "google/protobuf/util/json_util.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {

namespace errors = tensorflow::errors;
using google::protobuf::Value;

JsonObject::JsonObject(std::string what, const std::string& json) : what_(std::move(what)) {
  const auto parsed = google::protobuf::util::JsonStringToMessage(json, &fields_);
  if (!parsed.ok()) {
    status_ = errors::InvalidArgument(what_, " are no JSON object: ", json);
  }
}

bool JsonObject::Has(const std::string& field) const { return fields_.fields().count(field) > 0; }

const Value* JsonObject::Find(const std::string& field, Value::KindCase kind, const char* need) {
  asked_.insert(field);
  const auto found = fields_.fields().find(field);
  if (found == fields_.fields().end()) return nullptr;
  if (found->second.kind_case() == kind) return &found->second;
  Fail(field, need);
  return nullptr;
}

void JsonObject::Read(const std::string& field, double* value) {
  const Value* const found = Find(field, Value::kNumberValue, "a number");
  if (found != nullptr) *value = found->number_value();
}

void JsonObject::Read(const std::string& field, float* value) {
  double number = *value;
  Read(field, &number);
  *value = static_cast<float>(number);
}

void JsonObject::Read(const std::string& field, int64_t* value) {
  double number = static_cast<double>(*value);
  Read(field, &number);
  if (number != std::floor(number) || std::abs(number) > 9e15) {
    Fail(field, "an integer");
  } else {
    *value = static_cast<int64_t>(number);
  }
}

void JsonObject::Read(const std::string& field, int* value) {
  int64_t number = *value;
  Read(field, &number);
  if (number != static_cast<int>(number)) Fail(field, "a smaller integer");
  *value = static_cast<int>(number);
}

void JsonObject::Read(const std::string& field, std::string* value) {
  const Value* const found = Find(field, Value::kStringValue, "a string");
  if (found != nullptr) *value = found->string_value();
}

void JsonObject::Read(const std::string& field, bool* value) {
  const Value* const found = Find(field, Value::kBoolValue, "true or false");
  if (found != nullptr) *value = found->bool_value();
}

void JsonObject::ReadInt64String(const std::string& field, uint64_t* value) {
  std::string digits = std::to_string(static_cast<int64_t>(*value));
  Read(field, &digits);
  int64_t number;
  if (absl::SimpleAtoi(digits, &number)) {
    *value = static_cast<uint64_t>(number);
  } else {
    Fail(field, "a string with an int64");
  }
}

JsonObject JsonObject::Object(const std::string& field) {
  JsonObject inner;
  inner.what_ = what_ + ": '" + field + "'";
  const Value* const found = Find(field, Value::kStructValue, "an object");
  if (found != nullptr) inner.fields_ = found->struct_value();
  return inner;
}

void JsonObject::Fail(const std::string& field, const std::string& need) {
  if (!status_.ok()) return;
  const auto found = fields_.fields().find(field);
  const std::string saw =
      found == fields_.fields().end() ? "left out" : found->second.ShortDebugString();
  status_ = errors::InvalidArgument(what_, ": '", field, "' is ", saw, "; need ", need);
}

tensorflow::Status JsonObject::Finish() {
  for (const auto& field : fields_.fields()) {
    if (status_.ok() && asked_.count(field.first) == 0) {
      status_ = errors::InvalidArgument(what_, ": there is no option '", field.first, "'");
    }
  }
  return status_;
}

void JsonObject::Finish(JsonObject* inner) {
  const tensorflow::Status of_inner = inner->Finish();
  if (status_.ok()) status_ = of_inner;
}

}  // namespace graph_opt
