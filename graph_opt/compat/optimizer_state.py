"""The state that TensorFlow's and Keras' optimizers keep: private parts of both in one place.

There are three families, whose state has nothing in common: `tf.train`'s (slots by name, and other
variables such as beta powers), Keras' before 2.11, now `legacy` (slots by variable, hyperparameters
that are variables), and Keras' (each class has lists of its own).
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

from graph_opt.compat import tf
from graph_opt.compat.table_training import is_dynamic_table, with_static_shapes

TRAIN = "tf.train"
LEGACY_KERAS = "legacy Keras"
KERAS = "Keras"


def family_of(optimizer: Any) -> str:
    """`TRAIN`, `LEGACY_KERAS` or `KERAS`.

    Raises:
      TypeError: It is no optimizer.
    """
    if isinstance(optimizer, tf.train.Optimizer):
        return TRAIN
    # By name: `tf.keras.optimizers` may have been replaced by its legacy module.
    bases = {base.__name__ for base in type(optimizer).__mro__ if "keras" in base.__module__}
    if "OptimizerV2" in bases:
        return LEGACY_KERAS
    if "_BaseOptimizer" in bases:
        return KERAS
    raise TypeError(
        "{!r} is no optimizer; need one of tf.train or tf.keras.optimizers".format(optimizer)
    )


def copy_without_state(optimizer: Any) -> Any:
    """An optimizer with the same hyperparameters, but iterations and slots of its own.

    Learning rates that are variables are shared, so what is assigned to one holds for both.
    Optimizers that wrap another, as Horovod's do, come with a copy of that.
    """
    family = family_of(optimizer)
    copy: Any = object.__new__(type(optimizer))
    if family == LEGACY_KERAS:
        with tf.init_scope():
            optimizer._create_hypers()
    # What checkpoints know of the original is not the copy's.
    state = {name: value for name, value in vars(optimizer).items() if name[:6] != "_self_"}
    state.update(_first_state(family))
    for name in ("_built", "_index_dict"):
        if family == KERAS:
            state.pop(name, None)
    for name, value in state.items():
        if name == "_optimizer" and isinstance(value, tf.train.Optimizer):
            state[name] = copy_without_state(value)
    if family != KERAS:
        vars(copy).update(state)
        return copy
    for name, value in state.items():
        setattr(copy, name, value)
    copy._create_iteration_variable()
    return copy


class SlotRecord:
    """Tells the slots of one optimizer from the variables that it makes.

    Args:
      optimizer: An optimizer that has no slots yet, or one that can tell them itself.
    """

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._family = family_of(optimizer)
        self._made: Dict[str, Dict[str, Any]] = {}
        if self._family == KERAS:
            self._watch(optimizer)

    def create(self, variables: Sequence[Any]) -> None:
        """Makes the slots of variables that have none yet."""
        tables = [variable for variable in variables if is_dynamic_table(variable)]
        with tf.init_scope(), with_static_shapes(tables):
            if self._family == TRAIN:
                self._optimizer._create_slots(variables)
            elif self._family == LEGACY_KERAS:
                with tf.name_scope(self._optimizer._name):
                    _create_weights(self._optimizer, variables)
            else:
                with tf.name_scope(self._optimizer.name):
                    self._optimizer.build(variables)

    def names(self) -> List[str]:
        """Names of the slots that there are."""
        if self._family != KERAS:
            return list(self._optimizer.get_slot_names())
        return sorted({name for slots in self._made.values() for name in slots})

    def of(self, variable: Any) -> Dict[str, Any]:
        """The slots of a variable by name."""
        if self._family == KERAS:
            return dict(self._made.get(unique_id(variable), {}))
        found = {}
        for name in self.names():
            try:
                slot = self._optimizer.get_slot(variable, name)
            except KeyError:  # a legacy optimizer without slots of this variable
                slot = None
            if slot is not None:
                found[name] = slot
        return found

    def _watch(self, optimizer: Any) -> None:
        make = optimizer.add_variable_from_reference

        def record(model_variable: Any, variable_name: str, *given: Any, **named: Any) -> Any:
            slot = make(model_variable, variable_name, *given, **named)
            self._made.setdefault(unique_id(model_variable), {})[variable_name] = slot
            return slot

        optimizer.add_variable_from_reference = record


def _create_weights(optimizer: Any, variables: Sequence[Any]) -> None:
    if hasattr(optimizer, "_create_all_weights"):
        optimizer._create_all_weights(variables)
        return
    _ = optimizer.iterations  # TensorFlow 1; they are made when they are first read.
    optimizer._create_hypers()
    optimizer._create_slots(variables)


def slots_by_name(optimizer: Any, variable: Any) -> Dict[str, Any]:
    """The slots that an optimizer has for a variable, by name, made if there are none yet.

    Raises:
      ValueError: Keras' optimizer has not been built for the variable.
    """
    if family_of(optimizer) != KERAS:
        record = SlotRecord(optimizer)
        record.create([variable])
        return record.of(variable)
    if unique_id(variable) not in getattr(optimizer, "_index_dict", {}):
        raise ValueError(
            "{} has no slots of {!r}: call its build() with all variables, or wrap it in "
            "sok.OptimizerWrapper".format(optimizer.name, variable.name)
        )
    end = "/" + variable._shared_name
    names = [(one.name.split(":")[0], one) for one in optimizer.variables]
    return {name[: -len(end)].rsplit("/", 1)[-1]: one for name, one in names if name.endswith(end)}


def counters_of(optimizer: Any) -> Dict[str, Any]:
    """The variables that count an optimizer's steps, by name: iterations, powers of betas."""
    if family_of(optimizer) != TRAIN:
        return {"iterations": optimizer.iterations}
    names = {id(value): key[0] for key, value in optimizer._non_slot_dict.items()}
    return {
        names[id(value)]: value for value in optimizer._non_slot_variables() if id(value) in names
    }


def unique_id(variable: Any) -> str:
    """What Keras' optimizers and SOK's scripts know a variable by."""
    identifier: str = variable._unique_id
    return identifier


def learning_rate_of(optimizer: Any) -> Any:
    """The learning rate, as it was given: a number, tensor, variable or schedule."""
    if family_of(optimizer) != TRAIN:
        return optimizer.lr
    for name in ("_lr", "_learning_rate"):
        if hasattr(optimizer, name):
            return getattr(optimizer, name)
    raise AttributeError("{} has no learning rate".format(type(optimizer).__name__))


def set_learning_rate(optimizer: Any, value: Any) -> None:
    """Sets the learning rate; in graphs of `tf.train`, of updates that are made from then on."""
    if family_of(optimizer) != TRAIN:
        optimizer.lr = value
        return
    name = "_lr" if hasattr(optimizer, "_lr") else "_learning_rate"
    setattr(optimizer, name, value)


def _first_state(family: str) -> Dict[str, Any]:
    if family == TRAIN:
        return {"_slots": {}, "_non_slot_dict": {}, "_deferred_slot_restorations": {}}
    if family == KERAS:
        return {"_variables": []}
    return {
        "_slots": {},
        "_slot_names": [],
        "_weights": [],
        "_iterations": None,
        "_deferred_slot_restorations": {},
    }
