"""Scripts as DeepRec's users write them: TensorFlow alone against graph_opt, in turns.

    round    stock  flags  ev    stock  flags  ev    ...

The scripts of the zoo, `tests/deeprec/scripts`, with models as large as the zoo's: `stock` is
TensorFlow alone with their flag `--tf`, `flags` graph_opt with DeepRec's flags, and `ev` with those
for its tables, too. `csv` decodes its lines in the graph and has no tables (`smart` has
`do_smart_stage`), `csv_lookups` has some (`async`, and `async_and_smart` with both). Each way is a
process that trains as many steps, and then evaluates rows that it was not trained on. Figures:

    steps_per_s       without the start; the floor has the CPU time of a step on all cores at once
    ratio_to_stock    of each round; ratio_to_async for `async_and_smart`
    decode_share      of a step of TensorFlow alone, where lines are decoded in the graph
    auc               of the evaluation
    lookups           of the model, of which `lookups_fused` became part of `fused_ops` larger ones,
                      and `lookups_ahead` run ahead of the step
    nodes_ahead       that a smart stage moved, besides lookups
"""

from __future__ import annotations

import contextlib
import functools
import json
import tempfile
from pathlib import Path
from typing import Dict, List, Mapping, NamedTuple, Sequence

from tools.bench.deeprec import data, modes, scripts
from tools.bench.deeprec.figures import CSV, CSV_LOOKUPS, Found, outcome_of
from tools.bench.deeprec.modes import Mode
from tools.bench.deeprec.training import REPOSITORY, Training, TrainingFailed
from tools.bench.process_outcome import nothing_of, with_figures
from tools.bench.records import Outcome
from tools.bench.turns import in_turns

_TABLES_OF_CSV = 8


class Effort(NamedTuple):
    """Sizes and lengths of a run.

    Attributes:
      models: Those of the zoo that are trained.
      constants: Values for constants of their scripts.
      continuous, categorical: Columns of their numbers and ids, for scripts that read `criteo`.
      rows: Of the data sets; a tenth as many are evaluated.
      batch: Rows of a step.
      before, timed: Steps of a turn.
      rounds: Turns of each, after one that does not count.
      csv: Flags of decode_csv.py that say how large it is.
      numbers: Columns of numbers that it decodes.
    """

    models: Sequence[str]
    constants: Mapping[str, str]
    continuous: int
    categorical: int
    rows: int
    batch: int
    before: int
    timed: int
    rounds: int
    csv: Sequence[str]
    numbers: int

    @property
    def steps(self) -> int:
        """Of all turns of one training."""
        return (self.rounds + 1) * (self.before + self.timed)


_LARGE = {"BUCKETS": "10000", "WIDTH": "16", "SCALE": "16"}
# Its one-hot columns make a batch as wide as all tables have rows.
_FEWER_BUCKETS = {"deepfm": "1000"}
_MODELS = ["dlrm", "wdl", "deepfm", "din", "dssm", "mmoe"]
FULL = Effort(_MODELS, _LARGE, 13, 26, 100000, 512, 10, 60, 4, ["--units", "256"], 80)
QUICK = Effort(["wdl"], {}, 4, 6, 400, 32, 2, 3, 1, ["--units", "4"], 6)


def run(quick: bool = False) -> Outcome:
    """Measures every script; `quick` tries one of the zoo and the one that decodes lines."""
    effort = QUICK if quick else FULL
    outcome = Outcome(())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_data(folder / "data", effort)
        for model in effort.models:
            outcome += _measured(model, _zoo(model, folder, effort), effort, folder)
        outcome += _measured(CSV, _csv(0, folder, effort), effort, folder)
        outcome += _measured(CSV_LOOKUPS, _csv(_TABLES_OF_CSV, folder, effort), effort, folder)
    return with_figures(outcome)


def _write_data(folder: Path, effort: Effort) -> None:
    for seed, (name, rows) in enumerate((("train", effort.rows), ("eval", effort.rows // 10))):
        file = name + ".csv"
        columns, numbers = effort.categorical, effort.continuous
        data.write_criteo(folder / scripts.CRITEO / file, rows, columns, numbers, seed)
        data.write_taobao(folder / scripts.TAOBAO / file, rows, seed)
        data.write_nested(folder / CSV / file, rows, _TABLES_OF_CSV, effort.numbers, seed)


Commands = Dict[str, List[str]]


def _zoo(model: str, folder: Path, effort: Effort) -> Commands:
    """How the interpreter runs a script of the zoo, by mode."""
    data_set = scripts.DATA_SETS[model]
    constants = effort.constants
    if constants and data_set == scripts.CRITEO:
        constants = dict(
            constants,
            CONTINUOUS=str(effort.continuous),
            CATEGORICAL=str(effort.categorical),
            BUCKETS=_FEWER_BUCKETS.get(model, constants["BUCKETS"]),
        )
    written = [
        write(model, folder, constants)
        for write in (scripts.write_stock_script, scripts.write_script)
    ]
    for script in written:
        scripts.let_take_turns(script)
    flags = [*_flags(folder / "data" / data_set, effort), "--parquet_dataset", "False"]
    return {
        name: mode.arguments(written[mode.graph_opt is not None], flags)
        for name, mode in modes.ZOO_MODES.items()
    }


def _csv(tables: int, folder: Path, effort: Effort) -> Commands:
    script = REPOSITORY / "tools/bench/deeprec/decode_csv.py"
    flags = _flags(folder / "data" / CSV, effort)
    flags += ["--ids", str(tables), "--numbers", str(effort.numbers), *effort.csv]
    of_script: Dict[str, Mode] = modes.CSV_LOOKUP_MODES if tables else modes.CSV_MODES
    return {name: mode.arguments(script, flags) for name, mode in of_script.items()}


def _flags(location: Path, effort: Effort) -> List[str]:
    return [
        *("--data_location", str(location), "--batch_size", str(effort.batch)),
        *("--steps", str(effort.steps), "--checkpoint", "trained"),
    ]


def _measured(script: str, commands: Commands, effort: Effort, folder: Path) -> Outcome:
    print("{}: {}".format(script, ", ".join(commands)), flush=True)
    params = {"batch": effort.batch, "steps": effort.steps}
    try:
        return outcome_of(script, params, _trained(script, commands, effort, folder))
    except TrainingFailed as error:
        return nothing_of((script, "", params), ["steps_per_s"], error)


def _trained(script: str, commands: Commands, effort: Effort, folder: Path) -> Found:
    with contextlib.ExitStack() as stack:
        trainings = {
            mode: stack.enter_context(
                Training("{} ({})".format(script, mode), arguments, folder / script / mode)
            )
            for mode, arguments in commands.items()
        }
        turns = in_turns(
            {
                mode: functools.partial(training.turn, effort.before, effort.timed)
                for mode, training in trainings.items()
            },
            effort.rounds,
            attempts=1,  # a script has as many steps as its rounds
        )
        said = {mode: training.finish() for mode, training in trainings.items()}
    areas = {mode: float(printed["AUC"]) for mode, printed in said.items() if "AUC" in printed}
    reports = {
        mode: json.loads(report.read_text("utf-8"))
        for mode, report in ((mode, folder / script / mode / modes.REPORT) for mode in commands)
        if report.exists()
    }
    return Found(turns, areas, reports)
