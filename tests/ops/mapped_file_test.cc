// Files in memory: shared, written by one mapping alone, read ahead, and missing.
#include "pages/mapped_file.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "functors_testing.h"

namespace graph_opt {
namespace {

constexpr int64_t kBytes = (int64_t{40} << 20) + 5;  // of more than one part that is read ahead

std::string NewFile(const std::string& text) {
  char path[] = "/tmp/mapped_file_XXXXXX";
  CHECK(close(mkstemp(path)) == 0);
  std::ofstream(path) << text;
  return path;
}

std::shared_ptr<MappedFile> Opened(const std::string& path, MappedFile::Access access) {
  std::shared_ptr<MappedFile> file;
  CHECK(MappedFile::Open(path, access, &file).ok());
  return file;
}

void TestWritesAreOfOneMapping() {
  const std::string path = NewFile("abcdef");
  const auto shared = Opened(path, MappedFile::kShared);
  const auto own = Opened(path, MappedFile::kWritable);
  own->writable_data()[2] = 'X';
  own->EndWriting();
  CHECK(own->bytes() == 6 && std::memcmp(own->data(), "abXdef", 6) == 0);
  CHECK(std::memcmp(shared->data(), "abcdef", 6) == 0);
  // The file may go: what is mapped stays.
  CHECK(std::remove(path.c_str()) == 0);
  CHECK(std::memcmp(shared->data(), "abcdef", 6) == 0);
}

void TestErrorsNameTheFile() {
  std::shared_ptr<MappedFile> file;
  const absl::Status missing = MappedFile::Open("/tmp/none/of/it", MappedFile::kShared, &file);
  CHECK(missing.code() == absl::StatusCode::kNotFound && file == nullptr);
  CHECK(missing.message().find("/tmp/none/of/it: cannot be opened") == 0);
  CHECK(!MappedFile::Open("/tmp", MappedFile::kShared, &file).ok());
}

void TestEmptyFilesHaveNoMemory() {
  const std::string path = NewFile("");
  const auto file = Opened(path, MappedFile::kWritable);
  CHECK(file->bytes() == 0);
  file->EndWriting();
  Warm({file});
  CHECK(std::remove(path.c_str()) == 0);
}

void TestReadingAheadKeepsNothing() {
  const std::string path = NewFile(std::string(kBytes, 'a'));
  auto file = Opened(path, MappedFile::kShared);
  Warm({file});
  const std::weak_ptr<const MappedFile> known = file;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    WarmAside({file, std::weak_ptr<const MappedFile>(), file});
    threads.emplace_back([file] { CHECK(file->data()[kBytes - 1] == 'a'); });
  }
  for (std::thread& thread : threads) thread.join();
  file.reset();
  while (!known.expired()) std::this_thread::yield();  // At most one part is being read.
  CHECK(std::remove(path.c_str()) == 0);
}

}  // namespace
}  // namespace graph_opt

int main() {
  graph_opt::TestWritesAreOfOneMapping();
  graph_opt::TestErrorsNameTheFile();
  graph_opt::TestEmptyFilesHaveNoMemory();
  graph_opt::TestReadingAheadKeepsNothing();
  return 0;
}
