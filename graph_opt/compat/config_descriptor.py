"""Message classes that extend TensorFlow's own, made at run time from its descriptors.

The classes are in a file and package of their own (`graph_opt.ConfigProto`), registered the
way generated `_pb2` modules register theirs. Only the messages that lead to a new field are
copied; every other one (`GPUOptions`, `ClusterDef`, `RewriterConfig`, ...) remains TensorFlow's
own class, so that `ConfigProto(gpu_options=tf.GPUOptions(...))` keeps working.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, symbol_database

from graph_opt.compat import tf

_FILE = "graph_opt/config.proto"
_PACKAGE = "graph_opt"
_COPIED = ("OptimizerOptions", "GraphOptions", "ConfigProto", "RunOptions")
_SCALARS = {
    "bool": descriptor_pb2.FieldDescriptorProto.TYPE_BOOL,
    "int32": descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
    "int64": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
}


def extended_messages(fields: Sequence[Any], module: str) -> Dict[str, Any]:
    """Classes of TensorFlow's config messages with `fields` added.

    New scalar fields know whether they were set (`HasField`); on the wire they are plain proto3
    fields: a stock `tf.ConfigProto` reads the bytes and keeps what it does not know.

    Args:
      fields: What to add, in the order of declaration: `graph_opt.config.schema.NewField`s.
      module: Name of the module that has the classes.

    Returns:
      Message class by name: "ConfigProto", "GraphOptions", "OptimizerOptions", "RunOptions" and one
      for each message that only `fields` mentions.

    Raises:
      ValueError: TensorFlow already uses a number or a name of `fields` for something else.
    """
    stock_file = descriptor_pb2.FileDescriptorProto()
    tf.ConfigProto.DESCRIPTOR.file.CopyToProto(stock_file)
    file = _own_file(stock_file)
    for field in fields:
        _add_field(_message_named(file, field.message), field)
        if not field.is_scalar:
            _message_named(file, field.kind)  # which may have no fields
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    names = [message.name for message in file.message_type]
    return {name: _in_module(module, _message_class(pool, name)) for name in names}


def is_repeated(field: Any) -> bool:
    """Whether a field of a message class is a list or a map; protobuf 7 has no labels."""
    known = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED if known is None else known)


def is_map(field: Any) -> bool:
    """Whether the field of this descriptor is a protobuf map."""
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _in_module(module: str, message: Any) -> Any:
    """Says where a class is, and those within it: `help` and the like ask every class."""
    message.__module__ = module
    for nested in message.DESCRIPTOR.nested_types:
        if not nested.GetOptions().map_entry:
            _in_module(module, getattr(message, nested.name))
    return message


def _own_file(stock: Any) -> Any:
    """Our file: the messages copied from `stock`, which refer to all others by importing it."""
    file = descriptor_pb2.FileDescriptorProto(name=_FILE, package=_PACKAGE, syntax="proto3")
    file.dependency.extend(list(stock.dependency) + [stock.name])
    copied = [message for message in stock.message_type if message.name in _COPIED]
    file.message_type.extend(copied)
    for message in file.message_type:
        for field in _all_fields(message):
            if field.type_name:
                field.type_name = _own_type_name(field.type_name)
    return file


def _all_fields(message: Any) -> List[Any]:
    fields = list(message.field)
    for nested in message.nested_type:
        fields.extend(_all_fields(nested))
    return fields


def _own_type_name(type_name: str) -> str:
    """`.tensorflow.GraphOptions` becomes ours, `.tensorflow.GPUOptions` remains."""
    parts = type_name.split(".")
    if len(parts) < 3 or parts[1] != "tensorflow" or parts[2] not in _COPIED:
        return type_name
    return ".".join(["", _PACKAGE] + parts[2:])


def _message_named(file: Any, name: str) -> Any:
    for message in file.message_type:
        if message.name == name:
            return message
    return file.message_type.add(name=name)


def _add_field(message: Any, new: Any) -> None:
    for field in message.field:
        if (field.name, field.number) == (new.name, new.number):
            return  # A TensorFlow that already has the field (DeepRec's) keeps its own.
        if field.name == new.name or field.number == new.number:
            raise ValueError(
                "{}: this TensorFlow has '{}' = {}, which collides with graph_opt's '{}' = {}; "
                "use the TensorFlow release that graph_opt was installed for".format(
                    message.name, field.name, field.number, new.name, new.number
                )
            )
    field = message.field.add(name=new.name, number=new.number)
    field.label = field.LABEL_REPEATED if new.repeated else field.LABEL_OPTIONAL
    if not new.is_scalar:
        field.type = field.TYPE_MESSAGE
        field.type_name = ".{}.{}".format(_PACKAGE, new.kind)
        return
    field.type = _SCALARS[new.kind]
    if not new.repeated:
        # A oneof of one: "set to false" differs from "not set", in every protobuf version.
        message.oneof_decl.add(name="_" + new.name)
        field.oneof_index = len(message.oneof_decl) - 1


def _message_class(pool: Any, name: str) -> Any:
    descriptor = pool.FindMessageTypeByName("{}.{}".format(_PACKAGE, name))
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return _message_class_of_protobuf_3(descriptor)


def _message_class_of_protobuf_3(descriptor: Any) -> Any:
    message = symbol_database.Default().GetPrototype(descriptor)
    for nested in descriptor.nested_types:
        setattr(message, nested.name, _message_class_of_protobuf_3(nested))
    return message
