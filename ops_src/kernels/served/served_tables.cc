#include "kernels/served/served_tables.h"

#include <fstream>
#include <utility>

#include "kernels/kernel_names.h"
#include "kernels/tensorflow_compat.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

// As graph_opt/serving/table_lists.py writes them.
constexpr char kListFile[] = "graph_opt_tables.txt";
constexpr char kListHead[] = "graph_opt tables 1 ";
constexpr char kAssets[] = "assets";
constexpr char kUpdates[] = "updates";
constexpr char kNewest[] = "newest";

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::string Joined(const std::string& folder, const std::string& name) {
  return !name.empty() && name[0] == '/' ? name : absl::StrCat(folder, "/", name);
}

bool Exists(const std::string& path) { return std::ifstream(path).is_open(); }

// The list of the update that servers start from; that of the export if there is none.
Status StartFrom(const std::string& list_file, std::string* found) {
  *found = list_file;
  const std::string updates = Joined(FolderOf(FolderOf(list_file)), kUpdates);
  const std::string newest = Joined(updates, kNewest);
  std::ifstream opened(newest);
  if (!opened.is_open()) return Status();
  std::string name;
  if (!std::getline(opened, name) || name.empty()) {
    return errors::DataLoss(newest, ": is empty; remove it to start from the export");
  }
  *found = Joined(Joined(updates, name), kListFile);
  if (Exists(*found)) return Status();
  return errors::NotFound(*found, ": is missing, and ", newest,
                          " says to start from it; remove the latter to start from the export");
}

}  // namespace

// The files of an export or an update.
struct ServedTables::List {
  std::string path;
  std::string export_id;
  std::vector<TableFile> files;
};

// What a table has: all rows of one file, then some of another.
struct ServedTables::Contents {
  const TableFile* all_rows;
  const TableFile* some_rows = nullptr;

  std::string name() const {
    return some_rows == nullptr ? all_rows->id : all_rows->id + some_rows->id;
  }
};

Status ServedTables::Open(const std::string& list_file, const std::vector<ServedTable>& tables) {
  const tensorflow::mutex_lock lock(updates_);
  tables_ = tables;
  exported_.assign(tables.size(), TableFile());
  List exported;
  TF_RETURN_IF_ERROR(ReadList(list_file, &exported));
  export_id_ = exported.export_id;
  for (const TableFile& file : exported.files) {
    size_t index;
    TF_RETURN_IF_ERROR(IndexOf(file, &index));
    exported_[index] = file;
  }
  for (size_t i = 0; i < tables.size(); ++i) {
    if (exported_[i].has_all_rows) continue;
    return errors::NotFound(list_file, ": lists no file of table '", tables[i].name,
                            "'; export the model anew");
  }
  std::string start;
  TF_RETURN_IF_ERROR(StartFrom(list_file, &start));
  if (start != list_file) TF_RETURN_IF_ERROR(ReadList(start, &exported));
  std::shared_ptr<TablesVersion> made;
  NewFiles new_files;
  TF_RETURN_IF_ERROR(Make(exported, &made, &new_files));
  last_number_ = 0;
  Serve(std::move(made));
  WarmAside(std::move(new_files));
  return Status();
}

Status ServedTables::Update(const std::string& folder, int64_t* number) {
  const tensorflow::mutex_lock lock(updates_);
  if (Current() == nullptr) return errors::FailedPrecondition("no tables have been opened");
  if (!folder.empty()) {
    List list;
    const std::string of_export = Joined(Joined(folder, kAssets), kListFile);
    const std::string of_update = Joined(folder, kListFile);
    TF_RETURN_IF_ERROR(ReadList(Exists(of_export) ? of_export : of_update, &list));
    std::shared_ptr<TablesVersion> made;
    NewFiles new_files;
    TF_RETURN_IF_ERROR(Make(list, &made, &new_files));
    Warm(new_files);  // Requests go on with what they have.
    Serve(std::move(made));
  }
  *number = last_number_;
  return Status();
}

std::shared_ptr<const TablesVersion> ServedTables::Current() const {
  const tensorflow::mutex_lock lock(mutex_);
  return current_;
}

void ServedTables::Serve(std::shared_ptr<TablesVersion> made) {
  made->number = ++last_number_;
  std::shared_ptr<const TablesVersion> before = std::move(made);
  const tensorflow::mutex_lock lock(mutex_);
  current_.swap(before);
}

Status ServedTables::ReadList(const std::string& path, List* list) const {
  std::ifstream opened(path);
  if (!opened.is_open()) {
    return errors::NotFound(path,
                            ": there is no such file; give the folder of an update that "
                            "graph-opt update wrote");
  }
  std::string line;
  const std::string head = kListHead;
  if (!std::getline(opened, line) || line.compare(0, head.size(), head) != 0) {
    return errors::DataLoss(path, ": is no list of table files; its first line is '", line, "'");
  }
  *list = List();
  list->path = path;
  list->export_id = line.substr(head.size());
  while (std::getline(opened, line)) {
    if (line.empty()) continue;
    TableFile file;
    std::shared_ptr<MappedFile> mapped;
    TF_RETURN_IF_ERROR(TableFile::Open(Joined(FolderOf(path), line), &file, &mapped));
    size_t index;
    TF_RETURN_IF_ERROR(IndexOf(file, &index));
    TF_RETURN_IF_ERROR(file.Check(*mapped, tables_[index]));
    list->files.push_back(std::move(file));
  }
  return Status();
}

Status ServedTables::Make(const List& list, std::shared_ptr<TablesVersion>* made,
                          NewFiles* new_files) const {
  if (list.export_id != export_id_) {
    return errors::InvalidArgument(list.path, ": is of export ", list.export_id,
                                   ", and this is export ", export_id_,
                                   ": write the update for the export that is served");
  }
  std::vector<Contents> contents(tables_.size());
  for (size_t i = 0; i < tables_.size(); ++i) contents[i].all_rows = &exported_[i];
  for (const TableFile& file : list.files) {
    size_t index;
    TF_RETURN_IF_ERROR(IndexOf(file, &index));
    (file.has_all_rows ? contents[index].all_rows : contents[index].some_rows) = &file;
  }
  const std::shared_ptr<const TablesVersion> before = Current();
  made->reset(new TablesVersion());
  for (size_t i = 0; i < tables_.size(); ++i) {
    const std::string name = contents[i].name();
    if (before != nullptr && i < before->tables.size() && before->tables[i].contents == name) {
      (*made)->tables.push_back(before->tables[i]);
      continue;
    }
    Tensor tensor;
    TF_RETURN_IF_ERROR(Map(contents[i], tables_[i], &tensor, new_files));
    (*made)->tables.push_back({name, tensor});
  }
  return Status();
}

Status ServedTables::Map(const Contents& contents, const ServedTable& table, Tensor* tensor,
                         NewFiles* new_files) const {
  const bool is_patched = contents.some_rows != nullptr;
  TableFile file;
  std::shared_ptr<MappedFile> mapped;
  TF_RETURN_IF_ERROR(TableFile::Open(contents.all_rows->path, &file, &mapped,
                                     is_patched ? MappedFile::kWritable : MappedFile::kShared));
  TF_RETURN_IF_ERROR(file.Check(*mapped, table));
  if (file.id != contents.all_rows->id) {
    return errors::FailedPrecondition(file.path, ": table '", file.name,
                                      "' has other contents than when it was exported: updates "
                                      "need the files of the export as they were");
  }
  if (is_patched) {
    TableFile rows;
    std::shared_ptr<MappedFile> mapped_rows;
    TF_RETURN_IF_ERROR(TableFile::Open(contents.some_rows->path, &rows, &mapped_rows));
    TF_RETURN_IF_ERROR(rows.Check(*mapped_rows, table));
    TF_RETURN_IF_ERROR(WriteRows(rows, *mapped_rows, table, mapped.get()));
    mapped->EndWriting();
  }
  new_files->push_back(mapped);
  *tensor = TensorOf(std::move(mapped), table);
  return Status();
}

Status ServedTables::IndexOf(const TableFile& file, size_t* index) const {
  for (*index = 0; *index < tables_.size(); ++*index) {
    if (tables_[*index].name == file.name) return Status();
  }
  return errors::InvalidArgument(file.path, ": the served graph has no table '", file.name,
                                 "': write the update for the export that is served");
}

}  // namespace graph_opt
