"""SavedModels with whole tables, written by all ranks together.

Each rank writes its own parts to a checkpoint, and rank 0 joins the checkpoints' indices.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, Sequence

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.array_steps import ArraySteps
from graph_opt.compat.callables import raw_session
from graph_opt.compat.variables import imported_variable
from graph_opt.export.joined_tables import VariablePart, joined_tables
from graph_opt.export.users_graph import export_users_graph, users_graph_def
from graph_opt.sharding.agreement import Agreement
from graph_opt.sharding.transport import Transport
from graph_opt.table_files.checkpoint_slices import (
    file_steps,
    merge_parts,
    whole_tensor,
    write_slices,
)


def export_saved_model(
    session: Any,
    export_dir: str,
    inputs: Mapping[str, tf.Tensor],
    outputs: Mapping[str, tf.Tensor],
    transport: Transport,
    tags: Sequence[str] = (tf.saved_model.SERVING,),
) -> None:
    """Writes a SavedModel that serves whole tables with TensorFlow's own ops. All ranks call it.

    Each rank writes its own rows, so that no rank needs room for a whole table. Tables that are
    divided by rows are the parts of a partitioned lookup in the SavedModel.

    Args:
      session: Holds the variables; its graph may be finalized.
      export_dir: A folder that does not exist yet, on a file system that all ranks see.
      inputs: The tensors that are fed, by the names that clients use.
      outputs: The tensors that are returned.
      transport: How to reach the other ranks.
      tags: Of the SavedModel.

    Raises:
      ValueError: The outputs need a collective of the script's own, an op that only graph_opt has,
        or a table whose rows come and go.
      FileExistsError: The folder exists.
      RuntimeError: Another rank failed; names it and its error.

    Example:
      >>> export_saved_model(session, "export/1", {"ids": ids}, {"scores": scores}, transport)
    """
    raw = raw_session(session)
    folder = os.path.normpath(export_dir)
    parts_folder = folder + ".parts"
    agreement = Agreement(transport, ArraySteps(raw))
    steps: List[Any] = []
    with agreement.noting():
        if tf.gfile.Exists(folder):
            raise FileExistsError("the folder '{}' exists: export to another one".format(folder))
        steps.append(_Export(raw, inputs, outputs, transport.rank))
        steps[0].write_own_rows(parts_folder)
    agreement.agree()
    with agreement.noting():
        if transport.rank == 0:
            prefixes = [
                _prefix(parts_folder, rank)
                for rank in range(transport.size)
                if tf.gfile.Exists(_prefix(parts_folder, rank) + ".index")
            ]
            steps[0].write_model(parts_folder, prefixes, list(tags))
            tf.gfile.MakeDirs(os.path.dirname(folder) or ".")
            tf.gfile.Rename(os.path.join(parts_folder, "model"), folder)
            tf.gfile.DeleteRecursively(parts_folder)
    agreement.agree()


class _Export:
    """What one rank exports."""

    def __init__(
        self,
        session: Any,
        inputs: Mapping[str, tf.Tensor],
        outputs: Mapping[str, tf.Tensor],
        rank: int,
    ) -> None:
        graph = session.graph
        self._session = session
        self._rank = rank
        self._inputs, self._outputs = dict(inputs), dict(outputs)
        self._initializers = [
            one.name for one in graph.get_collection(tf.GraphKeys.TABLE_INITIALIZERS)
        ]
        self._assets = [one.name for one in graph.get_collection(tf.GraphKeys.ASSET_FILEPATHS)]
        tensors = [*self._inputs.values(), *self._outputs.values()]
        names = [tensor.op.name for tensor in tensors]
        names += [name.split(":")[0] for name in self._assets]
        names += self._initializers
        graph_def, self._parts = joined_tables(users_graph_def(graph)[0], names)
        self._graph = tf.Graph()
        with self._graph.as_default():
            tf.import_graph_def(graph_def, name="")
        export_users_graph(self._graph)
        left = users_graph_def(self._graph)[1]
        if left:
            raise ValueError(left[0])

    def write_own_rows(self, folder: str) -> None:
        """Writes the values of the variables that this rank has."""
        variables = _variables_of(self._session.graph)
        own = [part for part in self._parts if part.rank == self._rank]
        missing = [part.source for part in own if part.source not in variables]
        if missing:
            raise ValueError(
                "the outputs read variable '{}', which is in none of the collections of "
                "variables".format(missing[0])
            )
        if own:
            values = self._session.run([variables[part.source] for part in own])
            tf.gfile.MakeDirs(folder)
            slices = [whole_tensor(one.name, np.asarray(of)) for one, of in zip(own, values)]
            with file_steps() as steps:
                write_slices(steps, _prefix(folder, self._rank), slices)

    def write_model(self, folder: str, prefixes: Sequence[str], tags: List[str]) -> None:
        """Writes the SavedModel around what all ranks have written."""
        with self._graph.as_default(), tf.Session(graph=self._graph) as session:
            variables = [_imported(part) for part in self._parts]
            builder = tf.saved_model.Builder(os.path.join(folder, "model"))
            signature = tf.saved_model.predict_signature_def(
                {name: self._here(tensor) for name, tensor in self._inputs.items()},
                {name: self._here(tensor) for name, tensor in self._outputs.items()},
            )
            key = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
            initializers = [self._graph.get_operation_by_name(n) for n in self._initializers]
            builder.add_meta_graph_and_variables(
                session,
                tags,
                signature_def_map={key: signature},
                assets_collection=[self._graph.get_tensor_by_name(name) for name in self._assets],
                main_op=tf.group(*initializers) if initializers else None,
                saver=_WrittenByRanks(variables, prefixes) if variables else None,
                clear_devices=True,
            )
            builder.save()

    def _here(self, tensor: tf.Tensor) -> tf.Tensor:
        return self._graph.get_tensor_by_name(tensor.name)


class _WrittenByRanks(tf.train.Saver):
    """A saver that joins the files which ranks have written."""

    def __init__(self, variables: Sequence[Any], prefixes: Sequence[str]) -> None:
        super().__init__(list(variables))
        self._prefixes = list(prefixes)

    def save(self, sess: Any, save_path: str, *arguments: Any, **named: Any) -> str:
        """Moves the values to `save_path`."""
        with file_steps() as steps:
            merge_parts(self._prefixes, save_path, steps)
        return save_path


def _imported(part: VariablePart) -> Any:
    """The variable of nodes that were imported, in the current graph."""
    with tf.Graph().as_default():
        proto = part.make().to_proto()
    variable = imported_variable(proto)
    tf.add_to_collection(tf.GraphKeys.GLOBAL_VARIABLES, variable)
    return variable


def _prefix(folder: str, rank: int) -> str:
    return os.path.join(folder, "rank_{}".format(rank), "variables")


def _variables_of(graph: Any) -> Dict[str, Any]:
    keys = (tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.GLOBAL_VARIABLES)
    return {one.op.name: one for key in keys for one in graph.get_collection(key)}
