"""Checkpoints of sessions with sharded tables."""

from __future__ import annotations

import os
import shutil
import uuid
from typing import Any, List, Mapping, Tuple

from graph_opt.compat import tf
from graph_opt.compat.array_steps import ArraySteps
from graph_opt.dynamic.saving import is_sharded, rank_saveables
from graph_opt.dynamic.variable import DynamicTableSlot, DynamicTableVariable
from graph_opt.sharding.agreement import Agreement
from graph_opt.sharding.keyed_rows import keyed_rows
from graph_opt.sharding.ranks_together import NotedSlices, RanksTogether
from graph_opt.sharding.sharded_variable import ShardedVariable
from graph_opt.sharding.transport_in_use import transport_in_use
from graph_opt.sharding.whole_tables import (
    WholeTable,
    check_tables,
    clear_tables,
    read_tables,
    whole_table,
    write_tables,
)
from graph_opt.table_files.checkpoint_rows import CheckpointRows, tensorflow_errors
from graph_opt.table_files.checkpoint_slices import CheckpointParts, merge_parts


class CheckpointSaver(tf.train.Saver):
    """A `tf.train.Saver` for all ranks together: its checkpoints have whole tables and slots.

    They are the checkpoints that one process would write whose tables are not divided. So they can
    be restored on any number of ranks, or by a `tf.train.Saver` where graph_opt is not installed.

    All ranks must make one, over the same variables, and call `save` and `restore` together, with
    a folder that all of them see. Rank 0 writes; variables other than tables are saved as it has
    them, and restored on all ranks.

    Args:
      var_list: As for `tf.train.Saver`: variables, or a dict of them by name; all by default.
      **arguments: Others of `tf.train.Saver`, except `sharded` and `defer_build`.

    Raises:
      ValueError: There are no other variables than tables (such as the global step), or an
        argument is not supported.

    Example:
      >>> scaffold = tf.train.Scaffold(saver=sok.CheckpointSaver())
      >>> with tf.train.MonitoredTrainingSession(
      ...         checkpoint_dir="model", scaffold=scaffold, save_checkpoint_steps=1000) as session:
      ...     while not session.should_stop():
      ...         session.run(train)
    """

    def __init__(self, var_list: Any = None, **arguments: Any) -> None:
        for name in ("sharded", "defer_build"):
            if arguments.get(name):
                raise ValueError("sok.CheckpointSaver does not support {}".format(name))
        self._transport = transport_in_use()
        divided, others = _dynamic_apart(var_list)
        self._tables, others = _separated(others)
        self._shares = tf.train.Saver(rank_saveables(divided)) if divided else None
        if not others:
            raise ValueError(
                "sok.CheckpointSaver needs a variable other than tables: make a global step "
                "(tf.train.get_or_create_global_step)"
            )
        super().__init__(var_list=others, **arguments)

    def save(self, sess: Any, save_path: Any, *arguments: Any, **named: Any) -> Any:
        """Saves a checkpoint; see `tf.train.Saver.save`.

        Returns:
          Its path on rank 0, None elsewhere.

        Raises:
          RuntimeError: Another rank has failed.
        """
        steps = ArraySteps(sess)
        ranks = Agreement(self._transport, steps)
        path = os.fspath(save_path)
        folder = "{}_tables_{}".format(os.path.abspath(path), uuid.uuid4().hex[:12])
        if self._shares is not None:  # into which all ranks write
            folder = bytes(ranks.gather(folder.encode("utf-8"))[0]).decode("utf-8")
        saved = None
        try:
            with ranks.noting():
                if ranks.rank == 0:
                    os.makedirs(folder)
            ranks.agree()
            parts = CheckpointParts(folder, steps)
            writer = NotedSlices(ranks, parts if ranks.rank == 0 else None)
            write_tables(self._tables, RanksTogether(ranks, steps), writer)
            prefixes = parts.prefixes
            shares = [os.path.join(folder, "share-{}".format(rank)) for rank in range(ranks.size)]
            with ranks.noting():
                if self._shares is not None:
                    prefixes = [*prefixes, *shares]
                    definition = self._shares.saver_def
                    fed = {definition.filename_tensor_name: shares[ranks.rank]}
                    sess.run(definition.save_tensor_name, fed)
            ranks.agree()
            with ranks.noting():
                if ranks.rank == 0:
                    merging = _MergingSession(sess, self.saver_def, folder, prefixes, steps)
                    saved = super().save(merging, path, *arguments, **named)
            ranks.agree()
        finally:
            if ranks.rank == 0:
                shutil.rmtree(folder, ignore_errors=True)
        return saved

    def restore(self, sess: Any, save_path: Any) -> None:
        """Restores a checkpoint, each rank its own rows; see `tf.train.Saver.restore`.

        Raises:
          ValueError: There is no such checkpoint, or a table there has another shape.
          RuntimeError: Another rank has failed.
        """
        steps = ArraySteps(sess)
        ranks = Agreement(self._transport, steps)
        with ranks.noting():
            super().restore(sess, save_path)
            self._restore_tables(os.fspath(save_path), steps)
            if self._shares is not None:
                self._shares.restore(sess, save_path)
        ranks.agree()

    def _restore_tables(self, prefix: str, steps: ArraySteps) -> None:
        with tensorflow_errors():
            checkpoint = CheckpointRows(prefix)
        try:
            check_tables(self._tables, checkpoint)
        except tf.errors.InvalidArgumentError as error:
            raise ValueError(error.message) from error
        with tensorflow_errors():
            clear_tables(self._tables, steps)
            read_tables(self._tables, checkpoint, steps)


class _MergingSession(tf.Session):
    """What `tf.train.Saver` saves with: the file that it asks for gets the tables as well."""

    def __init__(
        self, session: Any, saver_def: Any, folder: str, prefixes: Any, steps: ArraySteps
    ) -> None:
        self._inner = session
        self._saver_def = saver_def
        self._folder = folder
        self._prefixes = list(prefixes)
        self._steps = steps

    def __del__(self) -> None:
        """There is nothing of its own to close."""

    @property
    def graph(self) -> Any:
        """The graph of the session."""
        return self._inner.graph

    def run(self, fetches: Any, feed_dict: Any = None, *_: Any, **__: Any) -> Any:
        """Saves; nothing else is asked for."""
        name = self._saver_def.filename_tensor_name
        others = os.path.join(self._folder, "others")
        self._inner.run(fetches, {name: others})
        merge_parts(self._prefixes + [others], feed_dict[name], self._steps)
        return feed_dict[name].encode("utf-8")


def _dynamic_apart(var_list: Any) -> Tuple[List[Any], Any]:
    """Tables whose rows come and go, and their slots; and all other variables."""
    if var_list is None:
        var_list = tf.global_variables() + tf.get_collection(tf.GraphKeys.SAVEABLE_OBJECTS)
    if isinstance(var_list, dict):
        others = {name: one for name, one in var_list.items() if not is_sharded(one)}
        return [one for one in var_list.values() if is_sharded(one)], others
    every = list(var_list)
    return [one for one in every if is_sharded(one)], [one for one in every if not is_sharded(one)]


def _separated(var_list: Any) -> Tuple[List[WholeTable], Any]:
    """Tables and their slots, and all other variables."""
    named: Mapping[str, Any]
    if isinstance(var_list, dict):
        named = var_list
    else:
        named = {one.name.split(":")[0]: one for one in var_list}
    for table in [one for one in named.values() if isinstance(one, ShardedVariable)]:
        table.own_slots({name: one for name, one in named.items() if _is_slot(one, table)})
    # Dynamic tables of one rank are saved as in any graph.
    tables = {
        name: whole_table(name, keyed_rows(one))
        for name, one in sorted(named.items())
        if hasattr(one, "keyed_rows")
        and not isinstance(one, (DynamicTableVariable, DynamicTableSlot))
    }
    others = {name: one for name, one in named.items() if name not in tables}
    return list(tables.values()), others if isinstance(var_list, dict) else list(others.values())


def _is_slot(variable: Any, table: ShardedVariable) -> bool:
    """Whether it is named as optimizers name slots: below the table, or in Keras the reverse."""
    name, of_table = variable.name.split(":")[0], table.name.split(":")[0]
    return name.startswith(of_table + "/") or name.endswith("/" + of_table)
