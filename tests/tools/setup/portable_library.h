// What a portable library and a program that is linked as usual hand to each other.
#ifndef GRAPH_OPT_TESTS_PORTABLE_LIBRARY_H_
#define GRAPH_OPT_TESTS_PORTABLE_LIBRARY_H_

#include <functional>
#include <memory>
#include <ostream>
#include <stdexcept>
#include <string>

struct Shape {
  virtual ~Shape() = default;
  virtual std::string Name() const = 0;
};

struct Circle : Shape {
  std::string Name() const override { return "circle"; }
};

struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED void graph_opt_append(std::string* text, const std::string& more);
EXPORTED std::string* graph_opt_new_text(size_t length);
EXPORTED void graph_opt_throw(int which);
EXPORTED void graph_opt_call(const std::function<void()>& call, std::string* caught);
EXPORTED void graph_opt_write(std::ostream* stream);
EXPORTED void graph_opt_new_writer(std::unique_ptr<std::ostream>* stream);
EXPORTED void graph_opt_new_shape(std::shared_ptr<Shape>* shape);
EXPORTED bool graph_opt_is_circle(const Shape& shape);
EXPORTED int graph_opt_sum_of_threads(int count);

#endif  // GRAPH_OPT_TESTS_PORTABLE_LIBRARY_H_
