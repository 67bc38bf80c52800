"""What a shell completes on the command line of `graph-opt`: scripts for bash, zsh and fish.

They are made from the parser and complete without starting Python: commands, flags, choices, names
of options behind `--set`, and files. Behind a script that a command runs, only files are.
"""

from __future__ import annotations

import argparse
import re
from typing import Any, Dict, List, NamedTuple, Sequence

from graph_opt.cli.parser import Parser, Program, actions_of, commands_of
from graph_opt.config.schema import FIELDS

SHELLS = ("bash", "fish", "zsh")
_PATH = re.compile(r"\b(FILE|FOLDER|OUT|LOGDIR|CHECKPOINT|OTHER|IN|SOURCE|TARGET|SCRIPT)\b")
_CLAUSE = re.compile(r"[;.] |, (?:as|if|in|which) | \(")
_LONGEST = 70


class Flag(NamedTuple):
    """A flag of a command.

    Attributes:
      names: `--output`, and shorter forms.
      text: What it does, in few words.
      takes_value: Whether an argument follows.
      takes_path: Whether that is a file or a folder.
      words: What that may be, if it is one of a few.
    """

    names: Sequence[str]
    text: str
    takes_value: bool
    takes_path: bool
    words: Sequence[str]


class Command(NamedTuple):
    """A command.

    Attributes:
      name: Its name.
      text: What it does, in few words.
      flags: Its flags.
      words: What its arguments may be, if they are one of a few.
      takes_paths: Whether they are files or folders.
      runs_script: Whether the first of them is a script, which all others are for.
    """

    name: str
    text: str
    flags: Sequence[Flag]
    words: Sequence[str]
    takes_paths: bool
    runs_script: bool


def add_completion(commands: Any) -> None:
    """Adds the command to the parser's."""
    command = commands.add_parser(
        "completion",
        summary="print the script with which a shell completes commands, flags and options",
        example="graph-opt completion bash",
        description="Prints the script that completes the command line of graph-opt. Load it with "
        "`source <(graph-opt completion bash)` in bash, `source <(graph-opt completion zsh)` in "
        "zsh, or `graph-opt completion fish | source` in fish.",
    )
    command.add_argument("shell", choices=SHELLS, help="the shell: bash, fish or zsh")


def completion(program: Program, shell: str) -> str:
    """The script for a shell.

    Example:
      >>> print(completion(parser(), "bash").splitlines()[0])
      # Completes graph-opt in bash; printed by graph-opt completion bash.
    """
    commands = [_described(name, command) for name, command in commands_of(program).items()]
    body = {"bash": _bash, "fish": _fish, "zsh": _zsh}[shell](commands)
    first = "#compdef graph-opt\n" if shell == "zsh" else ""
    text = "{}# Completes graph-opt in {}; printed by graph-opt completion {}.\n{}\n"
    return text.format(first, shell, shell, body)


def _described(name: str, command: Parser) -> Command:
    actions = actions_of(command)
    places = [action for action in actions if not action.option_strings]
    words = [str(word) for action in places for word in action.choices or ()]
    return Command(
        name,
        command.summary,
        [_flag(action) for action in actions if action.option_strings],
        words,
        any(_PATH.search(str(action.metavar)) for action in places),
        any(action.nargs == argparse.REMAINDER for action in places),
    )


def _flag(action: argparse.Action) -> Flag:
    words = [str(word) for word in action.choices or ()]
    if action.dest == "settings":
        words = sorted({field.name + "=" for field in FIELDS if field.is_scalar})
    text = _CLAUSE.split(action.help or "")[0]
    return Flag(
        action.option_strings,
        text if len(text) <= _LONGEST else text[:_LONGEST].rsplit(" ", 1)[0] + " ...",
        action.nargs != 0,
        _PATH.search(str(action.metavar or "")) is not None,
        words,
    )


def _names(flags: Sequence[Flag]) -> List[str]:
    return [name for flag in flags for name in flag.names]


_BASH = """\
_graph_opt() {{
  local current previous command flags= valued= scripted= words= at joined=
  local -a line=()
  for ((at = 0; at <= COMP_CWORD; at++)); do # Bash takes key=value for three words.
    if [ -n "$joined" ] || [ "${{COMP_WORDS[at]}}" = = ]; then
      line[-1]+=${{COMP_WORDS[at]}}
      case ${{COMP_WORDS[at]}} in =) joined=yes ;; *) joined= ;; esac
    else
      line+=("${{COMP_WORDS[at]}}")
    fi
  done
  current=${{line[-1]}} previous=${{line[-2]}} command=${{line[1]}}
  case $current in --*=*) previous=${{current%%=*}} current=${{current#*=}} ;; esac
  COMPREPLY=()
  if [ ${{#line[@]}} -eq 2 ]; then
    COMPREPLY=($(compgen -W "{commands} --help --version" -- "$current"))
    return
  fi
  case $command in
{cases}
  esac
  if [ -n "$scripted" ]; then # Behind the script, arguments are its own.
    for ((at = 2; at < ${{#line[@]}} - 1; at++)); do
      case " $valued " in *" ${{line[at]}} "*) ((at++)); continue ;; esac
      case ${{line[at]}} in -*) ;; *) return ;; esac
    done
  fi
  case "$command $previous" in
{values}
    *) case " $valued " in *" $previous "*) compopt +o default; return ;; esac ;;
  esac
  if [ "${{current:0:1}}" = - ]; then
    COMPREPLY=($(compgen -W "$flags" -- "$current"))
  elif [ -n "$words" ]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  fi
}}
complete -o default -F _graph_opt graph-opt"""


def _bash(commands: Sequence[Command]) -> str:
    cases, values = [], _bash_values(commands)
    for command in commands:
        cases.append(
            '    {}) flags="{}" valued="{}" scripted={} words="{}" ;;'.format(
                command.name,
                " ".join(_names(command.flags)),
                " ".join(_names([flag for flag in command.flags if flag.takes_value])),
                "yes" if command.runs_script else "",
                " ".join(command.words),
            )
        )
    return _BASH.format(
        commands=" ".join(command.name for command in commands),
        cases="\n".join(cases),
        values="\n".join(values),
    )


def _bash_values(commands: Sequence[Command]) -> List[str]:
    """What the values of flags may be; that of any other flag is not known."""
    replies: Dict[str, List[str]] = {}
    for command in commands:
        for flag in command.flags:
            if flag.words or flag.takes_path:
                names = ['"{} {}"'.format(command.name, name) for name in flag.names]
                replies.setdefault(_bash_reply(flag), []).extend(names)
    return ["    {}) {} ;;".format("|".join(names), reply) for reply, names in replies.items()]


def _bash_reply(flag: Flag) -> str:
    if flag.takes_path:
        return "return"
    reply = 'COMPREPLY=($(compgen -W "{}" -- "$current")); '.format(" ".join(flag.words))
    return reply + ("compopt -o nospace; return" if flag.words[0].endswith("=") else "return")


_FISH = """\
function __graph_opt_begins
    test (count (commandline -opc)) = 1
end
function __graph_opt_is
    set -l words (commandline -opc)
    test (count $words) -gt 1; and test $words[2] = $argv[1]
end
function __graph_opt_before_script # Behind the script, arguments are its own.
    __graph_opt_is $argv[1]; or return 1
    set -l words (commandline -opc)
    set -e words[1..2]
    set -l skipped 0
    for word in $words
        if test $skipped = 1
            set skipped 0
        else if contains -- $word $argv[2..-1]
            set skipped 1
        else if not string match -q -- '-*' $word
            return 1
        end
    end
end
complete -c graph-opt -f
complete -c graph-opt -n __graph_opt_begins -l help -s h -d 'list the commands'
complete -c graph-opt -n __graph_opt_begins -l version -d 'print the releases'
{commands}"""


def _fish(commands: Sequence[Command]) -> str:
    lines = []
    for command in commands:
        line = "complete -c graph-opt -n __graph_opt_begins -a {} -d {}"
        lines.append(line.format(command.name, _quoted(command.text)))
    for command in commands:
        within = "__graph_opt_is " + command.name
        before = within
        if command.runs_script:
            valued = [flag for flag in command.flags if flag.takes_value]
            words = [command.name, *_names(valued)]
            before = "__graph_opt_before_script " + " ".join(words)
        start = "complete -c graph-opt -n {} "
        if command.takes_paths:
            lines.append(start.format(_quoted(within)) + "-F")
        if command.words:
            lines.append(start.format(_quoted(within)) + "-a " + _quoted(" ".join(command.words)))
        for flag in command.flags:
            lines.append(start.format(_quoted(before)) + _fish_flag(flag))
    return _FISH.format(commands="\n".join(lines))


def _fish_flag(flag: Flag) -> str:
    short = {2: "-s "}  # -o is of more than one letter.
    names = [
        "-l " + name[2:] if name.startswith("--") else short.get(len(name), "-o ") + name[1:]
        for name in flag.names
    ]
    kind = []
    if flag.words:
        kind = ["-x", "-a", _quoted(" ".join(flag.words))]
    elif flag.takes_value:
        kind = ["-r", "-F"] if flag.takes_path else ["-x"]
    return " ".join([*names, *kind, "-d", _quoted(flag.text)])


_ZSH = """\
_graph_opt() {{
  local -a commands
  commands=(
{commands}
  )
  if (( CURRENT == 2 )); then
    _describe -t commands command commands
    return
  fi
  shift words
  (( CURRENT-- ))
  case $words[1] in
{cases}
  esac
}}
if [ "$funcstack[1]" = _graph_opt ]; then
  _graph_opt "$@"
else
  compdef _graph_opt graph-opt
fi"""


def _zsh(commands: Sequence[Command]) -> str:
    cases = []
    for command in commands:
        arguments = [one for flag in command.flags for one in _zsh_flag(flag)]
        rest = "({})".format(" ".join(command.words)) if command.words else "_files"
        if command.words or command.takes_paths:
            arguments.append("*:argument:" + rest)
        start = "_arguments -A '-*'" if command.runs_script else "_arguments"
        lines = " \\\n".join("      " + _quoted(one) for one in arguments)
        cases.append("    {}) {} \\\n{} ;;".format(command.name, start, lines))
    listed = ["    " + _quoted("{}:{}".format(command.name, command.text)) for command in commands]
    return _ZSH.format(commands="\n".join(listed), cases="\n".join(cases))


def _zsh_flag(flag: Flag) -> List[str]:
    if flag.words:
        value = ":value:({})".format(" ".join(flag.words))
        if flag.words[0].endswith("="):
            value = ":value:{{compadd -S '' -- {}}}".format(" ".join(flag.words))
    elif flag.takes_value:
        value = ":value:_files" if flag.takes_path else ":value: "
    else:
        value = ""
    text = re.sub(r"([\[\]:\\])", r"\\\1", flag.text)
    # "--flag value" or "--flag=value"
    names = [name + "=" * (bool(value) and name.startswith("--")) for name in flag.names]
    return ["*{}[{}]{}".format(name, text, value) for name in names]


def _quoted(text: str) -> str:
    """As one word of all three shells."""
    return "'" + text.replace("'", "'\\''") + "'"
