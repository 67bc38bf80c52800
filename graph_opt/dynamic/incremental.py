"""Incremental checkpoints: what has changed since the last full one.

    <dir>/model.ckpt-1000                                              full, by `tf.train.Saver`
    <dir>/.incremental_checkpoint/incremental_model.ckpt-1200          changes since step 1000

Of dynamic tables, an increment has the rows that were made or updated since the full checkpoint,
and the keys that lost theirs; of other variables, the values. So a full checkpoint and the last of
its increments are all that a restore needs. Each increment notes which checkpoint it belongs to.
"""

from __future__ import annotations

import os
import re
from typing import Any, Callable, Dict, List, Optional

from graph_opt.compat import tf
from graph_opt.compat.resource_variables import on_device_of
from graph_opt.compat.savers import given_variables, saveable_named
from graph_opt.dynamic.saving import saveables_of
from graph_opt.dynamic.variable import DynamicTableVariable
from graph_opt.ops import dynamic_checkpoint
from graph_opt.reporting.stderr import say

FOLDER = ".incremental_checkpoint"
NAME = "incremental_model.ckpt"
SAVER_DEFS = "incremental_saver_def"
_BASE = "graph_opt/incremental_base"


class IncrementalSaver:
    """Saves and restores increments beside the full checkpoints of a saver.

    From then on, the saver notes what it has saved, and what it restores is brought up to the last
    increment of that checkpoint.

    Args:
      saver: A `tf.train.Saver` of the default graph, which is not finalized.

    Example:
      >>> saver = tf.train.Saver()
      >>> incremental = graph_opt.train.IncrementalSaver(saver)
      >>> saver.save(session, "model/model.ckpt", global_step=1000)
      >>> incremental.save_in(session, "model", global_step=1200)
    """

    def __init__(self, saver: Any) -> None:
        self._full: Optional[str] = None
        variables = given_variables(saver)
        tables = _tables(variables)
        with tf.name_scope("incremental_saver"):
            self._begin = _for_all(tables, dynamic_checkpoint.begin_tracking)
            self._commit = _for_all(tables, dynamic_checkpoint.commit_tracking)
            base = tf.Variable("", name="base", collections=[], use_resource=True, trainable=False)
            self._base_name = tf.placeholder(tf.string, [], "base_name")
            self._note_base = base.assign(self._base_name).op
            self._increments = tf.train.Saver(
                _changes(variables, base),
                sharded=saver.saver_def.sharded,
                max_to_keep=saver.saver_def.max_to_keep,
                name="increment",
            )
        tf.add_to_collection(SAVER_DEFS, self.saver_def.SerializeToString())
        self._stock_save, self._stock_restore = saver.save, saver.restore
        saver.save, saver.restore = self._save_full, self._restore_full

    @property
    def saver_def(self) -> Any:
        """The nodes that save and restore increments, as in `tf.train.Saver`.

        A process that serves the exported graph runs them without graph_opt: its
        `tf.train.Saver(saver_def=...)` restores increments onto the full checkpoint. The graph's
        collection `incremental_saver_def` has it, serialized.
        """
        return self._increments.saver_def

    def incremental_save(self, session: Any, path: str, global_step: Any = None) -> str:
        """Writes what has changed since the last full checkpoint.

        Args:
          session: The session.
          path: Prefix of the files, which `-<step>` is added to.
          global_step: The step: a number, or a tensor.

        Returns:
          The prefix with the step.

        Raises:
          tf.errors.FailedPreconditionError: The saver has neither saved nor restored a checkpoint
            that these would be the changes of.
        """
        if self._full is None:
            raise tf.errors.FailedPreconditionError(
                None,
                None,
                "{!r} would have the changes since a checkpoint that there is none of: save one "
                "with the saver first".format(path),
            )
        tf.gfile.MakeDirs(os.path.dirname(path) or ".")
        session.run(self._note_base, {self._base_name: os.path.basename(self._full)})
        written: str = self._increments.save(
            session, path, global_step, write_meta_graph=False, strip_default_attrs=True
        )
        return written

    def has_changes_since(self, step: int) -> bool:
        """Whether a step is later than the last full checkpoint, if there is one."""
        return self._full is not None and step > _step(self._full)

    def save_in(self, session: Any, folder: str, global_step: Any) -> str:
        """Writes an increment where restores from checkpoints of a folder find it."""
        self._count_increments_of(os.path.join(folder, FOLDER))
        return self.incremental_save(session, os.path.join(folder, FOLDER, NAME), global_step)

    def _count_increments_of(self, folder: str) -> None:
        """Lets `max_to_keep` hold for what was written before this process began, too."""
        state = None if self._increments.last_checkpoints else tf.train.get_checkpoint_state(folder)
        if state is not None:
            self._increments.recover_last_checkpoints(state.all_model_checkpoint_paths)

    def incremental_restore(self, session: Any, full: str, increment: str) -> None:
        """Restores a full checkpoint, and the changes of an increment.

        Args:
          session: The session.
          full: What the saver's `save` has returned.
          increment: What `incremental_save` has returned.

        Raises:
          ValueError: The increment has the changes since another checkpoint.
        """
        base = _base_of(increment)
        if base != os.path.basename(full):
            raise ValueError(
                "{} has the changes since {}, not since {}".format(increment, base, full)
            )
        self._restore_base(session, full)
        self._increments.restore(session, increment)

    def recover_incr_checkpoints(self, session: Any, folder: str) -> None:
        """Restores the last full checkpoint of a folder, and the changes since then.

        Raises:
          ValueError: The folder has no checkpoint.
        """
        full = tf.train.latest_checkpoint(folder)
        if full is None:
            raise ValueError("{} has no checkpoint".format(folder))
        self._restore_full(session, full)

    def _save_full(self, session: Any, *arguments: Any, **named: Any) -> Any:
        session.run(self._begin)
        written = self._stock_save(session, *arguments, **named)
        if written:
            session.run(self._commit)
            self._full = written
        return written

    def _restore_full(self, session: Any, save_path: Any) -> None:
        self._restore_base(session, save_path)
        increment = newest_increment(save_path)
        if increment is not None:
            say("restoring the changes since {} from {}".format(save_path, increment))
            self._increments.restore(session, increment)

    def _restore_base(self, session: Any, full: str) -> None:
        self._stock_restore(session, full)
        session.run(self._begin)
        session.run(self._commit)
        self._full = full


def incremental_saver_of(saver: Any) -> IncrementalSaver:
    """The incremental saver of a `tf.train.Saver`, made at the first call."""
    found = getattr(saver.save, "__self__", None)
    return found if isinstance(found, IncrementalSaver) else IncrementalSaver(saver)


def newest_increment(full: str) -> Optional[str]:
    """The last increment of a full checkpoint; None if there is none.

    Args:
      full: What the saver's `save` has returned.
    """
    folder = os.path.join(os.path.dirname(full), FOLDER)
    state = tf.train.get_checkpoint_state(folder)
    paths = [] if state is None else list(reversed(state.all_model_checkpoint_paths))
    for path in paths:
        if _step(path) > _step(full) and tf.gfile.Exists(path + ".index"):
            return path if _base_of(path) == os.path.basename(full) else None
    return None


def _base_of(increment: str) -> str:
    reader = tf.train.load_checkpoint(increment)
    if not reader.has_tensor(_BASE):
        raise ValueError("{} is no increment that graph_opt has written".format(increment))
    return tf.compat.as_str(reader.get_tensor(_BASE))


def _step(path: str) -> int:
    found = re.search(r"-(\d+)\Z", path)
    return int(found.group(1)) if found else -1


def _changes(variables: Any, base: Any) -> Any:
    """What an increment has in place of variables."""
    if isinstance(variables, dict):
        found: Dict[str, Any] = {
            name: saveables_of(one, name, changes=True) or one for name, one in variables.items()
        }
        return {**found, _BASE: base}
    listed: List[Any] = [saveable_named(base, _BASE)]
    for one in variables:
        listed.extend(saveables_of(one, None, changes=True) or [one])
    return listed


def _tables(variables: Any) -> List[DynamicTableVariable]:
    given = variables.values() if isinstance(variables, dict) else variables
    parts = [part for one in given for part in getattr(one, "parts", [])]
    return [part for part in parts if isinstance(part, DynamicTableVariable)]


def _for_all(tables: List[DynamicTableVariable], track: Callable[[Any], Any]) -> Any:
    operations = []
    for table in tables:
        with on_device_of(table.handle):
            operations.append(track(table.handle))
    return tf.group(*operations)
