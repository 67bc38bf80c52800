#ifndef GRAPH_OPT_KERNELS_SERVED_SERVED_TABLES_H_
#define GRAPH_OPT_KERNELS_SERVED_SERVED_TABLES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/served/table_file.h"
#include "pages/mapped_file.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/mutex.h"

namespace graph_opt {

// The tables of a served graph as they are at one moment. Never changes: an update makes another
// one. A tensor keeps the mapping that it is in, so the memory of a version is given back when the
// last request that reads it has ended.
struct TablesVersion {
  struct Mapped {
    std::string contents;  // the same for the same rows
    tensorflow::Tensor tensor;
  };

  int64_t number;
  std::vector<Mapped> tables;
};

// The versions of a graph's tables, mapped from files. Any thread may call.
class ServedTables : public tensorflow::ResourceBase {
 public:
  // Opens the files of an export, or of the update that servers start from, and numbers the version
  // 1. `list_file` lists those of the export.
  tensorflow::Status Open(const std::string& list_file, const std::vector<ServedTable>& tables);

  // From now on, requests get the tables of an update; those that it lacks are as exported. A
  // folder of the export itself takes updates back; an empty name changes nothing. Gives the number
  // of the version.
  tensorflow::Status Update(const std::string& folder, int64_t* number);

  // Null before Open.
  std::shared_ptr<const TablesVersion> Current() const;

  std::string DebugString() const override { return "tables that are mapped from files"; }

 private:
  struct List;
  struct Contents;
  typedef std::vector<std::weak_ptr<const MappedFile>> NewFiles;

  tensorflow::Status ReadList(const std::string& path, List* list) const;
  tensorflow::Status Make(const List& list, std::shared_ptr<TablesVersion>* made,
                          NewFiles* new_files) const;
  tensorflow::Status Map(const Contents& contents, const ServedTable& table,
                         tensorflow::Tensor* tensor, NewFiles* new_files) const;
  tensorflow::Status IndexOf(const TableFile& file, size_t* index) const;
  void Serve(std::shared_ptr<TablesVersion> made);

  tensorflow::mutex updates_;  // held by Open and Update
  std::string export_id_;
  std::vector<ServedTable> tables_;
  std::vector<TableFile> exported_;  // of each table
  int64_t last_number_ = 0;

  mutable tensorflow::mutex mutex_;
  std::shared_ptr<const TablesVersion> current_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_SERVED_SERVED_TABLES_H_
