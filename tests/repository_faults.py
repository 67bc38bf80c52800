"""The repository's sources, and what its own checks find in them."""

from __future__ import annotations

from pathlib import Path
from typing import Callable, Dict, List, NamedTuple

from tests import repository_checks as checks
from tests.import_cycles import imports_that_run
from tests.text_checks import unformatted_texts

REPOSITORY = Path(__file__).resolve().parents[1]
Check = Callable[[str, str], List[str]]


def files_under(*folders: str, suffixes: tuple = (".py",)) -> List[Path]:
    """The sources in these folders of the repository, sorted by name."""
    return sorted(
        path
        for folder in folders
        for path in (REPOSITORY / folder).rglob("*")
        if path.suffix in suffixes and "__pycache__" not in path.parts
    )


def module_name(path: Path) -> str:
    """Dotted name of a file; a package's `__init__` is `package.__init__`."""
    return ".".join(path.relative_to(REPOSITORY).with_suffix("").parts)


def outside_compat() -> List[Path]:
    """The package's sources that must not know TensorFlow's versions or private parts."""
    return [path for path in files_under("graph_opt") if path.parent.name != "compat"]


def every_python_file() -> List[Path]:
    return files_under("graph_opt", "examples", "tools", "tests") + [REPOSITORY / "setup.py"]


class Findings(NamedTuple):
    """What is found in the sources.

    Attributes:
      faults: What each check finds, by its name: `FILE:LINE: fault`.
      imports: What each module of the package imports when it runs, by its name.
      refusal_codes: The codes of the refusals that the package can raise, by module.
    """

    faults: Dict[str, List[str]]
    imports: Dict[str, List[str]]
    refusal_codes: Dict[str, List[str]]


def findings() -> Findings:
    """Looks at one file after the other, so that each is parsed only once."""
    package, users = files_under("graph_opt"), files_under("examples", "tools")
    looked_at: Dict[Check, List[Path]] = {
        checks.newer_than_python_3_7: every_python_file(),
        checks.example_counts: files_under("tests"),
        unformatted_texts: every_python_file(),
        checks.upward_imports: package,
        checks.nameless_refusals: package,
        checks.tensorflow_imports: outside_compat(),
        checks.version_readings: outside_compat(),
        checks.private_attributes: outside_compat() + users,
        checks.private_tensorflow: users,
        checks.private_imports: users,
        checks.tensorflow_includes: files_under("ops_src", suffixes=(".cc", ".h", ".cu")),
    }
    checks_of: Dict[Path, List[Check]] = {}
    for check, paths in looked_at.items():
        for path in paths:
            checks_of.setdefault(path, []).append(check)
    found = Findings({check.__name__: [] for check in looked_at}, {}, {})
    for path, its_checks in checks_of.items():
        source, place = path.read_text(encoding="utf-8"), str(path.relative_to(REPOSITORY))
        module = module_name(path)
        for check in its_checks:
            faults = check(source, module)
            found.faults[check.__name__] += [place + ":" + fault for fault in faults]
        if path in package:
            found.imports[module] = imports_that_run(source, module)
            found.refusal_codes[module] = sorted(checks.refusal_codes(source))
    return found
