"""Resource variables, for classes that derive from them."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any, Callable, Iterator, List, NamedTuple, Optional, Sequence

from tensorflow.python.client import session
from tensorflow.python.framework import ops
from tensorflow.python.ops import gen_resource_variable_ops, resource_variable_ops
from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable, ResourceVariable

from graph_opt.compat import tf
from graph_opt.compat.object_saveables import saveables_of_tensors

__all__ = [
    "NamedInCheckpoints",
    "PartitionedVariable",
    "ResourceOps",
    "ResourceVariable",
    "VariableOfResource",
    "WithoutValue",
    "accessed",
    "beside",
    "on_device_of",
]


# Name scopes of TensorFlow 1 are the same in both modes.
_ALWAYS = (
    {"skip_on_eager": False}
    if "skip_on_eager" in inspect.signature(ops.name_scope).parameters
    else {}
)


# VARIABLE_VALUE_KEY of `tensorflow.python.trackable.base`, which had another name in TensorFlow 1.
_VALUE = "VARIABLE_VALUE"


class ResourceOps(NamedTuple):
    """What a `VariableOfResource` is made of besides its handle.

    Attributes:
      initial: From nothing to the tensors that the resource starts with; None for none.
      initialize: From the handle, the variable's name, those tensors and a name to the op that
        makes the resource.
      is_initialized: From the handle and a name to a bool tensor: whether the resource is there.
      destroyed_with: Gets the variable and its handle: deletes an eager resource with it.
      to_tensors: From the variable to what `tf.train.Checkpoint` saves of it, by name.
      from_tensors: Gets the variable and these tensors: restores it.
    """

    initial: Optional[Callable[[], Any]]
    initialize: Callable[[Any, str, Any, str], Any]
    is_initialized: Callable[[Any, Optional[str]], Any]
    destroyed_with: Callable[[Any, Any], None]
    to_tensors: Callable[[Any], Any]
    from_tensors: Callable[[Any, Any], Any]


class NamedInCheckpoints(ResourceVariable):
    """A variable whose value `tf.train.Checkpoint` saves under a name of its own choice.

    A checkpoint that has it under another name is an error when it is restored.
    """

    def name_in_checkpoints(self) -> str:
        """The name, in place of `VARIABLE_VALUE`; called when a checkpoint is written or read."""
        return _VALUE

    def _gather_saveables_for_checkpoint(self) -> Any:  # of TensorFlow 1
        return {self.name_in_checkpoints(): self}

    if hasattr(ResourceVariable, "_serialize_to_tensors"):

        def _serialize_to_tensors(self) -> Any:
            (value,) = super()._serialize_to_tensors().values()
            return {self.name_in_checkpoints(): value}

        def _restore_from_tensors(self, restored_tensors: Any) -> Any:
            (value,) = restored_tensors.values()
            return super()._restore_from_tensors({_VALUE: value})


class WithoutValue(ResourceVariable):
    """A variable that cannot be read or written as a whole."""

    def value(self) -> Any:
        """There is none: see the class."""
        raise self._no_value("value")

    def read_value(self) -> Any:
        """There is none: see the class."""
        raise self._no_value("read_value")

    def read_value_no_copy(self) -> Any:
        """There is none: see the class."""
        raise self._no_value("read_value_no_copy")

    def numpy(self) -> Any:
        """There is none: see the class."""
        raise self._no_value("numpy")

    def assign(self, *arguments: Any, **named: Any) -> Any:
        """There is no value to assign to: see the class."""
        raise self._no_value("assign")

    def assign_add(self, *arguments: Any, **named: Any) -> Any:
        """There is no value to add to: see the class."""
        raise self._no_value("assign_add")

    def assign_sub(self, *arguments: Any, **named: Any) -> Any:
        """There is no value to subtract from: see the class."""
        raise self._no_value("assign_sub")

    def __repr__(self) -> str:
        return "<{} {!r} shape={} dtype={}>".format(
            type(self).__name__, self.name, self.shape, self.dtype.name
        )

    def __deepcopy__(self, memo: Any) -> Any:
        raise NotImplementedError("{} cannot be copied".format(self.described))

    def as_fetched(self) -> Any:
        """What a session runs when the variable is fetched: nothing, unless it is overridden."""
        raise NotImplementedError(
            "{} cannot be fetched: it cannot be read as a whole; fetch its export()".format(
                self.described
            )
        )

    def _no_value(self, method: str) -> NotImplementedError:
        return NotImplementedError(
            "{} has no {}(): it cannot be read or written as a whole".format(self.described, method)
        )

    @property
    def described(self) -> str:
        """What it is, and its name: for errors."""
        return "{} {!r}".format(type(self).__name__, self.name.split(":")[0])

    def _dense_var_to_tensor(self, dtype: Any = None, name: Any = None, as_ref: Any = False) -> Any:
        if as_ref and not self._in_graph_mode and not tf.executing_eagerly():
            # TensorFlow 1 asks in functions what it is to colocate updates with.
            return tf.get_default_graph().capture(self.handle)
        raise NotImplementedError(
            "{} cannot be converted to a tensor: it cannot be read as a whole".format(
                self.described
            )
        )

    def _read_variable_op(self, no_copy: bool = False) -> Any:
        raise self._no_value("value")


class VariableOfResource(WithoutValue):
    """A variable to all of TensorFlow, with a resource of another kind behind its handle.

    The handle is a VarHandleOp named like the variable, so that devices, collections, gradients and
    optimizers find what they expect. The value of the variable as a whole is nowhere.

    Args:
      name: Of the variable; made unique in the current name scope.
      shape: The shape that the handle has.
      resource: Makes the ops.
      dtype: The type that the handle has.
      trainable: Whether optimizers update it.
      collections: As for `tf.Variable`.
    """

    def __init__(
        self,
        name: str,
        shape: Any,
        resource: ResourceOps,
        dtype: Any = tf.float32,
        trainable: bool = True,
        collections: Optional[Sequence[str]] = None,
    ) -> None:
        self._resource_ops = resource
        with tf.init_scope():
            in_graph = not tf.executing_eagerly()
            with ops.name_scope(name, "Variable", **_ALWAYS) as scope:
                handle_name = ops.name_from_scope_name(scope)
                unique_id = handle_name if in_graph else "{}_{}".format(handle_name, ops.uid())
                handle = _handle(shape, dtype, unique_id, scope)
                handle._name = handle_name + ":0"
                handle._unique_id = unique_id
                initial, initializer, read = self._made_ops(handle, handle_name, in_graph, dtype)
                if in_graph:
                    tf.add_to_collections(_collections(collections, trainable), self)
            BaseResourceVariable.__init__(
                self,
                trainable=trainable,
                shape=shape,
                dtype=dtype,
                handle=handle,
                name=name,
                unique_id=unique_id,
                handle_name=handle_name,
                graph_element=read,
                initial_value=initial if in_graph else None,
                initializer_op=initializer,
                in_graph_mode=in_graph,
            )
        resource.destroyed_with(self, handle)

    def _made_ops(self, handle: Any, variable: str, in_graph: bool, dtype: Any) -> Any:
        resource = self._resource_ops
        initial = None
        if resource.initial is not None:
            with ops.name_scope("Initializer"), ops.colocate_with(handle):
                initial = resource.initial()
        with ops.name_scope("Assign") as name, ops.colocate_with(handle, ignore_existing=True):
            initializer = resource.initialize(handle, variable, initial, name)
        if not in_graph:
            return None, None, None
        # Whoever imports the graph's variables looks for it; who runs it would get no rows.
        with ops.name_scope("Read"), ops.device(handle.device):
            with ops.control_dependencies([_no_value_op(handle.op.name)]):
                read = gen_resource_variable_ops.read_variable_op(handle, dtype)
        return initial, initializer, read

    def _serialize_to_tensors(self) -> Any:
        return self._resource_ops.to_tensors(self)

    def _restore_from_tensors(self, restored_tensors: Any) -> Any:
        return self._resource_ops.from_tensors(self, restored_tensors)

    if not hasattr(ResourceVariable, "_serialize_to_tensors"):

        def _gather_saveables_for_checkpoint(self) -> Any:
            return saveables_of_tensors(
                self, self._serialize_to_tensors(), self._restore_from_tensors
            )

    def initialize_by(self, operation: Any) -> None:
        """Gives the variable of a graph another initializer, which runs the one that it has."""
        self._initializer_op = operation

    def is_initialized(self, name: Optional[str] = None) -> Any:
        """A bool tensor: whether the resource has been made."""
        with beside(self):
            return self._resource_ops.is_initialized(self.handle, name)


class PartitionedVariable(WithoutValue):
    """Variables of equal shape as one, for functions that read rows of variables.

    Keras' layers know a variable with parts by this name of its class, or of one of its bases.

    Args:
      name: Of the whole.
      parts: In order. To TensorFlow, the whole is where the first one is.
    """

    def __init__(self, name: str, parts: Sequence[Any]) -> None:
        first = parts[0]
        self._variable_list = list(parts)
        BaseResourceVariable.__init__(
            self,
            trainable=first.trainable,
            shape=first.shape,
            dtype=first.dtype,
            handle=first.handle,
            name=name,
            unique_id="{}_in_parts_{}".format(name, ops.uid()),
            handle_name=name,
            graph_element=first._graph_element,
            in_graph_mode=first._in_graph_mode,
        )

    def __iter__(self) -> Iterator[Any]:
        return iter(self._variable_list)

    def _get_variable_list(self) -> List[Any]:
        return list(self._variable_list)


def _fetch(variable: WithoutValue) -> Any:
    return [variable.as_fetched()], lambda values: values[0]


# Otherwise a session would fetch the read that nobody may run.
session.register_session_run_conversion_functions(WithoutValue, _fetch)


def _no_value_op(name: str) -> Any:
    text = (
        "table {} has no value that can be read as a whole, or frozen into a graph: export a "
        "SavedModel, or its rows"
    )
    return tf.raw_ops.Assert(condition=tf.constant(False), data=[tf.constant(text.format(name))])


def accessed(variable: Any) -> None:
    """Tells gradient tapes and functions that a variable is about to be read."""
    resource_variable_ops.variable_accessed(variable)


def _handle(shape: Any, dtype: Any, shared_name: str, name: str) -> Any:
    # The branch of a conditional that reads nothing has zeros of this shape as its gradient.
    shape = [size or 0 for size in tf.TensorShape(shape).as_list()]
    container = ops.get_default_graph()._container or ""
    return gen_resource_variable_ops.var_handle_op(
        dtype=dtype,
        shape=tf.TensorShape(shape),
        shared_name=shared_name,
        container=container,
        name=name,
    )


def _collections(given: Optional[Sequence[str]], trainable: bool) -> List[str]:
    names = [tf.GraphKeys.GLOBAL_VARIABLES] if given is None else list(given)
    if trainable and tf.GraphKeys.TRAINABLE_VARIABLES not in names:
        names.append(tf.GraphKeys.TRAINABLE_VARIABLES)
    return names


def beside(variable: Any) -> Any:
    """A scope in which ops are placed where a variable is, and regardless of other scopes."""
    handle = variable.handle
    if ops.inside_function():  # where a device of its own would keep the function from being moved
        handle = ops.get_default_graph().capture(handle)
    return ops.colocate_with(handle, ignore_existing=True)


@contextlib.contextmanager
def on_device_of(tensor: Any) -> Iterator[None]:
    """A scope in which ops are placed where a tensor is, and regardless of other scopes."""
    with ops.colocate_with(None, ignore_existing=True), ops.device(tensor.device or None):
        yield
