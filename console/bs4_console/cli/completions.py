"""The command `completions`: scripts that complete this command line in a shell. They are generated
from the parsers themselves.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bs4_console.pods.inventory import Inventory

SHELLS = ("bash", "zsh", "fish")
#: The option whose value is a pod of the inventory. The names are read when Tab is pressed.
_POD = "--pod"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `completions` to its parser."""
    parser.add_argument(
        "shell",
        choices=(*SHELLS, "pods"),
        help="the shell to print a script for; `pods` prints the pods' names",
    )
    parser.epilog = (
        'bash: eval "$(bs4-console completions bash)"; zsh the same; fish: bs4-console '
        "completions fish | source"
    )


def run(options: argparse.Namespace) -> int:
    """Print the script that completes this program's command line in the shell `options.shell`
    (bash, zsh or fish), and return 0. If `options.shell` is "pods", print the names of all pods,
    one a line, which the scripts need.
    """
    if options.shell == "pods":
        sys.stdout.writelines(f"{pod.name}\n" for pod in Inventory().list())
        return 0
    from bs4_console.cli.main import build

    sys.stdout.write({"bash": bash, "zsh": zsh, "fish": fish}[options.shell](list(nodes(build()))))
    return 0


@dataclass(frozen=True)
class Node:
    """One argument parser (that of the program, a command or a subcommand), as the completion
    scripts need it. `path` has the words that lead to it on the command line. `words` are pairs
    (word, help): one for each subcommand, and one for each allowed value of a positional argument.
    `options` are (name, help, allowed values, True if the option takes a value).
    """

    path: tuple[str, ...]
    words: tuple[tuple[str, str], ...]
    options: tuple[tuple[str, str, tuple[str, ...], bool], ...]


def nodes(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[Node]:
    """Yield a Node for the parser and for every parser of a subcommand below it, the outermost
    first. `path` has the words that lead to `parser` on the command line.
    """
    words: list[tuple[str, str]] = []
    options: list[tuple[str, str, tuple[str, ...], bool]] = []
    below: list[tuple[str, argparse.ArgumentParser]] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            texts = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, child in action.choices.items():
                words.append((name, texts.get(name, "")))
                below.append((name, child))
        elif action.option_strings:
            choices = tuple(str(choice) for choice in action.choices or ())
            options.append(
                (action.option_strings[-1], action.help or "", choices, action.nargs != 0)
            )
        else:
            for choice in action.choices or ():
                words.append((str(choice), ""))
    yield Node(path, tuple(words), tuple(options))
    for name, child in below:
        yield from nodes(child, (*path, name))


def _quoted(text: str) -> str:
    """Return a text in single quotes for bash and zsh."""
    return "'" + text.replace("'", "'\\''") + "'"


def bash(found: list[Node]) -> str:
    """Return the completion script for bash: a function and the line that registers it. It works in
    bash 3.2, the version of macOS, too. `found` has the Node of every parser.
    """
    lines = [
        "_bs4_console() {",
        (
            '    local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" '
            'here="" word next known path'
        ),
        "    COMPREPLY=()",
        '    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
        '        next="${here:+$here }$word"',
        f"        for path in {_paths(found)}; do",
        '            if [ "$path" = "$next" ]; then here="$next"; fi',
        "        done",
        "    done",
        '    case "$here $prev" in',
    ]
    for place, choices in _valued(found):
        lines.append(f"        {place}) known={_quoted(' '.join(choices))} ;;")
    lines += [
        f'        *" {_POD}") known="$(bs4-console completions pods 2>/dev/null)" ;;',
        '        *) case "$here" in',
    ]
    for node in found:
        lines.append(f"            {_quoted(_joined(node))}) known={_quoted(_all(node))} ;;")
    lines += [
        "        esac ;;",
        "    esac",
        '    COMPREPLY=($(compgen -W "$known" -- "$cur"))',
        "}",
        "complete -o default -F _bs4_console bs4-console",
    ]
    return "\n".join(lines) + "\n"


def zsh(found: list[Node]) -> str:
    """Return the completion script for zsh. It shows the help of each subcommand and option beside
    its name. `found` has the Node of every parser.
    """
    lines = [
        "#compdef bs4-console",
        "_bs4_console() {",
        '    local here="" word prev="${words[CURRENT-1]}"',
        "    local -a known",
        f"    local -a paths=({_paths(found)})",
        '    for word in "${(@)words[2,CURRENT-1]}"; do',
        '        if (( ${paths[(Ie)${here:+$here }$word]} )); then here="${here:+$here }$word"; fi',
        "    done",
        '    case "$here $prev" in',
    ]
    for place, choices in _valued(found):
        lines.append(f"        {place}) known=({' '.join(_quoted(c) for c in choices)}) ;;")
    lines += [
        f'        *" {_POD}") known=(${{(f)"$(bs4-console completions pods 2>/dev/null)"}}) ;;',
        '        *) case "$here" in',
    ]
    for node in found:
        options = [option[:2] for option in node.options]
        words = " ".join(_described(word, text) for word, text in (*node.words, *options))
        lines.append(f"            {_quoted(_joined(node))}) known=({words}) ;;")
    lines += [
        "        esac ;;",
        "    esac",
        "    if (( $#known )); then _describe 'bs4-console' known || _files; else _files; fi",
        "}",
        "compdef _bs4_console bs4-console",
    ]
    return "\n".join(lines) + "\n"


def _paths(found: list[Node]) -> str:
    """Return the quoted paths of all parsers but the outermost, separated by spaces."""
    return " ".join(_quoted(_joined(node)) for node in found if node.path)


def _valued(found: list[Node]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each option that has choices, quoted behind its parser's path, with the choices."""
    for node in found:
        for name, _, choices, _ in node.options:
            if choices:
                yield _quoted(f"{_joined(node)} {name}"), choices


def fish(found: list[Node]) -> str:
    """Return the completion script for fish. It has one `complete` line for each subcommand, for
    each fixed value of a positional argument, and for each option. `found` has the Node of every
    parser.
    """
    lines = ["complete -c bs4-console -f"]
    for node in found:
        further = []
        for other in found:
            if other.path and other.path[:-1] == node.path:
                further.append(other.path[-1])
        start = f"complete -c bs4-console -n {_fish(_fish_condition(node, further))}"
        for word, text in node.words:
            lines.append(f"{start} -a {_fish(word)} -d {_fish(_first(text))}")
        for name, text, choices, valued in node.options:
            spelled = f"-s {name[1:]}"
            if name.startswith("--"):
                spelled = f"-l {name[2:]}"
            if valued:
                spelled += _fish_values(name, choices)
            lines.append(f"{start} {spelled} -d {_fish(_first(text))}")
        if node.path and not further:
            lines.append(f"{start} -F")
    return "\n".join(lines) + "\n"


def _fish_values(name: str, choices: tuple[str, ...]) -> str:
    """Return the part of fish's line that says which values an option takes."""
    if name == _POD:
        return " -x -a '(bs4-console completions pods)'"
    if choices:
        return f" -x -a {_fish(' '.join(choices))}"
    return " -r"


def _fish_condition(node: Node, further: Sequence[str]) -> str:
    """Return fish's condition for a parser: the words of its path are there, and none of `further`,
    which lead to the parsers below it.
    """
    conditions = []
    for word in node.path:
        conditions.append(f"__fish_seen_subcommand_from {word}")
    if further:
        conditions.append(f"not __fish_seen_subcommand_from {' '.join(further)}")
    return "; and ".join(conditions) or "true"


def _fish(text: str) -> str:
    """Return a text in single quotes for fish."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _joined(node: Node) -> str:
    """Return the words that lead to a parser, separated by spaces."""
    return " ".join(node.path)


def _all(node: Node) -> str:
    """Return all words and options that may follow, separated by spaces."""
    return " ".join([*(word for word, _ in node.words), *(option[0] for option in node.options)])


def _described(word: str, text: str) -> str:
    """Return a word with its help as zsh takes it."""
    return _quoted(f"{word}:{_first(text)}" if text else word)


def _first(text: str) -> str:
    """Return the help text up to its first stop, on one line."""
    return re.split(r"[;.(]\s|\n", text.replace("%%", "%"))[0].strip()
