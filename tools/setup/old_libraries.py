"""Writes stubs of old system libraries, against which the libraries of wheels are linked.

usage: old_libraries.py FOLDER

A library asks for the newest version of each function that it was linked against, so one that was
linked against this machine's libraries loads only where they are as new. The stubs have no code,
but the names and versions of all symbols of glibc 2.17 and of GCC 4.8's libstdc++, the oldest that
the tag manylinux2014 promises. Those of glibc come with Zig's compiler; those of libstdc++ are the
machine's own less the newer ones.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Tuple

from elftools.elf.elffile import ELFFile

GLIBC = "2.17"
NEWEST_OF_CXX = {"GLIBCXX": (3, 4, 19), "CXXABI": (1, 3, 7)}  # PEP 599's
_VERSION = re.compile(r"(GLIBCXX|CXXABI)_([0-9.]+)")
_NAMES_OF_GLIBC = ("c", "dl", "m", "pthread", "rt")
_SECTIONS = {
    "STT_FUNC": (".text", "function"),
    "STT_LOOS": (".text", "function"),  # chosen when it is first called
    "STT_OBJECT": (".data", "object"),
    "STT_TLS": ('.section .tbss,"awT",@nobits', "tls_object"),
}


class Symbol(NamedTuple):
    """A symbol of a library, with its version."""

    name: str
    version: str
    kind: str
    size: int


def old_symbols(library: Path) -> List[Symbol]:
    """Of each symbol of libstdc++ its newest version that is old enough, if there is one.

    Raises:
      OSError: The library cannot be read.
    """
    newest: Dict[str, Symbol] = {}
    for symbol in sorted(_versioned(library), key=_numbers):
        if _numbers(symbol) <= NEWEST_OF_CXX[symbol.version.split("_")[0]]:
            newest[symbol.name] = symbol
    return sorted(newest.values())


def _versioned(path: Path) -> Iterator[Symbol]:
    with path.open("rb") as file:
        elf = ELFFile(file)
        versions = elf.get_section_by_name(".gnu.version")
        definitions = elf.get_section_by_name(".gnu.version_d").iter_versions()
        names = {version["vd_ndx"]: next(more).name for version, more in definitions}
        for number, symbol in enumerate(elf.get_section_by_name(".dynsym").iter_symbols()):
            index = versions.get_symbol(number)["ndx"]
            kind = symbol["st_info"]["type"]
            # The highest bit of a version's number tells that it is not the default.
            name = names.get(index & 0x7FFF, "") if isinstance(index, int) else ""
            is_defined = symbol["st_shndx"] not in ("SHN_UNDEF", "SHN_ABS")
            if is_defined and kind in _SECTIONS and _VERSION.fullmatch(name):
                yield Symbol(symbol.name, name, kind, symbol["st_size"])


def _numbers(symbol: Symbol) -> Tuple[int, ...]:
    return tuple(int(number) for number in symbol.version.split("_")[1].split("."))


def write_cxx(library: Path, folder: Path, compiler: List[str]) -> None:
    """Writes the stub of a C++ library.

    Raises:
      OSError: The library cannot be read.
      subprocess.CalledProcessError: The compiler failed.
    """
    symbols = old_symbols(library)
    by_version: Dict[str, List[str]] = {}
    for symbol in symbols:
        by_version.setdefault(symbol.version, []).append(symbol.name)
    with tempfile.TemporaryDirectory() as temporary:
        assembly, versions = Path(temporary, "stub.s"), Path(temporary, "stub.map")
        assembly.write_text("".join(map(_assembly, symbols)), "utf-8")
        versions.write_text(
            "".join(
                "{} {{ global: {}; }};\n".format(version, "; ".join(names))
                for version, names in sorted(by_version.items())
            ),
            "utf-8",
        )
        command = [*compiler, "-shared", "-nostdlib", "-Wl,-soname,libstdc++.so.6"]
        command += ["-Wl,--version-script=" + str(versions), str(assembly)]
        subprocess.run([*command, "-o", str(folder / "libstdc++.so")], check=True)


def _assembly(symbol: Symbol) -> str:
    section, kind = _SECTIONS[symbol.kind]
    return "{1}\n.globl {0}\n.type {0}, @{2}\n.size {0}, {3}\n{0}: .zero {4}\n".format(
        symbol.name, section, kind, symbol.size, max(1, symbol.size if kind != "function" else 1)
    )


def write_glibc(folder: Path) -> None:
    """Writes the stubs of glibc, which Zig makes when it links something.

    Raises:
      FileNotFoundError: Zig has written other files than expected.
      subprocess.CalledProcessError: Zig failed.
    """
    with tempfile.TemporaryDirectory() as temporary:
        source = Path(temporary, "empty.c")
        source.write_text("", "utf-8")
        target = "{}-linux-gnu.{}".format(platform.machine(), GLIBC)
        command = [sys.executable, "-m", "ziglang", "cc", "-target", target, "-shared"]
        command += ["-l" + name for name in _NAMES_OF_GLIBC if name != "c"]
        caches = dict.fromkeys(("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"), temporary)
        subprocess.run(
            [*command, str(source), "-o", str(Path(temporary, "empty.so"))],
            check=True,
            env={**os.environ, **caches},
        )
        stubs = _only(Path(temporary), "libc.so.6").parent
        for path in [*stubs.glob("*.so.*"), _only(Path(temporary), "libc_nonshared.a")]:
            shutil.copy2(str(path), str(folder / path.name))
    for name in _NAMES_OF_GLIBC[1:]:
        (folder / "lib{}.so".format(name)).symlink_to(
            next(folder.glob("lib{}.so.*".format(name))).name
        )
    # As in glibc's own file of this name, which the linker looks for.
    text = "GROUP ( libc.so.6 libc_nonshared.a AS_NEEDED ( libld.so.2 ) )\n"
    (folder / "libc.so").write_text(text, "utf-8")


def _only(folder: Path, name: str) -> Path:
    found = list(folder.rglob(name))
    if len(found) != 1:
        raise FileNotFoundError("Zig has written {} files {}, not 1".format(len(found), name))
    return found[0]


def main() -> None:
    """Writes all stubs to a folder, which is there only if all went well."""
    folder = Path(sys.argv[1])
    compiler = os.environ.get("CXX", "c++").split()
    asked = subprocess.run(
        [*compiler, "-print-file-name=libstdc++.so.6"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    unfinished = folder.with_name(folder.name + ".unfinished")
    for old in (folder, unfinished):
        shutil.rmtree(str(old), ignore_errors=True)
    unfinished.mkdir(parents=True)
    write_glibc(unfinished)
    write_cxx(Path(asked.stdout.strip()), unfinished, compiler)
    unfinished.rename(folder)


if __name__ == "__main__":
    main()
