"""How optimizers of TensorFlow and Keras update rows: as one of our specs, with their own values.

Relies on where each optimizer keeps its hyperparameters and slots.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.compat.optimizer_state import KERAS, LEGACY_KERAS, TRAIN, family_of

__all__ = ["UpdateRule", "update_rule"]

# Methods by which an optimizer updates; a class that has its own follows a rule that is not known.
_UPDATES = {
    TRAIN: ("_resource_apply_sparse", "_resource_apply_sparse_duplicate_indices"),
    LEGACY_KERAS: ("_resource_apply_sparse", "_resource_apply_sparse_duplicate_indices"),
}
_KERAS_UPDATES = ("update_step",)
_ROW_WISE = {"SGD", "Adagrad"}


class UpdateRule(NamedTuple):
    """An update of the rows of one table.

    Attributes:
      optimizer: Name of its spec (`graph_opt.ops.optimizers`).
      slots: The slots of the table, in the order of the spec.
      hyperparameters: Scalars, in the order of the spec.
      flags: The spec's flags that are set; None for its defaults.
      use_locking: Whether no other update runs meanwhile.
      moves_every_row: Whether the optimizer itself moves rows without a gradient, or their slots;
        None: if TensorFlow's update by its spec does.
      moves_new_rows: Whether that moves also rows that have never had a gradient.
    """

    optimizer: str
    slots: Sequence[Any]
    hyperparameters: Sequence[Any]
    flags: Optional[Sequence[str]] = None
    use_locking: bool = False
    moves_every_row: Optional[bool] = None
    moves_new_rows: bool = False


_Rule = Callable[[Any, Any, Mapping[str, Any]], UpdateRule]


def update_rule(
    optimizer: Any, table: Any, coefficients: Any = None, group_lasso: bool = False
) -> UpdateRule:
    """How an optimizer updates the rows of a table that have a gradient.

    Args:
      optimizer: Of `tf.train` or Keras, while it applies gradients.
      table: A table for which it has slots.
      coefficients: What a legacy optimizer of Keras was given as apply_state.
      group_lasso: Whether `tf.train.FtrlOptimizer` bounds the norms of rows, as in DeepRec.

    Raises:
      ValueError: The optimizer is none of those whose formula is known.
    """
    family = family_of(optimizer)
    known = _RULES.get(family, _KERAS_RULES)
    rule = _rule_of(optimizer, known, _UPDATES.get(family, _KERAS_UPDATES))
    if rule is None:
        raise ValueError(
            "{} updates {!r} by no formula that is known for dynamic tables; use one of {}".format(
                type(optimizer).__name__, table.name, ", ".join(sorted(set(known) - _OWN_BASES))
            )
        )
    if family == LEGACY_KERAS:
        place = table.device, table.dtype.base_dtype
        values = (coefficients or {}).get(place) or optimizer._fallback_apply_state(*place)
        return rule(optimizer, table, values)
    found = rule(optimizer, table, {"group_lasso": group_lasso})
    if family != KERAS:
        return found
    return found._replace(
        moves_every_row=_is_dense(optimizer), moves_new_rows=_moves_new_rows(optimizer)
    )


def _is_dense(optimizer: Any) -> bool:
    """Whether an optimizer of new Keras treats slices as the matrix that they stand for."""
    names = {one.__name__ for one in type(optimizer).__mro__}
    return not names & _ROW_WISE or bool(getattr(optimizer, "momentum", 0.0))


def _moves_new_rows(optimizer: Any) -> bool:
    names = {one.__name__ for one in type(optimizer).__mro__}
    return "Ftrl" in names or bool(getattr(optimizer, "weight_decay", None))


def _rule_of(optimizer: Any, known: Mapping[str, _Rule], updates: Sequence[str]) -> Any:
    for owner in type(optimizer).__mro__:
        if owner.__name__ in known and owner.__module__.split(".")[0] in _OF_TENSORFLOW:
            return known[owner.__name__]
        if any(name in vars(owner) for name in updates):
            return None
    return None


_OWN_BASES = {"TrainSparseAdam", "DecayingAdam"}  # of optimizers that derive from TensorFlow's
_OF_TENSORFLOW = ("tensorflow", "keras", "tf_keras", "graph_opt")


def _slots(optimizer: Any, table: Any, *names: str) -> Sequence[Any]:
    return [optimizer.get_slot(table, name) for name in names]


def _train(
    spec: str, slots: Tuple[str, ...], values: Tuple[str, ...], flags: Sequence[str] = ()
) -> _Rule:
    """The rule of an optimizer with these slots and attributes; a flag's attribute is `_<flag>`."""

    def rule(optimizer: Any, table: Any, _: Any) -> UpdateRule:
        numbers = [getattr(optimizer, name) if name else 0.0 for name in values]
        is_set = [flag for flag in flags if getattr(optimizer, "_" + flag)]
        return UpdateRule(
            spec, _slots(optimizer, table, *slots), numbers, is_set, optimizer._use_locking
        )

    return rule


def _adagrad(optimizer: Any, table: Any, _: Any) -> UpdateRule:
    rate = optimizer._learning_rate_tensor
    slots = _slots(optimizer, table, "accumulator")
    return UpdateRule("Adagrad", slots, [rate, 0.0], None, optimizer._use_locking)


def _train_adam(optimizer: Any, table: Any, _: Any) -> UpdateRule:
    values = [optimizer._lr_t, optimizer._beta1_t, optimizer._beta2_t, optimizer._epsilon_t]
    values += [tf.identity(power) for power in optimizer._get_beta_accumulators()]
    slots = _slots(optimizer, table, "m", "v")
    return UpdateRule("Adam", slots, values, None, optimizer._use_locking)


def _train_sparse_adam(optimizer: Any, table: Any, given: Any) -> UpdateRule:
    return _train_adam(optimizer, table, given)._replace(moves_every_row=False)


def _train_adam_w(optimizer: Any, table: Any, given: Any) -> UpdateRule:
    adam = _train_adam(optimizer, table, given)
    values = [*adam.hyperparameters, optimizer.decay_rate()]
    return adam._replace(optimizer="LazyAdamW", hyperparameters=values, flags=[])


def _train_rms_prop(optimizer: Any, table: Any, given: Any) -> UpdateRule:
    values = ("_learning_rate_tensor", "_decay_tensor", "_momentum_tensor", "_epsilon_tensor")
    if optimizer._centered:
        return _train("CenteredRMSProp", ("mg", "rms", "momentum"), values)(optimizer, table, given)
    return _train("RMSProp", ("rms", "momentum"), values)(optimizer, table, given)


def _train_ftrl(optimizer: Any, table: Any, given: Mapping[str, Any]) -> UpdateRule:
    shrinkage = "_l2_shrinkage_regularization_strength_tensor"
    l2 = "_adjusted_l2_regularization_strength_tensor"  # With beta, which TensorFlow 1 lacks.
    values = (
        *("_learning_rate_tensor", "_l1_regularization_strength_tensor"),
        l2 if hasattr(optimizer, l2) else "_l2_regularization_strength_tensor",
        shrinkage if optimizer._l2_shrinkage_regularization_strength > 0 else "",
        "_learning_rate_power_tensor",
    )
    spec = "GroupLassoFtrl" if given["group_lasso"] else "Ftrl"
    return _train(spec, ("accum", "linear"), values)(optimizer, table, given)


_L1_L2 = ("_l1_regularization_strength_tensor", "_l2_regularization_strength_tensor")

_TRAIN_RULES: Dict[str, _Rule] = {
    "GradientDescentOptimizer": _train("GradientDescent", (), ("_learning_rate_tensor",)),
    "MomentumOptimizer": _train(
        "Momentum",
        ("momentum",),
        ("_learning_rate_tensor", "_momentum_tensor"),
        ["use_nesterov"],
    ),
    "AdagradOptimizer": _adagrad,
    "AdamOptimizer": _train_adam,
    "TrainSparseAdam": _train_sparse_adam,
    "DecayingAdam": _train_adam_w,
    "RMSPropOptimizer": _train_rms_prop,
    "AdadeltaOptimizer": _train(
        "Adadelta", ("accum", "accum_update"), ("_lr_t", "_rho_t", "_epsilon_t")
    ),
    "FtrlOptimizer": _train_ftrl,
    "ProximalAdagradOptimizer": _train(
        "ProximalAdagrad", ("accumulator",), ("_learning_rate_tensor", *_L1_L2)
    ),
    "ProximalGradientDescentOptimizer": _train(
        "ProximalGradientDescent", (), ("_learning_rate_tensor", *_L1_L2)
    ),
}


def _legacy(
    spec: str, slots: Tuple[str, ...], values: Tuple[str, ...], flags: Sequence[str] = ()
) -> _Rule:
    def rule(optimizer: Any, table: Any, given: Mapping[str, Any]) -> UpdateRule:
        numbers = [given[name] for name in values]
        locks = optimizer._use_locking
        return UpdateRule(spec, _slots(optimizer, table, *slots), numbers, list(flags), locks)

    return rule


def _legacy_descent(optimizer: Any, table: Any, given: Mapping[str, Any]) -> UpdateRule:
    if not optimizer._momentum:
        return _legacy("GradientDescent", (), ("lr_t",))(optimizer, table, given)
    flags = ["use_nesterov"] if optimizer.nesterov else []
    return _legacy("KerasMomentum", ("momentum",), ("lr_t", "momentum"), flags)(
        optimizer, table, given
    )


def _legacy_adam(optimizer: Any, table: Any, given: Mapping[str, Any]) -> UpdateRule:
    values = ("lr_t", "beta_1_t", "beta_2_t", "epsilon", "beta_1_power", "beta_2_power")
    if optimizer.amsgrad:
        return _legacy("AMSGrad", ("m", "v", "vhat"), values)(optimizer, table, given)
    return _legacy("Adam", ("m", "v"), values)(optimizer, table, given)


def _legacy_rms_prop(optimizer: Any, table: Any, given: Mapping[str, Any]) -> UpdateRule:
    values = ("lr_t", "rho", "momentum", "epsilon")
    if not optimizer._momentum:
        without = ("lr_t", "rho", "epsilon")
        if optimizer.centered:
            return _legacy("KerasCenteredRMSProp", ("rms", "mg"), without)(optimizer, table, given)
        return _legacy("KerasRMSProp", ("rms",), without)(optimizer, table, given)
    if optimizer.centered:
        return _legacy("CenteredRMSProp", ("mg", "rms", "momentum"), values)(
            optimizer, table, given
        )
    return _legacy("RMSProp", ("rms", "momentum"), values)(optimizer, table, given)


def _legacy_ftrl(optimizer: Any, table: Any, given: Mapping[str, Any]) -> UpdateRule:
    l2 = given["l2_regularization_strength"] + given.get("beta", 0.0) / (2.0 * given["lr_t"])
    values = [given["lr_t"], given["l1_regularization_strength"], l2]
    values += [given["l2_shrinkage_regularization_strength"], given["learning_rate_power"]]
    slots = _slots(optimizer, table, "accumulator", "linear")
    return UpdateRule("Ftrl", slots, values, [], optimizer._use_locking)


_LEGACY_RULES: Dict[str, _Rule] = {
    "SGD": _legacy_descent,
    "Adagrad": _legacy("Adagrad", ("accumulator",), ("lr_t", "epsilon"), ["update_slots"]),
    "Adam": _legacy_adam,
    "Adamax": _legacy(
        "Adamax", ("m", "v"), ("lr_t", "beta_1_t", "beta_2_t", "epsilon", "beta_1_power")
    ),
    "RMSprop": _legacy_rms_prop,
    "Adadelta": _legacy("Adadelta", ("accum_grad", "accum_var"), ("lr_t", "rho", "epsilon")),
    "Ftrl": _legacy_ftrl,
}


def _listed(optimizer: Any, table: Any, *lists: str) -> Sequence[Any]:
    at = optimizer._index_dict[optimizer._var_key(table)]
    return [getattr(optimizer, name)[at] for name in lists]


def _power(beta: float, optimizer: Any) -> tf.Tensor:
    return tf.pow(tf.cast(beta, tf.float32), tf.cast(optimizer.iterations + 1, tf.float32))


def _keras_descent(optimizer: Any, table: Any, _: Any) -> UpdateRule:
    slots = _listed(optimizer, table, "momentums")
    flags = ["use_nesterov"] if optimizer.nesterov else []
    values = [optimizer.learning_rate, optimizer.momentum]
    return UpdateRule("KerasMomentum", slots, values, flags)


def _keras_adagrad(optimizer: Any, table: Any, _: Any) -> UpdateRule:
    values = [optimizer.learning_rate, optimizer.epsilon]
    return UpdateRule("Adagrad", _listed(optimizer, table, "_accumulators"), values)


def _keras_adam(optimizer: Any, table: Any, _: Any) -> UpdateRule:
    lists = ["_momentums", "_velocities"]
    values = [optimizer.learning_rate, optimizer.beta_1, optimizer.beta_2, optimizer.epsilon]
    values += [_power(beta, optimizer) for beta in (optimizer.beta_1, optimizer.beta_2)]
    decay = optimizer.weight_decay
    if optimizer.amsgrad:
        if decay:
            raise ValueError("AMSGrad with weight_decay cannot update {!r}".format(table.name))
        slots = _listed(optimizer, table, *lists, "_velocity_hats")
        return UpdateRule("AMSGrad", slots, values)
    slots = _listed(optimizer, table, *lists)
    if not decay:
        return UpdateRule("Adam", slots, values)
    lost = tf.cast(decay, tf.float32) * tf.cast(optimizer.learning_rate, tf.float32)
    return UpdateRule("LazyAdamW", slots, [*values, lost], ["decays_first"])


def _keras_adamax(optimizer: Any, table: Any, _: Any) -> UpdateRule:
    values = [optimizer.learning_rate, optimizer.beta_1, optimizer.beta_2, optimizer.epsilon]
    values.append(_power(optimizer.beta_1, optimizer))
    return UpdateRule("Adamax", _listed(optimizer, table, "_m", "_u"), values)


def _keras_rms_prop(optimizer: Any, table: Any, _: Any) -> UpdateRule:
    values = [optimizer.learning_rate, optimizer.rho, optimizer.momentum, optimizer.epsilon]
    lists = ["_average_gradients"] if optimizer.centered else []
    slots = list(_listed(optimizer, table, *lists, "_velocities"))
    if optimizer.momentum > 0:
        slots += _listed(optimizer, table, "_momentums")
    else:  # the formula's moment is then the step alone
        slots.append(table.add_slot("{}/momentum".format(optimizer.name)))
    return UpdateRule("CenteredRMSProp" if optimizer.centered else "RMSProp", slots, values)


def _keras_adadelta(optimizer: Any, table: Any, _: Any) -> UpdateRule:
    slots = _listed(optimizer, table, "_accumulated_grads", "_accumulated_delta_vars")
    values = [optimizer.learning_rate, optimizer.rho, optimizer.epsilon]
    return UpdateRule("Adadelta", slots, values)


def _keras_ftrl(optimizer: Any, table: Any, _: Any) -> UpdateRule:
    rate = tf.cast(optimizer.learning_rate, tf.float32)
    l2 = optimizer.l2_regularization_strength + optimizer.beta / (2.0 * rate)
    values = [rate, optimizer.l1_regularization_strength, l2]
    values += [optimizer.l2_shrinkage_regularization_strength, optimizer.learning_rate_power]
    return UpdateRule("Ftrl", _listed(optimizer, table, "_accumulators", "_linears"), values)


_KERAS_RULES: Dict[str, _Rule] = {
    "SGD": _keras_descent,
    "Adagrad": _keras_adagrad,
    "Adam": _keras_adam,
    "AdamW": _keras_adam,
    "Adamax": _keras_adamax,
    "RMSprop": _keras_rms_prop,
    "Adadelta": _keras_adadelta,
    "Ftrl": _keras_ftrl,
}
_RULES = {TRAIN: _TRAIN_RULES, LEGACY_KERAS: _LEGACY_RULES}
