"""The repository's own rules, each of which must also find a planted fault."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Callable, Dict, List

import pytest

from graph_opt.reporting.remedies import remedies
from tests import repository_checks as checks
from tests.conftest import MadeOnce
from tests.import_cycles import import_cycles, imports_that_run
from tests.repository_faults import (
    REPOSITORY,
    Check,
    Findings,
    every_python_file,
    files_under,
    findings,
    module_name,
)
from tests.text_checks import unformatted_texts

MOST_LINES = 400
Faults = Callable[[Check], List[str]]


@pytest.fixture(scope="module")
def found(made_once: MadeOnce) -> Findings:
    """What one look at all sources finds."""

    def make(folder: Path) -> None:
        (folder / "findings.json").write_text(json.dumps(findings()), encoding="utf-8")

    return Findings(*json.loads((made_once("findings", make) / "findings.json").read_text("utf-8")))


@pytest.fixture(scope="module")
def faults(found: Findings) -> Faults:
    """A function that lists what a check finds: `FILE:LINE: fault`."""
    return lambda check: list(found.faults[check.__name__])


def test_every_room_is_in_the_table_of_imports() -> None:
    rooms = {module_name(path).split(".")[1] for path in files_under("graph_opt")}
    assert rooms - set(checks.MAY_IMPORT) == {"__init__"}


def test_the_docs_show_the_table_of_imports() -> None:
    page = (REPOSITORY / "docs/architecture-rooms.md").read_text("utf-8")
    documented = checks.documented_imports(page)
    documented.pop("__init__")  # all below
    assert documented.pop("compat") == set()
    allowed = {room: set(rooms) for room, rooms in checks.MAY_IMPORT.items() if room != "compat"}
    assert documented == allowed


def test_imports_between_rooms_point_downward(faults: Faults) -> None:
    assert faults(checks.upward_imports) == []


@pytest.mark.parametrize(
    "source, module",
    [
        ("import graph_opt.session.live", "graph_opt.rules.sparse"),
        ("from graph_opt import passes", "graph_opt.runtime.runner"),
        ("from ..session import live", "graph_opt.passes.optimize"),
        ("def late():\n    from graph_opt.config import options", "graph_opt.compat.sessions"),
        ("from graph_opt.ops import tensor_buffer", "graph_opt.passes.optimize"),
        ("import graph_opt", "graph_opt.cli.run"),
    ],
)
def test_an_upward_import_is_found(source: str, module: str) -> None:
    assert len(checks.upward_imports(source, module)) == 1


@pytest.mark.parametrize(
    "source, module",
    [
        ("from graph_opt.compat import tf", "graph_opt.graph.view"),
        ("from graph_opt.ops import stage_nodes", "graph_opt.passes.optimize"),
        ("from graph_opt.ops.stage_spec import StageSpec", "graph_opt.passes.optimize"),
        ("from .refusal import Refusal", "graph_opt.graph.view"),
        ("import networkx", "graph_opt.graph.view"),
    ],
)
def test_a_downward_import_is_allowed(source: str, module: str) -> None:
    assert checks.upward_imports(source, module) == []


def test_no_modules_import_each_other(found: Findings) -> None:
    assert len(found.imports) == len(files_under("graph_opt"))
    assert import_cycles(found.imports) == []


def test_modules_that_import_each_other_are_found() -> None:
    sources = {
        "room.__init__": "from room.top import run",
        "room.top": "from room import middle, bottom",
        "room.types": "if TYPE_CHECKING:\n    from room import types_too",
        "room.types_too": "import room.types",
        "room.middle": "from room.bottom import read",
        "room.bottom": "def read():\n    from .middle import late",
    }
    imports = {module: imports_that_run(source, module) for module, source in sources.items()}
    assert import_cycles(imports) == [["room.bottom", "room.middle"]]


def test_examples_and_tools_use_public_names_only(faults: Faults) -> None:
    assert faults(checks.private_imports) == []


@pytest.mark.parametrize("source", ["import graph_opt.ops", "from graph_opt import passes"])
def test_an_import_of_a_room_by_an_example_is_found(source: str) -> None:
    assert len(checks.private_imports(source, "examples.dlrm.train")) == 1


def test_only_compat_imports_tensorflow(faults: Faults) -> None:
    assert faults(checks.tensorflow_imports) == []


def test_only_kernels_include_tensorflow(faults: Faults) -> None:
    assert faults(checks.tensorflow_includes) == []


@pytest.mark.parametrize(
    "source",
    [
        '#include "tensorflow/core/framework/types.h"',
        "# include <third_party/eigen3/Eigen/Core>",
        '#include "kernels/lookup/columns.h"',
    ],
)
def test_an_include_of_tensorflow_is_found(source: str) -> None:
    assert len(checks.tensorflow_includes(source, "ops_src.lookup.bags")) == 1
    assert checks.tensorflow_includes(source, "ops_src.kernels.lookup.group_inputs") == []


def test_examples_and_tools_do_not_touch_private_tensorflow(faults: Faults) -> None:
    assert faults(checks.private_tensorflow) == []


@pytest.mark.parametrize(
    "source",
    [
        "import tensorflow as tf",
        "from tensorflow.core.protobuf import config_pb2",
        "import importlib\nops = importlib.import_module('tensorflow.python.framework.ops')",
    ],
)
def test_an_import_of_tensorflow_is_found(source: str) -> None:
    assert len(checks.tensorflow_imports(source, "graph_opt.graph.view")) == 1


def test_only_compat_touches_private_attributes_of_others(faults: Faults) -> None:
    assert faults(checks.private_attributes) == []


def test_a_private_attribute_of_another_object_is_found() -> None:
    assert checks.private_attributes("operation._update_input(0, tensor)") != []
    assert checks.private_attributes("class A:\n    def f(self):\n        self._creator.x()") != []
    own = "class A:\n    def __init__(self):\n        self._size = 1\n    def f(self, other):\n"
    assert checks.private_attributes(own + "        return other._size") == []


def test_only_compat_reads_versions(faults: Faults) -> None:
    assert faults(checks.version_readings) == []


@pytest.mark.parametrize("source", ["tf.__version__ >= '2'", "import sys\nsys.version_info[0]"])
def test_a_read_of_a_version_is_found(source: str) -> None:
    assert len(checks.version_readings(source)) == 1


def test_no_file_has_a_catch_all_name() -> None:
    sources = every_python_file() + files_under("ops_src", suffixes=(".cc", ".h"))
    assert [path.name for path in sources if path.stem in checks.FORBIDDEN_STEMS] == []


def test_sources_are_python_3_7(faults: Faults) -> None:
    assert faults(checks.newer_than_python_3_7) == []


@pytest.mark.parametrize(
    "source",
    [
        "(x := 1)",
        "def f(a, /): pass",
        "match x:\n    case 1: pass",
        "from typing import Protocol",
        "import functools\n@functools.cache\ndef f(): pass",
        "'ab'.removeprefix('a')",
        "pair: Pair = 1, 2",
    ],
)
def test_newer_python_is_found(source: str) -> None:
    assert len(checks.newer_than_python_3_7(source, "graph_opt.x")) == 1


def test_profiles_decide_how_many_examples_run(faults: Faults) -> None:
    assert faults(checks.example_counts) == []


def test_a_number_of_examples_is_found() -> None:
    source = "@settings(deadline=None, max_examples=5)\n@given(CASES)\ndef test_case(case): pass"
    assert checks.example_counts(source, "tests.session.test_x") == ["1: sets max_examples"]
    assert checks.example_counts(source, "tests.example_share") == []


def test_files_stay_short_enough_to_review() -> None:
    sources = every_python_file() + files_under("ops_src", suffixes=(".cc", ".h", ".cu"))
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in sources}
    assert {str(path): count for path, count in lines.items() if count > MOST_LINES} == {}


def test_refusals_in_the_code_are_those_with_a_remedy(found: Findings) -> None:
    used = {code for codes in found.refusal_codes.values() for code in codes}
    assert sorted(used) == list(remedies())


def test_every_refusal_spells_out_its_code(faults: Faults) -> None:
    assert faults(checks.nameless_refusals) == []


def test_refusal_codes_are_read_from_text_and_constants() -> None:
    source = "CODE = 'b'\nRefusal('a', at='', need='', saw='')\nRefusal(CODE)\nRefusal(code=who())"
    assert checks.refusal_codes(source) == {"a", "b"}
    assert checks.nameless_refusals(source) == ["4: the code of this Refusal is not written out"]


def test_the_pages_name_the_releases_that_are_supported() -> None:
    project = (REPOSITORY / "pyproject.toml").read_text("utf-8")
    release = str(REPOSITORY / "tools/setup/release.sh")
    tensorflow = subprocess.check_output([release, "default"], text=True).strip()
    assert set(re.findall(r"tensorflow(?:-cpu)?==([\d.]+)", project)) == {tensorflow}
    pythons = subprocess.check_output([release, "pythons", tensorflow], text=True).split()
    readme = (REPOSITORY / "README.md").read_text("utf-8")
    limits = "with TensorFlow {} (Python {} to {});"
    assert limits.format(tensorflow, pythons[0], pythons[-1]) in readme
    decisions = (REPOSITORY / "docs/decisions.md").read_text("utf-8")
    assert "| tensorflow-cpu {0}, or tensorflow {0} |".format(tensorflow) in decisions


def test_make_commands_in_the_docs_exist() -> None:
    targets = checks.make_targets((REPOSITORY / "Makefile").read_text("utf-8"))
    pages = [REPOSITORY / "README.md"] + files_under("docs", suffixes=(".md",))
    for page in pages:
        named = checks.make_targets_named(page.read_text("utf-8"))
        missing = {name for name in named - targets if not name.startswith("bench-")}
        assert missing == set(), page.name
    assert checks.make_targets_named(pages[0].read_text("utf-8")) >= {"demo", "test"}


def test_make_commands_are_read_from_code_only() -> None:
    assert checks.make_targets_named("make sure; `make demo`\n```\nmake test-all\n```") == {
        "demo",
        "test-all",
    }
    assert checks.make_targets("demo: built\nbench-%: x\nSAY := y\n") == {"demo", "bench-%"}


def test_every_relative_link_in_the_docs_has_a_target() -> None:
    pages = [REPOSITORY / "README.md"] + files_under("docs", suffixes=(".md",))
    for page in pages:
        links = checks.relative_links(page.read_text("utf-8"))
        assert [link for link in links if not (page.parent / link).exists()] == [], page.name


IMPORTS_PROGRAM = """
import json, os, sys, tempfile
import tensorflow.compat.v1 as tf
from tests.repository_checks import attributes_of_loaded_modules, changes_between

def traces(statement):
    global before
    with tempfile.TemporaryFile() as printed:
        streams = [os.dup(1), os.dup(2)]
        for stream in (1, 2):
            os.dup2(printed.fileno(), stream)
        exec(statement, {"tf": tf})
        sys.stdout.flush()
        for stream, stands_for in enumerate(streams, 1):
            os.dup2(stands_for, stream)
        printed.seek(0)
        found = ["prints " + line for line in printed.read().decode().splitlines()]
    after = attributes_of_loaded_modules("tensorflow")
    found += changes_between(before, after)
    before = after
    with open("/proc/self/maps") as maps:
        return found + ["loads " + line for line in maps if "libgraph_opt_ops" in line]

before = attributes_of_loaded_modules("tensorflow")
print(json.dumps([traces(statement) for statement in json.loads(sys.argv[1])]))
"""
INNOCENT = [
    "import graph_opt, graph_opt.train",
    "from graph_opt import *",
]
PLANTED = {
    "tf.Session = object": ".Session",
    "tf.Graph.finalize = print": "Graph.finalize",
    "tf.train.new_name = 1": ".train.new_name",
    "print('hello')": "prints hello",
    "import os; os.write(2, b'from C')": "prints from C",
    "from graph_opt.ops import load_library; load_library()": "loads",
}


@pytest.fixture(scope="module")
def import_traces(made_once: MadeOnce) -> Dict[str, List[str]]:
    """The traces that each statement leaves, run one after the other in one TensorFlow process."""
    statements = [*INNOCENT, *PLANTED]

    def make(folder: Path) -> None:
        ran = subprocess.run(
            [sys.executable, "-c", IMPORTS_PROGRAM, json.dumps(statements)],
            cwd=str(REPOSITORY),
            env={"TF_CPP_MIN_LOG_LEVEL": "3", "PATH": "/usr/bin:/bin"},
            stdout=subprocess.PIPE,
            timeout=600,
            check=True,
        )
        (folder / "traces.json").write_bytes(ran.stdout)

    traces = (made_once("import_traces", make) / "traces.json").read_text("utf-8")
    return dict(zip(statements, json.loads(traces)))


@pytest.mark.parametrize("statement", INNOCENT)
def test_importing_graph_opt_patches_and_prints_and_loads_nothing(
    import_traces: Dict[str, List[str]], statement: str
) -> None:
    assert import_traces[statement] == []


@pytest.mark.parametrize("statement", list(PLANTED))
def test_a_patch_or_print_on_import_is_found(
    import_traces: Dict[str, List[str]], statement: str
) -> None:
    assert PLANTED[statement] in " ".join(import_traces[statement])


def test_no_template_is_raised_or_printed(faults: Faults) -> None:
    assert faults(unformatted_texts) == []


@pytest.mark.parametrize(
    "source, count",
    [
        ("raise ValueError('layer {!r} is lost')", 1),
        ("_LOST = 'layer {} ' 'is lost'\nraise errors.LostError(None, None, _LOST)", 1),
        ("say('{name} is ' + 'lost')", 1),
        ("raise ValueError('layer {!r} is lost'.format(name))", 0),
        ("_LOST = 'layer {}'\nraise ValueError(_LOST.format(name))", 0),
        ("print('{}', {'a': 1}, '{ }')", 1),
    ],
)
def test_a_template_that_is_raised_or_printed_is_found(source: str, count: int) -> None:
    assert len(unformatted_texts(source)) == count
