"""Collections whose members are Python objects, in graphs that are exported."""

from __future__ import annotations

from typing import Any

from google.protobuf.wrappers_pb2 import StringValue
from tensorflow.python.framework import ops


def export_as_names(collection: str) -> None:
    """Lets exported graphs have the names of a collection's members, not the members.

    Args:
      collection: Its name, which no other code registers.
    """
    ops.register_proto_function(
        collection, proto_type=StringValue, to_proto=_to_proto, from_proto=_from_proto
    )


def leave_out_of_exports(collection: str) -> None:
    """Lets exported graphs have nothing of a collection, and keeps TensorFlow from warning of it.

    Args:
      collection: Its name, which no other code registers.
    """
    ops.register_proto_function(
        collection, proto_type=StringValue, to_proto=_to_nothing, from_proto=_from_proto
    )


def _to_nothing(member: Any, export_scope: Any = None) -> None:
    return None


def _to_proto(member: Any, export_scope: Any = None) -> StringValue:
    return StringValue(value=getattr(member, "name", type(member).__name__))


def _from_proto(proto: StringValue, import_scope: Any = None) -> str:
    name: str = proto.value
    return name
