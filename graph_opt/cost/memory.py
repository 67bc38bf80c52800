"""What variables take on each device: tables, their slots, and all else."""

from __future__ import annotations

from typing import Dict, List, Sequence, Set, Tuple

from graph_opt.cost.unknown import SizeUnknown
from graph_opt.cost.variable_size import variable_size
from graph_opt.graph.view import GraphView
from graph_opt.passes.transfers.training_ends import is_update
from graph_opt.reporting.cost import DeviceMemory
from graph_opt.rules.match.table import find_read, is_dynamic
from graph_opt.rules.op_names import VARIABLES


def memory_by_device(
    view: GraphView, tables: Set[str]
) -> Tuple[Tuple[DeviceMemory, ...], List[SizeUnknown]]:
    """What the variables of a graph take.

    Args:
      view: The graph.
      tables: Names of the variables that lookups read.

    Returns:
      The devices with variables, and the variables of unknown size.
    """
    slots = _slots(view, tables)
    found: Dict[str, List[float]] = {}
    unknown: List[SizeUnknown] = []
    for name in view.of_op(*sorted(VARIABLES)):
        place = 0 if name in tables else 1 if name in slots else 2
        sums = found.setdefault(view.device(name), [0.0, 0.0, 0.0])
        try:
            sums[place] += variable_bytes(view, name)
        except SizeUnknown as error:
            unknown.append(error)
    memory = (DeviceMemory(device, *sums) for device, sums in sorted(found.items()))
    return tuple(memory), unknown


def variable_bytes(view: GraphView, name: str) -> float:
    """Bytes of a variable; raises `SizeUnknown` if its shape is not known or it grows."""
    if is_dynamic(view, name):
        raise SizeUnknown(name, "a dynamic table has as many rows as there are keys", "")
    size = variable_size(view, name)
    if size is None or size.elements is None:
        raise SizeUnknown(name, "the shape of the variable is not in the graph", "")
    return float(size.elements * size.element)


def _slots(view: GraphView, tables: Set[str]) -> Set[str]:
    """Variables that are named after another one, or that updates take beside a table."""
    variables = view.of_op(*sorted(VARIABLES))
    names = set(variables)
    found = {name for name in variables if name.rpartition("/")[0] in names}
    for name in view.nodes:
        if is_update(view, name):
            found.update(_beside(view, name, tables))
    return found - tables


def _beside(view: GraphView, update: str, tables: Set[str]) -> Sequence[str]:
    reads = [find_read(view, tensor) for tensor in view.inputs(update)]
    written = [read.variable for read in reads if read is not None]
    if not any(name in tables for name in written):
        return ()
    sizes = {name: view.attribute(name, "shape") for name in written}
    first = sizes[written[0]]
    return [name for name in written[1:] if sizes[name] == first]
