#ifndef GRAPH_OPT_BUFFER_TICKET_VARIANT_H_
#define GRAPH_OPT_BUFFER_TICKET_VARIANT_H_

#include <memory>
#include <string>

#include "buffer/ticket_line.h"
#include "tensorflow/core/framework/variant_tensor_data.h"

namespace graph_opt {

// A ticket as an element of a DT_VARIANT tensor.
//
// A ticket has a meaning only in the process that issued it. Sent to another one it arrives empty,
// which is legal wherever a ticket is: the put then keeps the order of arrival, and the ticket left
// behind dies with its tensor and blocks nobody.
struct TicketVariant {
  static constexpr const char kTypeName[] = "graph_opt::Ticket";

  std::string TypeName() const { return kTypeName; }
  void Encode(tensorflow::VariantTensorData* data) const { data->set_type_name(TypeName()); }
  bool Decode(const tensorflow::VariantTensorData&) { return true; }
  std::string DebugString() const;

  std::shared_ptr<Ticket> ticket;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_BUFFER_TICKET_VARIANT_H_
