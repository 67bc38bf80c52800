"""Takes what was measured into docs/: `python -m tools.bench.publish [--measured FOLDER]`.

The JSON files of benchmarks that docs/benchmarks/ has are replaced by those just measured, where
there are any; then all that follows from them is written anew: the charts beside them, the tables
of the pages below, and the README's sentence on Adam.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path
from typing import Any, Callable, Dict, Match, Optional, Sequence, Tuple

from tools.bench import charts, gains_page, goals_page, group_lookup_page, staleness_page
from tools.bench.accuracy import page as accuracy_page
from tools.bench.adam import page as adam_page
from tools.bench.charts import Case, cases, figure_of, ratio_at_best
from tools.bench.collectives import page as collectives_page
from tools.bench.deeprec import page as deeprec_page
from tools.bench.dynamic_tables import page as dynamic_page
from tools.bench.pages import gain, head, row, words
from tools.bench.records import Outcome, read
from tools.bench.scaling import page as scaling_page
from tools.bench.server_scaling import page as server_scaling_page
from tools.bench.serving import page as serving_page
from tools.bench.training import cluster_page, cores_page, exact_page
from tools.bench.training.sessions import BOTH, STOCK

PAGES = tuple(
    Path("docs") / (name + ".md")
    for name in (
        *("benchmarks", "benchmarks-servers", "benchmarks-ranks", "benchmarks-tables"),
        *("benchmarks-deeprec", "benchmarks-serving", "staleness"),
        *("scaling", "scaling-servers", "scaling-cores"),
    )
)
CHOICE = Path("docs/choose-options.md")
README = Path("README.md")
PUBLISHED = Path("docs/benchmarks")
MEASURED = Path("build/bench")
_MARKED = re.compile(r"<!-- (\w+)\.json(?: (\w+))? -->\n.*?<!-- end -->", re.DOTALL)
_GAINS = re.compile(r"<!-- gains -->\n.*?<!-- end -->", re.DOTALL)
_HEAD = head(
    "model | its tables | TensorFlow alone | graph_opt | times as fast | the machine allows"
)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Publishes; returns the exit code."""
    parser = argparse.ArgumentParser(description="Take what was measured into docs/.")
    parser.add_argument("--measured", type=Path, default=MEASURED, help="folder of JSON files")
    measured = parser.parse_args(arguments).measured
    for path in sorted(PUBLISHED.glob("*.json")):
        if (measured / path.name).exists():
            shutil.copyfile(str(measured / path.name), str(path))
            print("==> {}".format(path))
        for written in charts.write(path.stem, read(path), PUBLISHED):
            print("==> {}".format(written))
    for page, written_anew in (
        *((page, with_tables) for page in PAGES),
        (CHOICE, with_gains),
        (README, with_sentences),
    ):
        page.write_text(written_anew(page.read_text("utf-8")), encoding="utf-8")
        print("==> {}".format(page))
    return 0


def with_tables(page: str) -> str:
    """The text of a page of docs/ with the tables that its JSON files say."""
    return _MARKED.sub(lambda found: _marked(found, _table(found[1], found[2])), page)


def with_sentences(page: str) -> str:
    """The text of the README with what adam.json says in a sentence."""
    return _MARKED.sub(lambda found: _marked(found, [_sentence(found[1])]), page)


def with_gains(page: str) -> str:
    """The text of docs/choose-options.md with the table of what options gained."""
    lines = [*gains_page.HEAD, *gains_page.rows(lambda bench: read(_published(bench)))]
    return _GAINS.sub(lambda _: "\n".join(["<!-- gains -->", *lines, "<!-- end -->"]), page)


def _published(bench: str) -> Path:
    return PUBLISHED / (bench + ".json")


def _marked(found: Match[str], lines: Sequence[str]) -> str:
    mark = found[0].partition("\n")[0]
    return "{}\n{}\n<!-- end -->".format(mark, "\n".join(lines))


def _table(bench: str, part: Optional[str]) -> Sequence[str]:
    head, rows = _TABLES[bench, part]
    path = _published(bench)
    lines = rows(read(path))
    if not lines:
        return ["Not measured since this was added: `make bench-{}` does.".format(bench)]
    return [*head, *lines, "", conditions(machine_in(path))]


def _sentence(bench: str) -> str:
    path = _published(bench)
    return adam_page.sentence(read(path), machine_in(path))


def machine_in(path: Path) -> Dict[str, Any]:
    """What a file's figures were measured on."""
    machine: Dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["machine"]
    return machine


def conditions(machine: Dict[str, Any]) -> str:
    """The same in words."""
    words = "Measured on {cores} cores ({cpu}, {memory_gib} GiB), TensorFlow {tensorflow}."
    return words.format(**machine)


def _rows(outcome: Outcome) -> Sequence[str]:
    lines = (_row(outcome, case) for case in cases(outcome))
    return [line for line in lines if line]


def _row(outcome: Outcome, case: Case) -> str:
    found = [
        figure_of(outcome, case, figure, mode)
        for figure, mode in (
            ("steps_per_s", STOCK),
            ("steps_per_s", BOTH),
            ("ratio_to_stock", BOTH),
        )
    ]
    best = ratio_at_best(outcome, case)
    if None in found or best is None:
        return ""
    stock, both, ratio = found
    rates = [words("{:.3g} steps/s", rate) for rate in (stock, both)]
    return row(case.model, case.tables, *rates, gain(ratio), "{:.1f}".format(best))


# By the benchmark and, where it has several, by the name of the table.
_TABLES: Dict[
    Tuple[str, Optional[str]], Tuple[Sequence[str], Callable[[Outcome], Sequence[str]]]
] = {
    ("train", None): (_HEAD, _rows),
    ("train", "cores"): (cores_page.HEAD, cores_page.rows),
    ("train", "goals"): (goals_page.HEAD, goals_page.training_rows),
    ("train", "servers"): (cluster_page.HEAD, cluster_page.rows),
    ("train", "sent"): (cluster_page.SENT_HEAD, cluster_page.sent_rows),
    ("train", "cluster_goals"): (goals_page.HEAD, goals_page.cluster_rows),
    ("train", "exact"): (exact_page.HEAD, exact_page.rows),
    ("train", "causes"): (exact_page.CAUSES_HEAD, exact_page.causes_rows),
    ("train", "exact_goals"): (goals_page.HEAD, goals_page.exact_rows),
    ("accuracy", None): (accuracy_page.HEAD, accuracy_page.rows),
    ("accuracy", "missed"): (accuracy_page.MISSED_HEAD, accuracy_page.missed_rows),
    ("staleness", None): (staleness_page.HEAD, staleness_page.rows),
    ("adam", None): (adam_page.HEAD, adam_page.rows),
    ("adam", "goals"): (goals_page.HEAD, goals_page.adam_rows),
    ("group_lookup", None): (group_lookup_page.HEAD, group_lookup_page.rows),
    ("dynamic", None): (dynamic_page.HEAD, dynamic_page.rows),
    ("dynamic", "work"): (dynamic_page.WORK_HEAD, dynamic_page.work_rows),
    ("deeprec", None): (deeprec_page.HEAD, deeprec_page.rows),
    ("collectives", None): (collectives_page.HEAD, collectives_page.rows),
    ("collectives", "alone"): (collectives_page.ALONE_HEAD, collectives_page.alone_rows),
    ("collectives", "goals"): (goals_page.HEAD, goals_page.ranks_rows),
    ("scaling", None): (scaling_page.HEAD, scaling_page.rows),
    ("scaling", "time"): (scaling_page.HEAD, scaling_page.time_rows),
    ("scaling", "uneven"): (scaling_page.HEAD, scaling_page.uneven_rows),
    ("scaling", "measured"): (scaling_page.MEASURED_HEAD, scaling_page.measured_rows),
    ("scaling", "messages"): (scaling_page.MESSAGES_HEAD, scaling_page.message_rows),
    ("serving", None): (serving_page.HEAD, serving_page.rows),
    ("serving", "frozen"): (serving_page.FROZEN_HEAD, serving_page.frozen_rows),
    ("serving", "memory"): (serving_page.MEMORY_HEAD, serving_page.memory_rows),
    ("server_scaling", None): (server_scaling_page.HEAD, server_scaling_page.rows),
    ("server_scaling", "busy"): (server_scaling_page.BUSY_HEAD, server_scaling_page.busy_rows),
}

if __name__ == "__main__":
    raise SystemExit(main())
