"""Installs a wheel of build/dist in a clean environment, trains with it, and sees what it needs.

    make wheel-check        python -m tools.wheel_check --tensorflow 2.15.1 --tools build/venv-wheel

There is no compiler, nor anything else, on the PATH of what runs there. Where qemu-x86_64 is
installed (Debian: apt-get install qemu-user), it trains once more on an emulated CPU without AVX2.
Exit status 0 when all is well, 1 when something is not, with the reason.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, List, Optional, Sequence

_REPOSITORY = Path(__file__).resolve().parents[2]
_DIST = _REPOSITORY / "build" / "dist"
_SETUP = _REPOSITORY / "tools" / "setup"
_SCRIPT = Path(__file__).with_name("trained.py")
_POLICY = "manylinux_2_17_" + os.uname().machine
_REWRITTEN = "2 of 2 lookups fused into 1 op, 2 of 2 run ahead of the step"
_WITHOUT_AVX2 = "SandyBridge"  # TensorFlow's own wheels need AVX.
_ABSENT = "9.9"  # a release of TensorFlow that there is not


class CheckFailed(Exception):
    """Something is wrong with the wheel; the text says what."""


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs the checks; the result is the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.wheel_check", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--tensorflow", required=True, help="a release of tools/setup/releases.txt")
    parser.add_argument("--tools", type=Path, required=True, help="environment with auditwheel")
    options = parser.parse_args(arguments)
    try:
        wheel = _wheel(options.tensorflow)
        print("{}: {:.1f} MB".format(wheel.name, wheel.stat().st_size / 1e6))
        _check_needs(wheel, options.tools)
        environment = _clean_environment(options.tensorflow, wheel)
        _check_training(environment)
        _check_refusal(environment)
    except CheckFailed as failed:
        print("wheel_check: {}".format(failed), file=sys.stderr)
        return 1
    return 0


def _wheel(tensorflow: str) -> Path:
    release = ".".join(tensorflow.split(".")[:2])
    found = sorted(_DIST.glob("graph_opt-*+tf{}-*.whl".format(release)))
    if len(found) != 1:
        text = "build/dist has {} wheels for TensorFlow {}, not 1: make TF={} wheel"
        raise CheckFailed(text.format(len(found), release, tensorflow))
    return found[0]


def _check_needs(wheel: Path, tools: Path) -> None:
    """The tag is what auditwheel gives to the symbols of the libraries, TensorFlow's own apart."""
    command = [str(tools.resolve() / "bin" / "python"), "-m", "auditwheel", "show", str(wheel)]
    shown = " ".join(_run(command, {}).split())
    found = re.search('constrains the platform tag to "(\\w+)"', shown)
    if found is None or found.group(1) != _POLICY or _POLICY not in wheel.name:
        raise CheckFailed("{} is not {}: {}".format(wheel.name, _POLICY, shown))
    newest: Dict[str, str] = {}
    for name, version in re.findall(r"\b(GLIBC|GLIBCXX|CXXABI|GCC)_([0-9.]+)", shown):
        newest[name] = max(newest.get(name, version), version, key=_numbers)
    print("needs {}".format(", ".join("{} {}".format(*one) for one in sorted(newest.items()))))


def _numbers(version: str) -> List[int]:
    return [int(number) for number in version.split(".")]


def _clean_environment(tensorflow: str, wheel: Path) -> Path:
    environment = _REPOSITORY / "build" / "venv-installed-tf{}".format(tensorflow)
    print("installing it in {}".format(environment.relative_to(_REPOSITORY)), flush=True)
    _run([sys.executable, "-m", "venv", "--clear", str(environment)], {})
    _run([str(_SETUP / "install.sh"), str(environment), tensorflow, "cpu"], dict(os.environ))
    pip = [str(environment / "bin" / "python"), "-m", "pip"]
    _run([*pip, "install", "--no-deps", str(wheel)], {})
    _run([*pip, "check"], {})
    return environment


def _check_training(environment: Path) -> None:
    programs = environment / "bin"
    for line in _run([str(programs / "graph-opt"), "--version"], _clean(environment)).splitlines():
        print("  " + line)
    _train(environment, [])
    emulator = shutil.which("qemu-x86_64")
    if emulator is None:
        print("not tried without AVX2: there is no qemu-x86_64 (Debian: apt-get install qemu-user)")
        return
    said = _train(environment, [emulator, "-cpu", _WITHOUT_AVX2])
    if "instruction set portable" not in said:
        raise CheckFailed("without AVX2, the kernels compute with another instruction set: " + said)


def _train(environment: Path, emulator: List[str]) -> str:
    print("training{}".format(" on an emulated " + emulator[-1] if emulator else ""), flush=True)
    python = str(environment / "bin" / "python")
    said = _run([*emulator, python, str(_SCRIPT)], _clean(environment))
    line = next((line for line in said.splitlines() if line.startswith("loss ")), "")
    rewritten = next((line for line in said.splitlines() if _REWRITTEN in line), None)
    if not line or rewritten is None:
        raise CheckFailed("it trained, but not with its lookups fused and ahead: " + said)
    print("  {}; {}".format(line, rewritten))
    return said


def _check_refusal(environment: Path) -> None:
    """A library for another TensorFlow alone is refused, with both releases in the error."""
    (library,) = environment.glob("lib/python*/site-packages/graph_opt/ops/libgraph_opt_ops.tf*.so")
    release = library.name.split(".tf")[1][: -len(".so")]
    other = library.with_name(library.name.replace(release, _ABSENT))
    library.rename(other)
    try:
        command = [
            str(environment / "bin" / "python"),
            "-c",
            "import graph_opt as g; g.load_op_library()",
        ]
        done = _ended(command, _clean(environment))
    finally:
        other.rename(library)
    said = done.stdout.splitlines()[-1] if done.stdout else ""
    print("a wheel for another release: {}".format(said))
    named = "built for TensorFlow {}, and this is TensorFlow {}".format(_ABSENT, release)
    if done.returncode == 0 or named not in said:
        raise CheckFailed("a wheel for another release of TensorFlow is not refused: " + said)


def _clean(environment: Path) -> Dict[str, str]:
    return {"PATH": str(environment / "bin"), "TF_CPP_MIN_LOG_LEVEL": "2"}


def _run(command: List[str], variables: Dict[str, str]) -> str:
    done = _ended(command, variables)
    if done.returncode != 0:
        raise CheckFailed("'{}' failed: {}".format(" ".join(command), done.stdout))
    return done.stdout


def _ended(command: List[str], variables: Dict[str, str]) -> subprocess.CompletedProcess:
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run(
            command,
            cwd=_REPOSITORY if "install.sh" in command[0] else folder,
            env={"HOME": folder, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=3600,
        )


if __name__ == "__main__":
    sys.exit(main())
