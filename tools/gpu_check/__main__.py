"""Builds the CUDA kernels, checks them on a GPU against float64, and times them.

    python -m tools.gpu_check                  build, check, time; also build/bench/gpu_check.json
    python -m tools.gpu_check --compile-only   build and no more
    python -m tools.gpu_check --library FILE   check a library that is built already

Exit status 0 when all checks pass, 1 when one fails or the build does, 2 when there is no GPU to
run the kernels on.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from tools.gpu_check import checks, compiled, shapes, timing
from tools.gpu_check.library import Library

_PASSED, _FAILED, _NO_GPU = 0, 1, 2
_FOLDER = compiled.REPOSITORY / "build" / "gpu_check"
_FIGURES = compiled.REPOSITORY / "build" / "bench" / "gpu_check.json"


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs the tool; the result is the exit status."""
    options = _parser().parse_args(arguments)
    try:
        path = options.library or compiled.build(_FOLDER, options.architectures)
    except compiled.BuildError as error:
        print("gpu_check: {}".format(error), file=sys.stderr)
        return _FAILED
    if options.library is None:
        print("compiled: {}".format(path))
    if options.compile_only:
        print("the kernels were compiled, not run")
        return _PASSED
    library = Library(path)
    if library.device is None:
        print("no GPU that can be used: the kernels were compiled, not run", file=sys.stderr)
        return _NO_GPU
    return _run(library, options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.gpu_check", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--compile-only", action="store_true", help="do not run the kernels")
    parser.add_argument("--library", type=Path, help="a library to check in place of building one")
    parser.add_argument(
        "--architectures",
        type=lambda text: text.split(","),
        default=[],
        help="such as 80,90; default: {}, those that nvcc knows".format(
            ",".join(compiled.ARCHITECTURES)
        ),
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random shapes (default: 0)")
    parser.add_argument("--small", action="store_true", help="small shapes only, and no timing")
    parser.add_argument(
        "--output", type=Path, default=_FIGURES, help="where the figures go (default: %(default)s)"
    )
    return parser


def _run(library: Library, options: argparse.Namespace) -> int:
    print("device: {}".format(library.device))
    found: List[checks.Checked] = []
    for group in shapes.groups(options.seed, large=not options.small):
        found.extend(checks.check(library, group))
    failed = [one for one in found if one.fault]
    print(_table(found))
    for one in failed:
        print("FAILED {} of {}: {}".format(one.check, one.group, one.fault), file=sys.stderr)
    figures: Dict[str, Any] = {
        "bench": "gpu_check",
        "device": library.device,
        "checks": len(found),
        "failed": len(failed),
        "largest_error_of_allowed": max(one.error for one in found),
    }
    if not options.small:
        figures.update(_timed(library))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return _FAILED if failed else _PASSED


def _timed(library: Library) -> Dict[str, Any]:
    rate = timing.copy_rate(library)
    timed: List[timing.Timed] = []
    without_torch = False
    for case in timing.CASES:
        timed.extend(timing.time_case(library, case))
        by_torch = timing.time_torch(case)
        without_torch = by_torch is None
        timed.extend(by_torch or [])
    print("copy on the device: {:.0f} GB/s".format(rate / 1e9))
    print(timing.table(timed, rate))
    if without_torch:
        print("no comparison with PyTorch: there is no torch with CUDA here")
    return {"copy_bytes_per_s": rate, "records": timing.to_dicts(timed, rate)}


def _table(found: Sequence[checks.Checked]) -> str:
    """A line for each check: groups, failures, largest error in parts of the allowed one."""
    lines = ["check                       groups  failed  largest error of allowed"]
    for name in dict.fromkeys(one.check for one in found):
        of_check = [one for one in found if one.check == name]
        failures = sum(bool(one.fault) for one in of_check)
        error = max(one.error for one in of_check)
        lines.append("{:<27} {:<7} {:<7} {:.3f}".format(name, len(of_check), failures, error))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
