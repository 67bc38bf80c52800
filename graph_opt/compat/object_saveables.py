"""What `tf.train.Checkpoint` of TensorFlow 1 saves of a variable that is several tensors.

Later releases ask the variable for these tensors, and give it all of them back at once. This one
knows only saveables that stand for one tensor each; its checkpoints have the same names.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, Mapping

from tensorflow.python.training.saving import saveable_object

from graph_opt.compat import tf


def saveables_of_tensors(
    variable: Any, tensors: Mapping[str, Any], restore: Callable[[Dict[str, Any]], Any]
) -> Dict[str, Callable[[str], Any]]:
    """What a variable returns from `_gather_saveables_for_checkpoint`.

    Args:
      variable: The variable.
      tensors: What a checkpoint has of it, by name.
      restore: Given these tensors as they were saved: restores them; returns the op that does, or
        None if that is done.
    """
    restored: Dict[str, Any] = {}

    def restored_one(key: str, tensor: Any) -> Any:
        restored[key] = tensor
        if len(restored) < len(tensors):
            return tf.no_op()
        every = dict(restored)
        restored.clear()
        operation = restore(every)
        return tf.no_op() if operation is None else operation

    return {
        key: functools.partial(_Saveable, variable, tensor, functools.partial(restored_one, key))
        for key, tensor in tensors.items()
    }


class _Saveable(saveable_object.SaveableObject):
    def __init__(
        self, variable: Any, tensor: Any, restored: Callable[[Any], Any], name: str
    ) -> None:
        spec = saveable_object.SaveSpec(tensor, "", name, tensor.dtype, variable.device)
        super().__init__(tensor, [spec], name)
        self._restored = restored

    def restore(self, restored_tensors: Any, restored_shapes: Any) -> Any:
        """Passes on the tensor, and restores the variable once it has all."""
        (tensor,) = restored_tensors
        return self._restored(tensor)
