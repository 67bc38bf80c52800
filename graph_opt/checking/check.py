"""Decides what runs are needed to tell whether a rewrite changes numbers, and which pass does.

stock ─ rewritten, nothing ahead ─┬─ equal, or within rounding ──► ahead, if exact: equal, too?
                                  │                                as configured: staleness
                                  └─ different ─ stock again ─┬─ differs: unrepeatable
                                                              └─ passes off, one by one
"""

from __future__ import annotations

import dataclasses
from typing import Callable, List, NamedTuple, Optional, Sequence, Tuple

from graph_opt.checking.comparison import Comparison, Difference, compare
from graph_opt.checking.records import LOOKUPS, WEIGHTS, Run
from graph_opt.checking.verdict import (
    DIFFERENT,
    EQUAL,
    ROUNDING,
    UNCHECKED,
    CheckResult,
    Staleness,
)
from graph_opt.reporting.tables import first_of

OFF = (
    "do_async_embedding=false", "do_group_embedding=false", "shard_tables=false",
    "do_smart_stage=false", "do_smart_stage_gpu=false", "micro_batch_num=0", "pipeline_dense=false",
    "shadow_steps=0",
)  # fmt: skip
"""Settings that turn every pass off."""
_WITHOUT_STALENESS = ("dense_staleness=0", "shadow_steps=0")
_MOST_VARIABLES = 3
_EXACT = "with lookups ahead of updates (exact: true), all {} values had the same bits"
_EXACT_BUT_ROUNDED = (
    "with lookups ahead of updates (exact: true), {} of {} values differed within rounding, as "
    "they may where three or more terms are added; the most {}"
)
_NOT_EXACT = (
    "certain: if each batch is looked up after the update of the step before it, all else the "
    "same, it equals stock"
)
_NOISE = (
    "whether lookups ahead of updates were exact is not known: two runs with none ahead differ, too"
)
_OUTLIVED = (
    "the variables on '{}' outlive a run, so that each run would go on from the last one: have the "
    "script start its servers itself, in its process or as processes that end with it"
)
_CUT_OFF = (
    "variables at the end were not compared: the script was ended by a signal or by os._exit, "
    "before they could be read"
)
_DIVIDED = "variables sharded across ranks were not compared at the end: {}"
_FAILED_STEP = (
    "training step {} raised {}: TensorFlow may have applied a part of it (Adam's decays), which "
    "rewritten steps do not, so that runs were compared up to step {}"
)


class Wanted(NamedTuple):
    """A run that is needed.

    Attributes:
      title: What it is called.
      settings: Options, as `--set` takes them, over those of the config that is checked.
      in_lock_step: Whether no lookup runs ahead of the updates before it.
      is_first: Whether it starts from its own initial values, and keeps them for the others.
      most_updates: After how many steps that train it may end; 0 for never.
    """

    title: str
    settings: Tuple[str, ...]
    in_lock_step: bool = True
    is_first: bool = False
    most_updates: int = 0


class _Variant(NamedTuple):
    """What is left when a pass, or a part of it, is off."""

    name: str
    switch: str
    settings: Tuple[str, ...]


_VARIANTS = (
    _Variant("async_embedding", "do_async_embedding", ("do_async_embedding=false",)),
    _Variant("fuse_group_embedding", "do_group_embedding", ("do_group_embedding=false",)),
    _Variant("shard_tables", "shard_tables", ("shard_tables=false",)),
    _Variant("smart_stage", "do_smart_stage", ("do_smart_stage=false", "do_smart_stage_gpu=false")),
    _Variant("micro_batches", "micro_batch_num", ("micro_batch_num=0",)),
    _Variant("pipeline_dense", "pipeline_dense", ("pipeline_dense=false",)),
)
_PARTS = (
    _Variant(
        "fuse_group_embedding, its updates of tables",
        "do_group_embedding",
        ("do_group_embedding=true", "fuse_update=false"),
    ),
)

RunWanted = Callable[[Wanted], Run]


class CannotCheck(Exception):
    """Runs cannot be made or compared; the text says why."""


def check(run: RunWanted, most_updates: int = 0, may_be_ahead: bool = True) -> CheckResult:
    """Makes the runs that are needed, and compares them.

    Args:
      run: Makes a run.
      most_updates: Compare so many steps that train; 0 for all.
      may_be_ahead: Whether to run as configured, too, if lookups run ahead of updates.
    """
    try:
        return _Check(run, most_updates, may_be_ahead).result()
    except CannotCheck as error:
        return CheckResult(UNCHECKED, str(error))


class _Check:
    def __init__(self, run: RunWanted, most_updates: int, may_be_ahead: bool) -> None:
        self._run = run
        self._most = most_updates
        self._may_be_ahead = may_be_ahead

    def result(self) -> CheckResult:
        stock = self._run(Wanted("stock", OFF, is_first=True, most_updates=self._most))
        if not stock.steps:
            cause = ": it " + stock.failure if stock.failure else ""
            raise CannotCheck("no step of a session was run{}".format(cause))
        rewritten = self._run(Wanted("rewritten", _WITHOUT_STALENESS, most_updates=self._most))
        if rewritten.failure and not rewritten.steps:
            raise CannotCheck("rewritten, no step was run: it " + rewritten.failure)
        for run in (stock, rewritten):
            if run.facts.outlived:
                raise CannotCheck(_OUTLIVED.format(run.facts.outlived))
        compared = _compared(stock, rewritten)
        notes = self._notes(stock, rewritten)
        until = self._before_failed_step(stock, rewritten, compared.first)
        if until is not None:
            compared, text = until
            notes.append(text)
        result = dataclasses.replace(
            CheckResult(EQUAL).of(compared),
            updates=stock.updates,
            unrepeatable=stock.facts.unrepeatable,
            sessions=rewritten.facts.sessions,
            notes=tuple(notes),
        )
        if compared.first is not None:
            return self._explained(result, stock, rewritten, compared.first)
        result = dataclasses.replace(result, verdict=EQUAL if compared.is_bit_equal else ROUNDING)
        if rewritten.facts.exact and LOOKUPS in rewritten.facts.ahead:
            result = self._exact(result, rewritten)
        if result.verdict == DIFFERENT:
            return result
        return dataclasses.replace(result, staleness=self._staleness(stock, rewritten))

    def _exact(self, result: CheckResult, rewritten: Run) -> CheckResult:
        """The same, once it is known whether lookups that run ahead change any number."""
        wanted = Wanted(
            "rewritten, ahead", _WITHOUT_STALENESS, in_lock_step=False, most_updates=self._most
        )
        compared = _compared(rewritten, self._run(wanted))
        notes = result.notes
        if compared.is_bit_equal:
            return dataclasses.replace(result, notes=(*notes, _EXACT.format(compared.values)))
        if compared.is_order_of_sums:
            if result.verdict == EQUAL:
                result = dataclasses.replace(result.of(compared), verdict=ROUNDING)
            text = _EXACT_BUT_ROUNDED.format(
                compared.bits_differ, compared.values, compared.largest
            )
            return dataclasses.replace(result, notes=(*notes, text))
        again = Wanted("rewritten, again", _WITHOUT_STALENESS, most_updates=self._most)
        if not _compared(rewritten, self._run(again)).is_order_of_sums:
            return dataclasses.replace(result, notes=(*notes, _NOISE))
        return dataclasses.replace(
            result,
            verdict=DIFFERENT,
            first=compared.first or compared.earliest,
            variables=tuple(compared.variables),
            culprit="async_embedding, its exact rows",
            certainty=_NOT_EXACT,
        )

    def _before_failed_step(
        self, stock: Run, rewritten: Run, first: Optional[Difference]
    ) -> Optional[Tuple[Comparison, str]]:
        """A comparison up to the first step that failed, if nothing differs until then."""
        failed = next((step for step in stock.steps if step.trains and step.raised), None)
        if first is None or failed is None or failed.updates < 2:
            return None
        if rewritten.failure and not stock.failure:
            return None
        if first.step and first.updates <= failed.updates:
            return None
        limit = failed.updates - 1
        until = self._run(Wanted("stock, until it fails", OFF, most_updates=limit))
        other = Wanted("rewritten, until it fails", _WITHOUT_STALENESS, most_updates=limit)
        compared = _compared(until, self._run(other))
        if compared.first is not None:
            return None
        return compared, _FAILED_STEP.format(failed.updates, failed.raised, limit)

    def _notes(self, stock: Run, rewritten: Run) -> List[str]:
        notes = []
        if not rewritten.facts.asked:
            notes.append("the config asks for nothing, so both runs are stock")
        if rewritten.facts.copied:
            names = rewritten.facts.copied
            text = "initial values that differed were taken from the stock run: {}"
            notes.append(text.format(first_of(names, _MOST_VARIABLES)))
        if LOOKUPS in rewritten.facts.ahead:
            notes.append("each batch was looked up after the update of the step before it")
        if WEIGHTS in rewritten.facts.ahead:
            notes.append("weights missed no update (dense_staleness: 0)")
        if self._most and not stock.facts.reached_limit:
            text = "the script trained {} steps, fewer than the {} of --steps"
            notes.append(text.format(stock.updates, self._most))
        if rewritten.facts.divided:
            notes.append(_DIVIDED.format(first_of(rewritten.facts.divided, _MOST_VARIABLES)))
        if stock.facts.cut_off or rewritten.facts.cut_off:
            notes.append(_CUT_OFF)
        if not stock.updates:
            notes.append("no step trained, so that there was no update to compare")
        if stock.failure:
            notes.append("the script itself " + stock.failure)
        return notes

    def _staleness(self, stock: Run, rewritten: Run) -> Optional[Staleness]:
        free = set(rewritten.facts.ahead) - ({LOOKUPS} if rewritten.facts.exact else set())
        if not (self._may_be_ahead and free and stock.updates):
            return None
        ahead = self._run(
            Wanted(
                "as configured", ("shadow_steps=0",), in_lock_step=False, most_updates=self._most
            )
        )
        missed = compare(rewritten, ahead)
        failure = "it " + ahead.failure if ahead.failure and not stock.failure else ""
        scalars = compare(stock, ahead).scalars
        return Staleness(scalars, missed.bits_differ, missed.first is None, failure)

    def _explained(
        self, result: CheckResult, stock: Run, rewritten: Run, first: Difference
    ) -> CheckResult:
        again = self._run(Wanted("stock, again", OFF, most_updates=self._most))
        noise = _compared(stock, again)
        if noise.first is not None or noise.fed:
            reason = _unrepeatable_reason(noise, result.unrepeatable)
            return dataclasses.replace(result, verdict=UNCHECKED, reason=reason)
        limit = 0 if not first.step or rewritten.failure else first.updates
        culprit, certainty = self._culprit(stock, rewritten.facts.asked, limit)
        return dataclasses.replace(
            result,
            verdict=DIFFERENT,
            culprit=culprit,
            certainty=certainty,
            before=self._before(first) if limit > 1 else "",
        )

    def _culprit(self, stock: Run, asked: Sequence[str], limit: int) -> Tuple[str, str]:
        on = [variant for variant in _VARIANTS if variant.switch in asked]
        found = [on[0].name] if len(on) == 1 else []
        why = "the only pass that is on"
        if not found:
            found = [one.name for one in on if self._is_cured(stock, one, limit)]
            why = "certain: without it, all else the same, the run equals stock"
        if not found:
            names = ", ".join(one.name for one in on)
            return "", "the difference stays with any one of {} off".format(names or "no pass")
        parts = [one for one in _PARTS if one.name.startswith(found[0] + ",")]
        refined = [one.name for one in parts if self._is_cured(stock, one, limit)]
        if len(found) > 1:
            why = "certain: without any one of them, all else the same, the run equals stock"
        return " and ".join([*refined, *found[bool(refined) :]]), why

    def _is_cured(self, stock: Run, variant: _Variant, limit: int) -> bool:
        settings = (*_WITHOUT_STALENESS, *variant.settings)
        run = self._run(Wanted("without " + variant.name, settings, most_updates=limit))
        return _compared(stock, run).first is None

    def _before(self, first: Difference) -> str:
        """Which variables differed before the first step that differs."""
        limit = first.updates - 1
        stock = self._run(Wanted("stock, until then", OFF, most_updates=limit))
        other = self._run(Wanted("rewritten, until then", _WITHOUT_STALENESS, most_updates=limit))
        compared = compare(stock, other)
        if compared.variables:
            return "; ".join(map(str, compared.variables[:_MOST_VARIABLES]))
        if compared.bits_differ:
            return "variables were equal within rounding"
        return "all variables were equal bit for bit"


def _compared(stock: Run, other: Run) -> Comparison:
    compared = compare(stock, other)
    if compared.first is None and other.failure and not stock.failure:
        what = "the run {}, which stock does not".format(other.failure)
        compared.first = Difference(what, "", float("inf"))
    return compared


def _unrepeatable_reason(noise: Comparison, named: Sequence[str]) -> str:
    text = "two stock runs differ as well: "
    text += "fed with other values, {}".format(noise.fed) if noise.fed else str(noise.first)
    if noise.fed:
        return text + "; seed the script's own random numbers"
    return text + ("; it is not repeatable, see below" if named else "")
