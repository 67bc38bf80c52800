// A file descriptor that is closed with its owner.
#ifndef GRAPH_OPT_NETWORK_FILE_DESCRIPTOR_H_
#define GRAPH_OPT_NETWORK_FILE_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace graph_opt {

class FileDescriptor {
 public:
  explicit FileDescriptor(int number = -1) : number_(number) {}
  FileDescriptor(FileDescriptor&& other) : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) {
    std::swap(number_, other.number_);
    return *this;
  }
  ~FileDescriptor() {
    if (is_open()) close(number_);
  }

  bool is_open() const { return number_ >= 0; }
  int number() const { return number_; }

 private:
  int number_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_NETWORK_FILE_DESCRIPTOR_H_
