"""Lets Horovod's functions for scripts tell sharded tables from variables that all ranks share.

- `hvd.broadcast_variables`, and the hooks and callbacks that call it, would give all ranks the rows
  of rank 0: they leave tables out.
- `hvd.DistributedOptimizer` and `hvd.DistributedGradientTape` would add up gradients of different
  rows: those of tables are the sums over all ranks already, and are only divided for averages.

The conditionals that these put around messages are nodes, not functions, in graphs of sessions:
messages then have the same names on all ranks, whatever else each of them fetches.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Iterable, List

from graph_opt.compat.conditionals import branches_as_nodes
from graph_opt.reporting.stderr import say_for_all_ranks
from graph_opt.sharding.divided_gradients import divided_by

Shared = Callable[[Iterable[Any]], List[Any]]

_BROADCAST = "broadcast_variables"
# Makes what an optimizer or tape of Horovod calls: (gradients, variables, ...) -> reduced.
_REDUCE = "_make_allreduce_grads_fn"
_REPLACED = "_graph_opt_leaves_tables_alone"


def leave_tables_alone(horovod: Any, shared: Shared) -> None:
    """Changes these functions of a process, once.

    Args:
      horovod: The module `horovod.tensorflow`.
      shared: Returns, of some variables, those that all ranks share.
    """
    for module in (horovod, horovod.functions):
        _replace(module, _BROADCAST, lambda broadcast: _broadcasting(broadcast, shared))
    _replace(horovod, _REDUCE, lambda make: _reducing(make, horovod, shared))


def _replace(module: Any, name: str, changed: Callable[[Any], Any]) -> None:
    function = getattr(module, name, None)  # older releases of Horovod lack some
    if function is not None and not hasattr(function, _REPLACED):
        replacement = functools.wraps(function)(changed(function))
        setattr(replacement, _REPLACED, True)
        setattr(module, name, replacement)


def _broadcasting(broadcast: Any, shared: Shared) -> Any:
    def broadcast_shared(variables: Iterable[Any], *arguments: Any, **named: Any) -> Any:
        given = list(variables)
        chosen = shared(given)
        if len(chosen) < len(given):
            say_for_all_ranks(
                "hvd.broadcast_variables leaves out {} of {} variables: of sharded tables and "
                "their slots each rank has its own rows".format(
                    len(given) - len(chosen), len(given)
                )
            )
        return broadcast(chosen, *arguments, **named)

    return broadcast_shared


def _reducing(make: Any, horovod: Any, shared: Shared) -> Any:
    def make_reduce(*arguments: Any, **named: Any) -> Any:
        op = inspect.signature(make).bind(*arguments, **named).arguments["op"]
        reduce = _in_nodes(make(*arguments, **named))

        def reduce_shared(gradients: Any, variables: Any = None, *rest: Any, **named: Any) -> Any:
            if variables is None:
                return reduce(gradients, *rest, **named)
            is_shared = {id(one) for one in shared(variables)}
            places = [place for place, one in enumerate(variables) if id(one) in is_shared]
            if len(places) == len(variables):
                return reduce(gradients, variables, *rest, **named)
            if op not in (horovod.Average, horovod.Sum):
                raise ValueError(
                    "gradients of sharded tables are summed over all ranks: choose op=hvd.Average "
                    "or hvd.Sum, or train the tables with another optimizer"
                )
            divisor = horovod.size() if op == horovod.Average else 1
            result = list(gradients)
            if divisor != 1:
                result = [divided_by(gradient, divisor) for gradient in gradients]
            if places:
                chosen = [[given[place] for place in places] for given in (gradients, variables)]
                for place, reduced in zip(places, reduce(*chosen, *rest, **named)):
                    result[place] = reduced
            return result

        return reduce_shared

    return make_reduce


def _in_nodes(reduce: Any) -> Any:
    def reduce_in_nodes(*arguments: Any, **named: Any) -> Any:
        with branches_as_nodes():
            return reduce(*arguments, **named)

    return reduce_in_nodes
