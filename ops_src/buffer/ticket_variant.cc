#include "buffer/ticket_variant.h"

#include "tensorflow/core/framework/variant.h"
#include "tensorflow/core/framework/variant_encode_decode.h"
#include "tensorflow/core/framework/variant_op_registry.h"

namespace graph_opt {

constexpr const char TicketVariant::kTypeName[];

std::string TicketVariant::DebugString() const {
  if (ticket == nullptr) return "Ticket(none)";
  return "Ticket(" + std::to_string(ticket->sequence()) + ")";
}

REGISTER_UNARY_VARIANT_DECODE_FUNCTION(TicketVariant, TicketVariant::kTypeName);

}  // namespace graph_opt
