"""The parser of `graph-opt` and of its commands: argparse, with help and errors as users want them.

A usage error is one line, which names what may have been meant. Bare, the program lists its
commands with an example of each.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
import textwrap
from typing import Any, Iterator, List, Mapping, NoReturn, Sequence

from graph_opt.cli.colours import COMMAND, HEADING, has_colour, painted
from graph_opt.cli.messages import say_wrong
from graph_opt.launch.terminal_size import terminal_size

WIDEST = 100
_USAGE = "usage: "
_HEADINGS = re.compile(r"^[a-z ]+:(?=\s)", re.MULTILINE)
_NAMES = re.compile(r"(?<=^  )[-a-z][-a-z0-9]*(?=\s|,)|(?<=, )--[a-z][-a-z]*", re.MULTILINE)
_ALIKE = 0.6
_LEAST_TEXT = 20  # characters of a line beside a name
# What argparse says of arguments, apart from what our own types say.
_MISSING = re.compile(r"the following arguments are required: (?P<names>.+)")
_CHOICE = re.compile(
    r"argument (?P<name>.+?): invalid choice: '(?P<value>.*)' \(choose from (?P<choices>.+)\)"
)
_NO_VALUE = re.compile(r"argument (?P<name>[^:]+): expected (one|at least one) argument")
_OF_ONE = re.compile(r"argument (?P<rest>.+?: .+)")


class Parser(argparse.ArgumentParser):
    """The parser of one command.

    Args:
      summary: What the command does, in a line for the list of commands.
      example: A command line that does it.
      arguments: As of argparse. A `usage` of several lines is wrapped.

    Attributes:
      summary: The same.
      example: The same.
    """

    def __init__(self, *, summary: str = "", example: str = "", **arguments: Any) -> None:
        if arguments.get("usage"):
            arguments["usage"] = wrapped_usage(arguments["usage"], _columns())
        epilog = "example: {}".format(example) if example else None
        super().__init__(allow_abbrev=False, formatter_class=_Formatter, epilog=epilog, **arguments)
        self.summary = summary
        self.example = example
        self._given: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse's, but what is not known is an error that says what may have been meant."""
        self._given = sys.argv[1:] if args is None else list(args)
        known, unknown = super().parse_known_args(self._given, namespace)
        for argument in unknown:
            self._refuse(argument)
        return known, unknown

    def error(self, message: str) -> NoReturn:
        """Says in one line what is wrong with the arguments, and ends the process.

        Raises:
          SystemExit: Always, with exit code 2.
        """
        misspelled = next(self._misspelled(), None)
        if misspelled is not None:  # Else its value, or the flag that it stands for, is blamed.
            message = self._no_such_flag(misspelled)
        message = _reworded(message)
        if not message.endswith(("?", "--help")):
            message += "; see {} --help".format(self.prog)
        say_wrong(self.prog.partition(" ")[2], message)
        self.exit(2)

    def print_help(self, file: Any = None) -> None:
        """Prints the help, in colours on a terminal."""
        stream = sys.stdout if file is None else file
        text = self.format_help()
        stream.write(_coloured(text) if has_colour(stream) else text)
        stream.flush()  # Else an error would come when nobody can tell it any more.

    def _misspelled(self) -> Iterator[str]:
        """Flags that the command does not have; those of the scripts that it runs are not ours."""
        actions = actions_of(self)
        if any(action.nargs in (argparse.REMAINDER, argparse.PARSER) for action in actions):
            return
        known = flags_of(self)
        for argument in self._given:
            if argument == "--":
                return
            if argument.startswith("--") and argument.partition("=")[0] not in known:
                yield argument
                return

    def _refuse(self, argument: str) -> NoReturn:
        if argument.startswith("-") and argument != "-":
            self.error(self._no_such_flag(argument))
        self.error("'{}' is one argument too many; see {} --help".format(argument, self.prog))

    def _no_such_flag(self, argument: str) -> str:
        name = argument.partition("=")[0]
        near = difflib.get_close_matches(name, flags_of(self), n=1, cutoff=_ALIKE)
        return "there is no flag '{}'; {}".format(
            name,
            "did you mean {}?".format(near[0]) if near else "see {} --help".format(self.prog),
        )


class Program(Parser):
    """The parser of the program, whose first argument names a command."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As a command's, but looks for a misspelled command first."""
        given = sys.argv[1:] if args is None else list(args)
        name = given[0] if given else ""
        commands = commands_of(self)
        if name and name not in ("--", *commands, *flags_of(self)):
            self._given = ()
            is_flag = name.startswith("-") and name != "-"
            self.error(self._no_such_flag(name) if is_flag else self._no_such_command(name))
        return super().parse_known_args(given, namespace)

    def format_help(self) -> str:
        """The commands, with an example of each."""
        commands = commands_of(self)
        options = {
            ", ".join(action.option_strings): action.help or ""
            for action in actions_of(self)
            if action.option_strings
        }
        width = max(map(len, [*commands, *options])) + 2
        lines = [_USAGE + "{} COMMAND [ARGUMENT]...".format(self.prog), ""]
        lines += textwrap.wrap(self.description or "", _columns())
        lines += ["", "commands:"]
        for name, command in commands.items():
            lines += _entry(name, command.summary, width)
            # In one line, however narrow the terminal is, so that it can be copied.
            lines.append("  {}$ {}".format(" " * width, command.example))
        lines += ["", "options:"]
        for flags, help in options.items():
            lines += _entry(flags, help, width)
        end = "{} COMMAND --help lists the arguments of a command.".format(self.prog)
        lines += ["", *textwrap.wrap(end, _columns())]
        return "\n".join(lines) + "\n"

    def _no_such_flag(self, argument: str) -> str:
        flag = argument.partition("=")[0]
        for name, command in commands_of(self).items():
            if flag in flags_of(command):
                return "{0} comes after a command: {1} {2} {0}".format(flag, self.prog, name)
        return super()._no_such_flag(argument)

    def _no_such_command(self, name: str) -> str:
        text = "there is no command '{}'; ".format(name)
        near = difflib.get_close_matches(name, commands_of(self), n=1, cutoff=_ALIKE)
        if near:
            return text + "did you mean {}?".format(near[0])
        if os.path.exists(name) or name.endswith(".py"):
            meant = "run" if name.endswith(".py") else "inspect"
            return text + "did you mean {} {} {}?".format(self.prog, meant, name)
        return text + "see {} --help".format(self.prog)


def _entry(name: str, text: str, width: int) -> List[str]:
    """A name and, beside it, a text in lines that are no wider than the terminal."""
    first = "  " + name.ljust(width)
    room = max(_columns(), len(first) + _LEAST_TEXT)
    return textwrap.wrap(first + text, room, subsequent_indent=" " * len(first))


def _reworded(message: str) -> str:
    """What argparse says is wrong with arguments, in the words of the other errors.

    Example:
      >>> _reworded("argument --to: invalid choice: 'skk' (choose from 'npy', 'sok')")
      "--to: 'skk' is not one of npy, sok; did you mean sok?"
      >>> _reworded("the following arguments are required: SOURCE, --to")
      'SOURCE and --to must be given'
      >>> _reworded("argument --ps: expected one argument")
      '--ps needs a value'
    """
    found = _MISSING.fullmatch(message)
    if found:
        *others, last = found["names"].split(", ")
        return "{} must be given".format(" and ".join(filter(None, [", ".join(others), last])))
    found = _CHOICE.fullmatch(message)
    if found:
        value, choices = found["value"], found["choices"].replace("'", "").split(", ")
        near = difflib.get_close_matches(value, choices, n=1, cutoff=_ALIKE)
        text = "{}: '{}' is not one of {}".format(found["name"], value, ", ".join(choices))
        return text + "; did you mean {}?".format(near[0]) if near else text
    found = _NO_VALUE.fullmatch(message)
    if found:
        return "{} needs a value".format(found["name"])
    found = _OF_ONE.fullmatch(message)
    return found["rest"] if found else message


def actions_of(parser: argparse.ArgumentParser) -> List[argparse.Action]:
    """The arguments of a parser, which argparse tells only to a formatter of its help."""
    found: List[argparse.Action] = []

    class Listing(argparse.HelpFormatter):
        def add_argument(self, action: argparse.Action) -> None:
            found.append(action)

    formatter = parser.formatter_class
    parser.formatter_class = Listing
    try:
        argparse.ArgumentParser.format_help(parser)
    finally:
        parser.formatter_class = formatter
    return found


def flags_of(parser: argparse.ArgumentParser) -> List[str]:
    """The flags of a parser, with all their names."""
    return [flag for action in actions_of(parser) for flag in action.option_strings]


def commands_of(program: Program) -> Mapping[str, Parser]:
    """The parser of each command, by its name."""
    (named,) = [action.choices for action in actions_of(program) if action.dest == "command"]
    assert isinstance(named, Mapping)
    return named


def wrapped_usage(usage: str, columns: int) -> str:
    """A usage line in lines that are not wider; what is in brackets stays in one line.

    Example:
      >>> print(wrapped_usage("graph-opt run [-np N] [--config FILE] SCRIPT", 44))
      graph-opt run [-np N] [--config FILE]
                           SCRIPT
    """
    program, command, *words = usage.split()
    lines = [" ".join([program, command])]
    indent = " " * (len(_USAGE) + len(lines[0]))
    for group in _groups(words):
        taken = len(lines[-1]) + (len(_USAGE) if len(lines) == 1 else 0)
        if taken + 1 + len(group) > columns:
            lines.append(indent)
        lines[-1] += " " + group
    return "\n".join(lines)


def _groups(words: Sequence[str]) -> Iterator[str]:
    group: List[str] = []
    for word in words:
        group.append(word)
        text = " ".join(group)
        if sum(map(text.count, "[{")) == sum(map(text.count, "]}")):
            yield text
            group = []


def _columns() -> int:
    return min(terminal_size().columns, WIDEST)


class _Formatter(argparse.HelpFormatter):
    """Uses the width of the terminal, but no more than can be read."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _coloured(text: str) -> str:
    text = _NAMES.sub(lambda found: painted(found.group(), COMMAND), text)
    return _HEADINGS.sub(lambda found: painted(found.group(), HEADING), text)
