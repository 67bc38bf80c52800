"""Tables of pages that are made from the package: `python -m tools.docs.tables` writes them anew.

A comment in front of a table says of what it is made. `refusals` has a row for each code, and
`flags of check but run` the flags of a command, as `--help` describes them, without those that
another command has, too. `options of OptimizerOptions` fills in types and defaults; which rows
there are, their ranges and what they mean is written on the page. `numbers` has the fields of all
messages, `commands` all commands with their pages, and `names` the public names for each use.
"""

from __future__ import annotations

import argparse
import re
from typing import Any, Callable, Dict, List, Mapping, Sequence

from graph_opt.cli.arguments import parser
from graph_opt.cli.parser import Parser, actions_of, commands_of
from graph_opt.config.schema import FIELDS, NewField
from tools.docs.pages import DOCS, REPOSITORY
from tools.docs.reference import GROUPS

REFUSALS = REPOSITORY / "graph_opt" / "reporting" / "refusals.txt"
_MARKED = re.compile(
    r"(?<=<!-- )(refusals|flags|options|numbers|commands|names)(?: of (.*?))?( -->\n.*\n.*\n)"
    r"((?:\|.*\n)+)(?=<!-- end -->)"
)
_ROW = re.compile(r"\| `(\w+)` \|[^|]*\|[^|]*\|(.*)")  # name, type, default, and what else
_CODE = re.compile(
    r"(?<![^\s(])(--[a-z][\w-]*|\.?[\w/]+[._=(][\w./=]*\w(?:\(\w+\)[\w.()]*)?|\.[a-z]+"
    r"|\w+\(\.\.\.\))(?=[\s,;:.)]|$)"
)


def main() -> None:
    """Writes the tables of all pages in docs/."""
    for path in sorted(DOCS.glob("*.md")):
        path.write_text(with_tables(path.read_text("utf-8")), encoding="utf-8")


def with_tables(page: str) -> str:
    """The text of a page with the rows of its tables as the package has them.

    Raises:
      KeyError: A table has a row of an option, or is of a command, that is not there.
    """

    def written(found: Any) -> str:
        kind, of, head, rows = found.groups()
        named = " of ".join([kind, of] if of else [kind])
        return named + head + "".join(row + "\n" for row in _ROWS[kind](of, rows.splitlines()))

    return _MARKED.sub(written, page)


def _refusals(_: str, rows: Sequence[str]) -> Sequence[str]:
    return REFUSALS.read_text("utf-8").splitlines()


def _flags(of: str, rows: Sequence[str]) -> Sequence[str]:
    of_command = {name: _rows_of_flags(command) for name, command in commands().items()}
    named, _, others = of.partition(" but ")
    known = [row for name in others.split() for row in of_command[name]]
    found = [row for name in named.split() for row in of_command[name]]
    return [row for row in dict.fromkeys(found) if row not in known]


def commands() -> Mapping[str, Parser]:
    """The parser of each command of `graph-opt`, by its name."""
    return commands_of(parser())


def _rows_of_flags(command: Parser) -> List[str]:
    flags = [action for action in actions_of(command) if action.option_strings]
    return [_row_of_flag(action) for action in flags if action.dest != "help"]


def _row_of_flag(action: argparse.Action) -> str:
    value = action.metavar or ("{{{}}}".format(",".join(action.choices)) if action.choices else "")
    flags = ["`{}`".format(" ".join([flag, str(value)]).strip()) for flag in action.option_strings]
    return "| {} | {} |".format(", ".join(flags), _CODE.sub(r"`\1`", action.help or ""))


def _commands(_: str, rows: Sequence[str]) -> Sequence[str]:
    """A row for each command; `page_of` has its flags."""
    form = "| [`graph-opt {}`]({}.md) | {} | `graph-opt {}` |"
    return [
        form.format(name, page_of(name), command.summary, command.example.partition(" ")[2])
        for name, command in commands().items()
    ]


def _names(_: str, rows: Sequence[str]) -> Sequence[str]:
    """A row for each page of the API reference."""
    return [
        "| {} | {} | {} |".format(
            group.title, group.question, ", ".join("`{}`".format(name) for name in group.names)
        )
        for group in GROUPS
    ]


def page_of(command: str) -> str:
    """The name of a command's page."""
    return "command-" + command


def _options(of: str, rows: Sequence[str]) -> Sequence[str]:
    fields = {field.name: field for field in FIELDS if field.message == of}
    return [_ROW.sub(lambda row: _row_of_option(fields[row[1]], row[2]), row) for row in rows]


def _row_of_option(field: NewField, rest: str) -> str:
    """A row with what else the page says of the option."""
    kind = ("repeated " if field.repeated else "") + (field.kind if field.is_scalar else "message")
    return "| `{}` | {} | {} |{}".format(field.name, kind, field.default, rest)


def _numbers(_: str, rows: Sequence[str]) -> Sequence[str]:
    """A row for each message, with the numbers that its fields have on the wire."""
    messages = sorted({field.message for field in FIELDS})
    return ["| `{}` | {} |".format(message, _fields_of(message)) for message in messages]


def _fields_of(message: str) -> str:
    fields = sorted((field.number, field.name) for field in FIELDS if field.message == message)
    return ", ".join("`{}` {}".format(name, number) for number, name in fields)


_ROWS: Dict[str, Callable[[str, Sequence[str]], Sequence[str]]] = {
    "refusals": _refusals,
    "flags": _flags,
    "options": _options,
    "numbers": _numbers,
    "commands": _commands,
    "names": _names,
}

if __name__ == "__main__":
    main()
