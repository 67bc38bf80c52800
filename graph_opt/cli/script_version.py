"""Decides from a program's sources which version of TensorFlow it was written for.

The script itself decides, or else the nearest local modules that use names of only one API. A
mixture leaves TensorFlow as it is, since every name then means what it means under plain Python; so
do names that are guarded by a check of the version. Libraries installed beside TensorFlow always
see the stock one.
"""

from __future__ import annotations

import ast
import importlib.machinery
import os
import sys
import sysconfig
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from graph_opt.cli.programs import Source
from graph_opt.cli.tensorflow_uses import Import, Names, Use, Uses, uses_in
from graph_opt.compat.version_names import version_with
from graph_opt.session.installation import DEEPREC_NAMES

# Only version 1 datasets have these methods.
_VERSION_1_METHODS = frozenset({"make_one_shot_iterator", "make_initializable_iterator"})
_SWITCHES = frozenset(
    "disable_eager_execution disable_v2_behavior enable_v2_behavior enable_eager_execution".split()
)
_PRIVATE = frozenset({"python", "core", "compiler", "tools", "tsl"})
# Looking into these would load them, which TensorFlow postpones until a program needs them.
_LOADED_LATE = frozenset({"keras", "estimator"})

_AS_IT_IS = "as it is"
_VERSION_1 = "version 1"


class Verdict(NamedTuple):
    """How TensorFlow is presented to a program.

    Attributes:
      version_1: Whether `import tensorflow` gives version 1.
      reason: What decided, with file and line.
    """

    version_1: bool
    reason: str


class _Evidence(NamedTuple):
    says: str
    what: str


class _Sources:
    """The sources of a program: its main file, and the local modules that it imports.

    Args:
      main: The main file.
      search_path: Where local modules are found; `sys.path` while the program runs.
    """

    def __init__(self, main: Source, search_path: Sequence[str]) -> None:
        self._search_path = list(search_path)
        self._installed = _installed_folders()
        self._known: Dict[str, Uses] = {}
        self._packages: Dict[str, str] = {main.path: main.package}
        self._own = main.package.partition(".")[0]
        self._read(main.path, main.text)

    def by_distance(self, main: str) -> Iterator[List[Tuple[str, Uses]]]:
        """The main file, then the local files it imports, then those that they import."""
        seen = {main}
        level = [main]
        while level:
            yield [(path, self._known[path]) for path in level]
            found = []
            for path in level:
                for one in self._known[path].imports:
                    found.extend(self._files(path, one))
            level = [path for path in dict.fromkeys(found) if path not in seen]
            seen.update(level)

    def _read(self, path: str, text: Optional[bytes] = None) -> None:
        """Records what a file uses; nothing if it is not readable Python."""
        nothing = Uses((), (), (), {})
        self._known[path] = nothing  # Ends the recursion if modules import each other.
        try:
            if text is None:
                with open(path, "rb") as file:
                    text = file.read()
            tree = ast.parse(text)
            self._known[path] = uses_in(tree, lambda one: self._aliases(path, one))
        except (OSError, SyntaxError, ValueError, RecursionError):
            return

    def _aliases(self, path: str, one: Import) -> Dict[str, Names]:
        found: Dict[str, Names] = {}
        for file in self._files(path, one):
            found.update(self._known[file].aliases)
        return found

    def _files(self, path: str, one: Import) -> List[str]:
        """Local files that the import runs, with the module's own last."""
        package = self._packages[path].split(".") if self._packages[path] else []
        if one.level > len(package):
            return []
        above = package[: len(package) - one.level + 1] if one.level else []
        names = above + (one.module.split(".") if one.module else [])
        files = self._package_files(names)
        for name, _ in one.names:
            files.extend(file for file in self._package_files([*names, name])[-1:])
        return list(dict.fromkeys(files))

    def _package_files(self, names: Sequence[str]) -> List[str]:
        folders: Optional[Sequence[str]] = self._search_path
        files = []
        for depth in range(len(names)):
            name = ".".join(names[: depth + 1])
            spec = self._spec(name, folders)
            if spec is None:
                break
            folders = spec.submodule_search_locations
            if spec.has_location and spec.origin and self._is_local(name, spec.origin):
                files.append(spec.origin)
                if spec.origin not in self._known:
                    self._packages[spec.origin] = (
                        name if folders is not None else ".".join(names[:depth])
                    )
                    self._read(spec.origin)
            if folders is None:
                break
        return files

    def _spec(
        self, name: str, folders: Optional[Sequence[str]]
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if name.partition(".")[0] in sys.builtin_module_names:
            return None
        try:
            return importlib.machinery.PathFinder.find_spec(name, folders)
        except KeyError:  # a folder without __init__.py in a package that is not imported
            return _folder_spec(name, folders or ())
        except (ImportError, ValueError, OSError):
            return None

    def _is_local(self, name: str, path: str) -> bool:
        if not path.endswith(".py"):
            return False
        is_own = name.partition(".")[0] == self._own
        return is_own or not os.path.realpath(path).startswith(self._installed)


def verdict_of(main: Source, search_path: Sequence[str]) -> Verdict:
    """Decides how TensorFlow is presented to a program, from what its sources use.

    Names that only version 1 or DeepRec has ask for version 1; names that only version 2 has, and
    `tf.compat.v1`, which both have, ask for TensorFlow as it is, unless DeepRec's names show that
    the program runs on version 1 anyway. The main file decides; if it uses no such name, the local
    modules that it imports do, the nearest first. If both are asked for, or neither, TensorFlow
    stays as it is, so that every name means what it means under Python.

    Args:
      main: The program's main file.
      search_path: Where local modules are found.
    """
    for level in _Sources(main, search_path).by_distance(main.path):
        evidence = [_evidence(path, uses) for path, uses in level]
        version_1 = [found[_VERSION_1] for found in evidence if _VERSION_1 in found]
        as_it_is = [found[_AS_IT_IS] for found in evidence if _AS_IT_IS in found]
        if version_1 and as_it_is:
            return Verdict(False, "{}, but {}".format(version_1[0], as_it_is[0]))
        if version_1 or as_it_is:
            return Verdict(bool(version_1), (version_1 or as_it_is)[0])
    return Verdict(False, "{} uses no name that tells the versions apart".format(_short(main.path)))


def _folder_spec(name: str, folders: Sequence[str]) -> importlib.machinery.ModuleSpec:
    spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
    inner = [os.path.join(folder, name.rpartition(".")[2]) for folder in folders]
    spec.submodule_search_locations = [folder for folder in inner if os.path.isdir(folder)]
    return spec


def _evidence(path: str, uses: Uses) -> Dict[str, str]:
    """The first use of each kind, in words."""
    found: Dict[str, str] = {}
    late = [use for use in uses.uses if use.names[0] in _LOADED_LATE]
    early = [use for use in uses.uses if use.names[0] not in _LOADED_LATE]
    is_for_deeprec = any(use.names in DEEPREC_NAMES and not use.guarded for use in early)
    for use in early:
        _note(found, path, use.line, _judged(use, is_for_deeprec))
    for line, method in uses.methods:
        if method in _VERSION_1_METHODS:
            _note(found, path, line, _Evidence(_VERSION_1, "Dataset.{}".format(method)))
    if not found:
        for use in late:
            if not use.guarded and version_with(use.names, use.keywords) == 1:
                _note(found, path, use.line, _Evidence(_VERSION_1, _spelled(use)))
    return found


def _note(found: Dict[str, str], path: str, line: int, evidence: Optional[_Evidence]) -> None:
    if evidence is not None and evidence.says not in found:
        found[evidence.says] = "{}:{} uses {}".format(_short(path), line, evidence.what)


def _judged(use: Use, is_for_deeprec: bool) -> Optional[_Evidence]:
    if use.names in DEEPREC_NAMES:
        return None if use.guarded else _Evidence(_VERSION_1, "tf." + ".".join(use.names))
    if use.names[:2] in (("compat", "v1"), ("compat", "v2")):
        if is_for_deeprec and use.names[1] == "v1" and use.names[-1] not in _SWITCHES:
            return None  # DeepRec, which is a TensorFlow 1, has `tf.compat.v1`, too.
        return _Evidence(_AS_IT_IS, "tf." + ".".join(use.names[:2]))
    if use.names[0] in _PRIVATE:
        is_switch = use.names[-1] in _SWITCHES
        return _Evidence(_AS_IT_IS, use.names[-1]) if is_switch else None
    if use.guarded:
        return None
    version = version_with(use.names, use.keywords)
    if version == 0:
        return None
    return _Evidence(_VERSION_1 if version == 1 else _AS_IT_IS, _spelled(use))


def _spelled(use: Use) -> str:
    name = "tf." + ".".join(use.names)
    if version_with(use.names) or not use.keywords:
        return name
    telling = [keyword for keyword in use.keywords if version_with(use.names, [keyword])]
    return "{}({}=...)".format(name, telling[0])


def _short(path: str) -> str:
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def _installed_folders() -> Tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = {os.path.realpath(sysconfig.get_path(name)) for name in names}
    folders.add(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    return tuple(sorted(os.path.join(folder, "") for folder in folders))
