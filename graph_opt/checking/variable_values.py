"""Values of a session's variables: read, recorded, and given to the session of another run."""

from __future__ import annotations

import json
import os
from typing import Any, Collection, Dict, FrozenSet, Iterator, List, Mapping, Optional, Tuple

import numpy as np

from graph_opt.checking.records import VARIABLE_ELEMENTS, Value, digest_of, value_of
from graph_opt.compat import tf
from graph_opt.session.features.sharded_tables import sharded_values

_NAMES = "names.json"


def global_variables(graph: Any) -> List[Any]:
    """The variables that savers save, each once."""
    return list(dict.fromkeys(graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)))


def parts(graph: Any) -> Mapping[str, str]:
    """Variables of which each rank has a part, by the tensors with that part."""
    return sharded_values(graph)


def divided(graph: Any) -> FrozenSet[str]:
    """Names of these variables; all ranks must read the whole at once."""
    return frozenset(parts(graph).values())


def read(session: Any, variables: Collection[Any]) -> Iterator[Tuple[Any, np.ndarray]]:
    """Variables that have a value, and that value; without those sharded across ranks."""
    in_parts = divided(session.graph)
    for variable in variables:
        if variable.op.name in in_parts:
            continue
        try:
            yield variable, session.run(variable)
        except (tf.errors.FailedPreconditionError, tf.errors.NotFoundError):
            continue  # It was never initialized.


def has_any(session: Any) -> bool:
    """Whether any variable has a value."""
    return next(read(session, global_variables(session.graph)), None) is not None


def recorded(session: Any) -> Tuple[Value, ...]:
    """What is recorded of all variables; of large ones, some elements and a digest."""
    found = read(session, global_variables(session.graph))
    return tuple(value_of(variable.op.name, value, VARIABLE_ELEMENTS) for variable, value in found)


def values_by_name(session: Any, names: Collection[str]) -> Dict[str, np.ndarray]:
    """Values of the variables with these names."""
    wanted = [one for one in global_variables(session.graph) if one.op.name in names]
    return {variable.op.name: value for variable, value in read(session, wanted)}


def assign(session: Any, values: Dict[str, Any]) -> Tuple[str, ...]:
    """Gives variables these values where they have others; returns the names of those.

    A value is fed in the place of what the variable's initializer assigns, which adds nothing to a
    graph that may be finalized.
    """
    changed = []
    variables = [one for one in global_variables(session.graph) if one.op.name in values]
    in_parts = divided(session.graph)
    for variable in variables:
        if variable.op.name in in_parts:  # The session feeds each rank its own rows.
            _initialize(session, variable, values[variable.op.name])
    for variable, own in read(session, variables):
        value = values[variable.op.name]
        if digest_of(own) != digest_of(value):
            _initialize(session, variable, value)
            changed.append(variable.op.name)
    return tuple(changed)


def _initialize(session: Any, variable: Any, value: np.ndarray) -> None:
    session.run(variable.initializer, {variable.initializer.inputs[1]: value})


def save(folder: str, values: Dict[str, np.ndarray]) -> None:
    """Writes values to a new folder."""
    os.makedirs(folder)
    names = sorted(values)
    for number, name in enumerate(names):
        np.save(_path(folder, number), values[name], allow_pickle=False)
    with open(os.path.join(folder, _NAMES), "w", encoding="utf-8") as file:
        json.dump(names, file)


def saved(folder: str) -> Optional[Dict[str, np.ndarray]]:
    """The values in a folder, read when they are used; None if there is no such folder."""
    try:
        with open(os.path.join(folder, _NAMES), encoding="utf-8") as file:
            names = json.load(file)
    except FileNotFoundError:
        return None
    return {
        name: np.load(_path(folder, number), mmap_mode="r") for number, name in enumerate(names)
    }


def _path(folder: str, number: int) -> str:
    return os.path.join(folder, "{}.npy".format(number))
