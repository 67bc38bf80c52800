"""Savers of what TensorFlow has no variable of: several tensors each, saved and restored together.

`tf.train.Saver` finds what it saves in two functions of TensorFlow, and builds its nodes in two
methods. All four are replaced when the first of our variables is made. Savers of other variables
build the same nodes as before.
"""

from __future__ import annotations

import functools
import threading
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from tensorflow.python.framework import meta_graph
from tensorflow.python.ops import variables as variables_module
from tensorflow.python.training import checkpoint_utils
from tensorflow.python.training import saver as saver_module
from tensorflow.python.training.saving import saveable_object, saveable_object_util
from tensorflow.python.util import nest

from graph_opt.compat import tf
from graph_opt.compat.datasets import single_element, without_errors

stock_import_meta_graph: Any = saver_module.import_meta_graph


class SaverParts(NamedTuple):
    """What a saver does for variables of ours.

    Attributes:
      saveables: `saveables(variable, name)`: None if the variable is not ours, else what a saver
        saves under the name, or under the variable's own name if that is None.
      save: Given the checkpoint's prefix and those on one device: prefixes, which begin with it, of
        the checkpoints that they are written to first, and the ops that do so.
      restore: Given the checkpoint's prefix and those on one device: adds the ops that restore
        them, as `restored`.
    """

    saveables: Callable[[Any, Optional[str]], Optional[List[Any]]]
    save: Callable[[Any, List[Any]], Tuple[List[Any], List[Any]]]
    restore: Callable[[Any, List[Any]], None]


class OptionalSaveable(saveable_object.SaveableObject):
    """Tensors that a saver saves as any other, and that checkpoints may lack.

    Args:
      owner: What is saved.
      name: Of a node.
      tensors: From a name in checkpoints to a function that makes what is saved, and its type.
      device: Where the state is.
      restored: Given the tensors of a checkpoint, and as last argument whether it had them (else
        they are empty), makes the op that restores the state.
    """

    def __init__(
        self,
        owner: Any,
        name: str,
        tensors: Mapping[str, Tuple[Callable[[], Any], Any]],
        device: str,
        restored: Callable[..., Any],
    ) -> None:
        specs = [
            saveable_object.SaveSpec(made, "", tensor, dtype=dtype, device=device)
            for tensor, (made, dtype) in tensors.items()
        ]
        super().__init__(owner, specs, name)
        self._restored = restored
        with _lock:
            _replace_functions()

    def read(self, prefix: Any) -> List[Any]:
        """What the checkpoint of a prefix has, and whether it has it, as one tensor for each spec.

        There is no op that asks whether a checkpoint has a tensor: a dataset passes over the error.
        """
        names = [spec.name for spec in self.specs]
        dtypes = [spec.dtype for spec in self.specs]

        def stored(filename: Any) -> Any:
            read = tf.raw_ops.RestoreV2(
                prefix=filename,
                tensor_names=names,
                shape_and_slices=[""] * len(names),
                dtypes=dtypes,
            )
            return (*read, True)

        nothing = (*(tf.zeros([0], dtype) for dtype in dtypes), False)
        either = tf.data.Dataset.from_tensors(prefix).map(stored)
        either = without_errors(either).concatenate(tf.data.Dataset.from_tensors(nothing))
        *tensors, self._found = single_element(either.take(1))
        return tensors

    def restore(self, restored_tensors: Any, restored_shapes: Any) -> Any:
        """See `restored`."""
        return self._restored(*restored_tensors, self._found)


class OurSaveable(saveable_object.SaveableObject):
    """Base class of what `SaverParts.saveables` returns.

    Args:
      variable: The variable.
      name: In checkpoints.
      tensor: Name of one of its tensors there.
      device: Where it is.

    Attributes:
      restored: The op that restores it.
    """

    def __init__(self, variable: Any, name: str, tensor: str, device: str) -> None:
        spec = saveable_object.SaveSpec(
            lambda: tf.zeros([0]), "", tensor, dtype=variable.dtype, device=device
        )
        super().__init__(variable, [spec], name)
        self.restored: Any = None

    def restore(self, restored_tensors: Any, restored_shapes: Any) -> Any:
        """See `restored`."""
        return self.restored


_lock = threading.RLock()
_parts: List[SaverParts] = []
_initializers: List[Callable[[str, str, Any], bool]] = []


def build_savers_with(parts: SaverParts) -> None:
    """From now on, savers save and restore our variables through these functions.

    Calling it again with the same parts has no effect.
    """
    with _lock:
        if parts in _parts:
            return
        _replace_functions()
        _parts.append(parts)


def initialize_from_checkpoints_with(initialize: Callable[[str, str, Any], bool]) -> None:
    """From now on, `tf.train.init_from_checkpoint` offers what it is to initialize to a function.

    Args:
      initialize: `initialize(prefix, stored, target)`: given a checkpoint, and a pair of the
        assignment map, returns whether TensorFlow has nothing left to do for that. Adding the same
        function again has no effect.
    """
    with _lock:
        if initialize in _initializers:
            return
        if not _initializers:
            module: Any = checkpoint_utils
            module._init_from_checkpoint = _initializing(module._init_from_checkpoint)
        _initializers.append(initialize)


def given_variables(saver: Any) -> Any:
    """What a `tf.train.Saver` saves: a dict by name, or a list, with lists of parts taken apart."""
    given = saver._var_list
    if given is None:
        given = variables_module._all_saveable_objects()
    return given if isinstance(given, dict) else nest.flatten(list(given))


def read_meta_graph(given: Any) -> Any:
    """A copy of a MetaGraphDef, or what is in its file.

    Raises:
      OSError: There is no such file.
    """
    if not isinstance(given, tf.MetaGraphDef):
        return meta_graph.read_meta_graph_file(given)
    copied = tf.MetaGraphDef()
    copied.CopyFrom(given)
    return copied


def saveable_named(variable: Any, name: str) -> Any:
    """What a saver saves of a resource variable under another name."""
    (saveable,) = saveable_object_util.saveable_objects_for_op(variable, name)
    return saveable


@functools.lru_cache(maxsize=None)
def _replace_functions() -> None:
    module: Any = saveable_object_util
    module.op_list_to_dict = _listed(module.op_list_to_dict)
    module.saveable_objects_for_op = _converted(module.saveable_objects_for_op)
    base: Any = saver_module.BaseSaverBuilder
    base.save_op = _saving(base.save_op)
    for builder in (base, saver_module.BulkSaverBuilder):
        restoring: Any = _restoring(builder.bulk_restore)
        builder.bulk_restore = restoring


def _initializing(stock: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(stock)
    def init_from_checkpoint(ckpt_dir_or_file: Any, assignment_map: Any) -> None:
        prefix = checkpoint_utils._get_checkpoint_filename(ckpt_dir_or_file)
        is_map = hasattr(assignment_map, "items")
        # A list: scopes are given to all functions, and then to TensorFlow.
        left = [
            (stored, target)
            for stored, target in (assignment_map.items() if is_map else assignment_map)
            if not any([initialize(prefix, stored, target) for initialize in _initializers])
        ]
        if left:  # TensorFlow 1 takes no pairs.
            stock(ckpt_dir_or_file, dict(left) if is_map else left)

    return init_from_checkpoint


def _claimed(variable: Any, name: Optional[str]) -> Optional[List[Any]]:
    for parts in _parts:
        found = parts.saveables(variable, name)
        if found is not None:
            return found
    return None


def _listed(stock: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(stock)
    def op_list_to_dict(op_list: Any, *arguments: Any, **named: Any) -> Any:
        if not isinstance(op_list, (list, tuple, set)):
            return stock(op_list, *arguments, **named)
        others, ours = [], []
        for variable in nest.flatten(list(op_list)):
            found = _claimed(variable, None)
            if found is None:
                others.append(variable)
            else:
                ours.extend(found)
        listed: Dict[str, Any] = stock(others, *arguments, **named)
        for saveable in ours:
            if saveable.name in listed:
                raise ValueError(
                    "At least two variables have the same name: {}".format(saveable.name)
                )
            listed[saveable.name] = saveable
        return listed

    return op_list_to_dict


def _converted(stock: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(stock)
    def saveable_objects_for_op(op: Any, name: Any) -> Any:
        found = _claimed(op, name) if isinstance(name, str) else None
        return stock(op, name) if found is None else iter(found)

    return saveable_objects_for_op


def _saving(stock: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(stock)
    def save_op(self: Any, filename_tensor: Any, saveables: Sequence[Any]) -> Any:
        ours, others = _divided(saveables)
        if not ours:
            return stock(self, filename_tensor, saveables)
        prefixes: List[Any] = []
        written: List[Any] = []
        for parts in _parts:
            more = parts.save(filename_tensor, ours)
            prefixes, written = prefixes + more[0], written + more[1]
        if others:
            prefixes.append(tf.strings.join([filename_tensor, "_others"]))
            written.append(stock(self, prefixes[-1], others))
        with tf.control_dependencies(written):
            return tf.raw_ops.MergeV2Checkpoints(
                checkpoint_prefixes=tf.stack(prefixes),
                destination_prefix=filename_tensor,
                delete_old_dirs=False,
            )

    return save_op


def _restoring(stock: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(stock)
    def bulk_restore(
        self: Any,
        filename_tensor: Any,
        saveables: Sequence[Any],
        preferred_shard: int,
        restore_sequentially: bool,
    ) -> List[Any]:
        ours, others = _divided(saveables)
        required = [one for one in others if not isinstance(one, OptionalSaveable)]
        if len(required) == len(saveables):
            return list(
                stock(self, filename_tensor, saveables, preferred_shard, restore_sequentially)
            )
        for parts in _parts if ours else ():
            parts.restore(filename_tensor, ours)
        read = iter(
            stock(self, filename_tensor, required, preferred_shard, restore_sequentially)
            if required
            else []
        )
        tensors: List[Any] = []
        for saveable in saveables:
            if isinstance(saveable, OptionalSaveable):
                tensors.extend(saveable.read(filename_tensor))
            elif isinstance(saveable, OurSaveable):
                tensors.append(filename_tensor)
            else:
                tensors.extend(next(read) for _ in saveable.specs)
        return tensors

    return bulk_restore


def _divided(saveables: Sequence[Any]) -> Tuple[List[Any], List[Any]]:
    ours = [one for one in saveables if isinstance(one, OurSaveable)]
    return ours, [one for one in saveables if not isinstance(one, OurSaveable)]
