"""Runs scripts and modules as Python's own command line does."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import pkgutil
import sys
import zipfile
from types import CodeType, ModuleType
from typing import Any, NamedTuple, Optional, Sequence

from graph_opt.cli.exit_codes import WrongInput

_MAIN = "__main__"


class ProgramError(WrongInput):
    """The program cannot be found or read."""


class Source(NamedTuple):
    """The main file of a program.

    Attributes:
      path: Its path; "<stdin>" for standard input.
      text: Its content; empty if it cannot be read.
      package: The package of a module run with `-m`, "" for a script.
    """

    path: str
    text: bytes
    package: str = ""


class Program:
    """A program to run as `__main__`.

    Args:
      source: Text of the file, or its code if the loader has compiled it.
      path: The file's absolute path.
      arguments: What `sys.argv` becomes.
      search_path: What `sys.path[0]` becomes.
      spec: The module's spec for `-m`, None for a script.
    """

    def __init__(
        self,
        source: Any,
        path: str,
        arguments: Sequence[str],
        search_path: str,
        spec: Optional[importlib.machinery.ModuleSpec] = None,
    ) -> None:
        self._source = source
        self._path = path
        self._arguments = list(arguments)
        self._search_path = search_path
        self._spec = spec

    def execute(self) -> None:
        """Runs the program in a new `__main__`, which remains for threads and exit handlers.

        Raises:
          BaseException: Whatever the program raises.
        """
        module = self._new_main()
        sys.modules[_MAIN] = module
        sys.argv[:] = self._arguments
        if sys.path:
            sys.path[0] = self._search_path
        code = self._source
        if not isinstance(code, CodeType):
            code = compile(code, self._path, "exec", dont_inherit=True)
        exec(code, module.__dict__)

    @property
    def path(self) -> str:
        """Absolute path of the main file."""
        return self._path

    def main_file(self) -> Source:
        """The main file, for reading."""
        package = self._spec.parent if self._spec is not None else ""
        if isinstance(self._source, bytes):
            return Source(self._path, self._source, package or "")
        return main_file_at(self._path, package or "")

    def owns(self, code: CodeType) -> bool:
        """Whether `code` belongs to the program's main file."""
        return code.co_filename == self._path

    def _new_main(self) -> ModuleType:
        module = ModuleType(_MAIN)
        module.__file__ = self._path
        module.__annotations__ = {}
        module.__builtins__ = sys.modules["builtins"]  # type: ignore[attr-defined]
        if self._spec is None:
            module.__loader__ = importlib.machinery.SourceFileLoader(_MAIN, self._path)
            module.__cached__ = None  # type: ignore[attr-defined]
            return module
        module.__spec__ = self._spec
        module.__loader__ = self._spec.loader
        module.__package__ = self._spec.parent
        module.__cached__ = self._spec.cached  # type: ignore[attr-defined]
        return module


def find_script(command: Sequence[str]) -> Program:
    """The script `command[0]`, with the arguments after it.

    As with Python, it may also be a folder or zip file with a `__main__.py`, a compiled file
    (.pyc), or `-` for standard input.

    Raises:
      ProgramError: There is no such file, or it cannot be read.
    """
    given = command[0]
    if given == "-":
        return Program(sys.stdin.buffer.read(), "<stdin>", command, "")
    path = os.path.abspath(given)
    if os.path.isdir(path) or zipfile.is_zipfile(path):
        return _main_within(path, command)
    folder = os.path.dirname(os.path.realpath(path))
    try:
        if path.endswith(".pyc"):
            code = importlib.machinery.SourcelessFileLoader(_MAIN, path).get_code(_MAIN)
            return Program(code, path, command, folder)
        with open(path, "rb") as file:
            source = file.read()
    except (OSError, ImportError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ProgramError("cannot open script '{}': {}".format(given, reason)) from error
    if b"\0" in source:
        raise ProgramError("'{}' is no Python script: it has null bytes".format(given))
    return Program(source, path, command, folder)


def _main_within(path: str, command: Sequence[str]) -> Program:
    importer: Any = pkgutil.get_importer(path)
    spec = None if importer is None else importer.find_spec(_MAIN)
    if spec is None:
        raise ProgramError("can't find '{}' module in '{}'".format(_MAIN, command[0]))
    code = spec.loader.get_code(_MAIN)
    return Program(code, spec.origin, command, path, spec)


def main_file_at(path: str, package: str = "") -> Source:
    """The main file at a path; without text if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return Source(path, file.read(), package)
    except OSError:
        return Source(path, b"", package)


def main_file_running() -> Source:
    """The main file of the program that runs in this process, whoever started it."""
    main = sys.modules[_MAIN]
    spec = getattr(main, "__spec__", None)
    return main_file_at(getattr(main, "__file__", None) or "", spec.parent if spec else "")


def main_file_of_module(name: str) -> Source:
    """The main file of `-m name`, found without importing the packages around it."""
    folders: Optional[Sequence[str]] = None
    names = name.split(".")
    spec: Optional[importlib.machinery.ModuleSpec] = None
    for depth in range(len(names)):
        spec = importlib.machinery.PathFinder.find_spec(".".join(names[: depth + 1]), folders)
        if spec is None:
            return Source(name, b"")
        folders = spec.submodule_search_locations
    if spec is not None and folders is not None:
        names.append(_MAIN)
        spec = importlib.machinery.PathFinder.find_spec(".".join(names), folders)
    if spec is None or spec.origin is None:
        return Source(name, b"")
    return main_file_at(spec.origin, ".".join(names[:-1]))


def find_module(command: Sequence[str]) -> Program:
    """The module named `command[0]`, or its `__main__` if it is a package.

    Raises:
      ProgramError: There is no such module, it cannot be imported, or it has no source to run.
    """
    name = command[0]
    folder = os.getcwd()
    if sys.path:
        sys.path[0] = folder
    spec = _find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = _find_spec(name + "." + _MAIN)
        name = "{} (it is a package without {})".format(name, _MAIN) if spec is None else name
    if spec is None or spec.origin is None or spec.loader is None:
        raise ProgramError("no module named {}".format(name))
    loader: Any = spec.loader
    code = loader.get_code(spec.name)
    if code is None:
        raise ProgramError("no module named {} has Python code".format(name))
    return Program(code, spec.origin, [spec.origin] + list(command[1:]), folder, spec)


def _find_spec(name: str) -> Optional[importlib.machinery.ModuleSpec]:
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError) as error:
        raise ProgramError("no module named {}: {}".format(name, error)) from error
