"""Measure how easily the code reads, and fail when it reads less easily than before.

Usage:
    python tools/house.py            print each number, its ceiling and its goal
    python tools/house.py --check    exit with 1 if a number is above its ceiling
    python tools/house.py --lower    write the numbers that got better as the new ceilings

The ceilings and goals are in `tools/house.toml`. Counted are the Python files of `agents/` and
`console/`, without the practice world. A docstring is not a statement here.
"""

from __future__ import annotations

import argparse
import ast
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMITS = Path(__file__).with_suffix(".toml")
SOURCES = ("agents", "console")
#: The practice world stands in for real trainers and pods, and copies how they are written.
PRACTICE = ("console/bs4_practice/",)
#: One module a command is the plan of this folder.
COMMANDS = "console/bs4_console/cli"
LINE_MOST = 100
#: A record with this many fields is made by their names.
FIELDS_MOST = 7
#: Types of a record whose fields nobody checks, if their values are Any or object.
MAPPINGS = ("dict", "Dict", "Mapping", "MutableMapping")
CONSOLE, AGENT = "console/bs4_console", "bs4_agent"
TRAINERS = ("prime-rl-2026-01", "prime-rl", "prime-rl-current", "verl")
#: Only these folders may ask which trainer it is.
TRAINER_FOLDERS = ("trainers", "configs")

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
CROWDING = (
    *COMPREHENSIONS,
    ast.IfExp,
    ast.BoolOp,
    ast.Lambda,
    ast.NamedExpr,
    ast.Starred,
)


@dataclass(kw_only=True)
class Counts:
    """What was counted in a set of files."""

    statements: int = 0
    lines: int = 0
    conditionals: int = 0
    comprehensions: int = 0
    crowded: int = 0
    long_lines: int = 0
    skips: int = 0
    positional: int = 0
    loose: int = 0
    trainers: int = 0
    agent_imports: int = 0
    folders: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Number:
    """One number of the house: `value` now, and what it counts."""

    name: str
    value: float
    meaning: str


@dataclass(frozen=True)
class Limit:
    """How high a number may be: `ceiling` today, `goal` in the end.

    A number without a ceiling is printed and never fails.
    """

    ceiling: float | None
    goal: float


def main(arguments: list[str] | None = None) -> int:
    """Print the numbers. Return 1 if `--check` is given and one is above its ceiling, else 0."""
    parser = argparse.ArgumentParser(description="Measure how easily the code reads.")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--check", action="store_true", help="fail if a number got worse")
    choice.add_argument("--lower", action="store_true", help="keep what got better as ceilings")
    chosen = parser.parse_args(arguments)
    numbers = measure(source_files(ROOT), ROOT)
    limits = read_limits(LIMITS)
    worse = [number for number in numbers if is_worse(number, limits[number.name])]
    if chosen.lower:
        LIMITS.write_text(lowered(numbers, limits))
        return 0
    if not chosen.check:
        for number in numbers:
            print(described(number, limits[number.name]))
        return 0
    for number in worse:
        print(f"tools/house.py: {described(number, limits[number.name])}", file=sys.stderr)
    if worse:
        print("Write the change in simpler statements.", file=sys.stderr)
    return 1 if worse else 0


def source_files(root: Path) -> Iterator[Path]:
    """Yield the files that are counted, in the order of their names."""
    for folder in SOURCES:
        for path in sorted((root / folder).rglob("*.py")):
            if not path.relative_to(root).as_posix().startswith(PRACTICE):
                yield path


def measure(paths: Iterator[Path], root: Path) -> list[Number]:
    """Return the numbers of the files at `paths`, which lie under `root`."""
    counts = Counts()
    modules: dict[str, ast.Module] = {}
    for path in paths:
        text, place = path.read_text(), path.relative_to(root)
        count_file(text, counts)
        counts.folders[place.parent.as_posix()] += 1
        modules[place.with_suffix("").as_posix()] = ast.parse(text)
    count_uses(modules, counts)
    del counts.folders[COMMANDS]
    hundreds, thousands = counts.statements / 100, counts.lines / 1000
    fullest, most = counts.folders.most_common(1)[0]
    return [
        Number("statements", counts.statements, "statements"),
        Number(
            "conditionals",
            round(counts.conditionals / hundreds, 2),
            "conditional expressions per 100 statements (also `a and b or c` and an indexed "
            "literal, in their place)",
        ),
        Number(
            "comprehensions",
            round(counts.comprehensions / hundreds, 2),
            "comprehensions per 100 statements (also `map` and `filter`, in their place)",
        ),
        Number(
            "crowded",
            round(counts.crowded / thousands, 2),
            "statements per 1,000 lines with three or more of: conditional expression, "
            "comprehension, and/or, lambda, assignment expression, unpacking",
        ),
        Number("long_lines", counts.long_lines, f"lines over {LINE_MOST} columns"),
        Number("skips", counts.skips, "lines that the formatter is told to skip"),
        Number(
            "positional",
            counts.positional,
            f"records of {FIELDS_MOST} fields or more that can be made without their names",
        ),
        Number("folder", most, f"modules in the fullest folder, {fullest}"),
        Number(
            "loose_records",
            counts.loose,
            "dicts and mappings with values of any type in signatures (also under another name)",
        ),
        Number(
            "trainer_ids",
            counts.trainers,
            "comparisons with a trainer's id, and tables by it, outside folders named "
            + " and ".join(TRAINER_FOLDERS),
        ),
        Number("agent_imports", counts.agent_imports, "imports of the agent in the console"),
    ]


def count_file(text: str, counts: Counts) -> None:
    """Add to `counts` what is counted in `text`, the source of one module: its lines, the lines
    that are too long, the comments `# fmt: skip`, and its statements with what makes them hard to
    read.
    """
    lines = text.splitlines()
    counts.lines += len(lines)
    counts.long_lines += sum(len(line) > LINE_MOST for line in lines)
    counts.skips += text.count("# fmt: skip")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.stmt):
            count_statement(node, counts)


def count_statement(statement: ast.stmt, counts: Counts) -> None:
    """Add one statement and its own expressions, without those of the statements inside it."""
    if is_docstring(statement):
        return
    counts.statements += 1
    if isinstance(statement, ast.ClassDef):
        counts.positional += is_positional_record(statement)
    expressions = list(own_expressions(statement))
    counts.conditionals += sum(is_conditional(expression) for expression in expressions)
    counts.comprehensions += sum(is_comprehension(expression) for expression in expressions)
    counts.crowded += sum(isinstance(expression, CROWDING) for expression in expressions) >= 3


def own_expressions(node: ast.AST) -> Iterator[ast.AST]:
    """Yield every expression below `node`, but none of a statement inside it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.stmt):
            yield child
            yield from own_expressions(child)


def is_docstring(statement: ast.stmt) -> bool:
    """Return True for a string that stands alone: a docstring, or the text under a constant."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Constant):
        return False
    return isinstance(statement.value.value, str)


def is_positional_record(node: ast.ClassDef) -> bool:
    """Return True for a dataclass of many fields that is not keyword-only."""
    for decorator in node.decorator_list:
        text = ast.unparse(decorator)
        if text.startswith(("dataclass", "dataclasses.dataclass")) and "kw_only=True" not in text:
            fields = [line for line in node.body if isinstance(line, ast.AnnAssign)]
            return len(fields) >= FIELDS_MOST
    return False


def is_conditional(node: ast.AST) -> bool:
    """Return True for `a if b else c`, and for what is written to avoid it."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Tuple | ast.List | ast.Dict)
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        first = node.values[0]
        chooses = isinstance(first, ast.BoolOp) and isinstance(first.op, ast.And)
        return chooses and not is_truth(node.values[-1])
    return isinstance(node, ast.IfExp)


def is_truth(node: ast.AST) -> bool:
    """Return True for a truth value. With one at its end, `a and b or c` chooses nothing."""
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not)
    return isinstance(node, ast.Compare | ast.BoolOp | ast.Call | ast.Name | ast.Attribute)


def is_comprehension(node: ast.AST) -> bool:
    """Return True if `node` is a comprehension, a generator expression, or a call of `map` or
    `filter`, which are often written in place of one.
    """
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in ("map", "filter")
    return isinstance(node, COMPREHENSIONS)


def count_uses(modules: dict[str, ast.Module], counts: Counts) -> None:
    """Add what needs the names of other modules. `modules` is by path, without its suffix."""
    by_name = {path.split("/", 1)[1].replace("/", "."): tree for path, tree in modules.items()}
    aliases = names_of(by_name, is_loose_alias)
    ids = names_of(by_name, is_trainer_id)
    for path, tree in modules.items():
        name = path.split("/", 1)[1].replace("/", ".")
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                counts.loose += sum(loose_in(each, aliases[name]) for each in signature_types(node))
            elif isinstance(node, ast.Compare | ast.Dict | ast.MatchValue):
                if not set(TRAINER_FOLDERS) & set(path.split("/")):
                    counts.trainers += asks_trainer(node, ids[name])
            elif path.startswith(CONSOLE):
                counts.agent_imports += imports_agent(node)


def names_of(
    modules: dict[str, ast.Module], is_meant: Callable[[ast.expr, set[str]], bool]
) -> dict[str, set[str]]:
    """Return for each module the names that it gives to what `is_meant`, or imports of that."""
    found: dict[str, set[str]] = {name: set() for name in modules}
    imports = {name: list(theirs_of(tree, set(modules))) for name, tree in modules.items()}
    before = -1
    while before != sum(map(len, found.values())):
        before = sum(map(len, found.values()))
        for name, tree in modules.items():
            for own, module, theirs in imports[name]:
                if theirs in found[module]:
                    found[name].add(own)
            for node in tree.body:
                if isinstance(node, ast.Assign) and is_meant(node.value, found[name]):
                    found[name] |= {t.id for t in node.targets if isinstance(t, ast.Name)}
    dotted = {name: dotted_of(tree, found) for name, tree in modules.items()}
    return {name: found[name] | dotted[name] for name in modules}


def dotted_of(tree: ast.Module, found: dict[str, set[str]]) -> set[str]:
    """Return the names in `found` of the modules that a module imports, as it writes them:
    `launcher.CURRENT`.
    """
    dotted = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for name in node.names:
                theirs = found.get(f"{node.module}.{name.name}", set())
                dotted |= {f"{name.asname or name.name}.{each}" for each in theirs}
    return dotted


def theirs_of(tree: ast.Module, modules: set[str]) -> Iterator[tuple[str, str, str]]:
    """Yield each import from one of `modules`: the name here, the module, the name there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in modules:
            for name in node.names:
                yield name.asname or name.name, str(node.module), name.name


def signature_types(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    """Yield the types in the signature of a function."""
    given = node.args
    every = [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]
    for argument in every:
        if argument is not None and argument.annotation is not None:
            yield argument.annotation
    if node.returns is not None:
        yield node.returns


def is_loose_alias(value: ast.expr, aliases: set[str]) -> bool:
    """Return True for a type that holds a loose mapping. A bare `dict` is a function here."""
    if isinstance(value, ast.Name):
        return value.id in aliases
    return isinstance(value, ast.Subscript | ast.BinOp) and loose_in(value, aliases) > 0


def loose_in(node: ast.AST, aliases: set[str]) -> int:
    """Return how many mappings with values of any type stand in an annotation."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            return loose_in(ast.parse(node.value, mode="eval").body, aliases)
        except SyntaxError:  # A key of a table, where an alias was looked for.
            return 0
    if isinstance(node, ast.Name):
        return node.id in aliases or node.id in MAPPINGS
    if isinstance(node, ast.Subscript):
        kind = ast.unparse(node.value)
        if kind == "Literal":
            return 0
        held = ast.unparse(node.slice).strip("()").rpartition(" ")[2]
        if kind in MAPPINGS and held in ("Any", "object"):
            return 1
        return loose_in(node.slice, aliases)
    return sum(loose_in(child, aliases) for child in ast.iter_child_nodes(node))


def is_trainer_id(value: ast.expr, ids: set[str]) -> bool:
    """Return True for the id of a trainer, a name of one, and a collection that holds one."""
    if isinstance(value, ast.Name | ast.Attribute):
        return ast.unparse(value) in ids
    if isinstance(value, ast.Tuple | ast.List | ast.Set):
        return any(is_trainer_id(each, ids) for each in value.elts)
    return isinstance(value, ast.Constant) and value.value in TRAINERS


def asks_trainer(node: ast.Compare | ast.Dict | ast.MatchValue, ids: set[str]) -> bool:
    """Return True if a comparison is with a trainer's id, or most keys of a table are ids."""
    if isinstance(node, ast.Compare):
        return any(is_trainer_id(each, ids) for each in (node.left, *node.comparators))
    if isinstance(node, ast.Dict):
        by_id = [each for each in node.keys if each is not None and is_trainer_id(each, ids)]
        return len(by_id) * 2 > len(node.keys)
    return is_trainer_id(node.value, ids)


def imports_agent(node: ast.AST) -> bool:
    """Return True for an import of the agent or of one of its modules."""
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").split(".")[0] == AGENT
    return isinstance(node, ast.Import) and any(
        name.name.split(".")[0] == AGENT for name in node.names
    )


def read_limits(path: Path) -> dict[str, Limit]:
    """Return the limits by the number's name."""
    tables = tomllib.loads(path.read_text())
    return {name: Limit(table.get("ceiling"), table["goal"]) for name, table in tables.items()}


def is_worse(number: Number, limit: Limit) -> bool:
    """Return True if the number is above its ceiling."""
    return limit.ceiling is not None and number.value > limit.ceiling


def lowered(numbers: list[Number], limits: dict[str, Limit]) -> str:
    """Return the text of the limits, each ceiling lowered to its number if that got better."""
    lines = ["# What each number counts: python tools/house.py"]
    for number in numbers:
        limit = limits[number.name]
        lines += ["", f"[{number.name}]"]
        if limit.ceiling is not None:
            lines.append(f"ceiling = {min(limit.ceiling, number.value)}")
        lines.append(f"goal = {limit.goal}")
    return "\n".join(lines) + "\n"


def described(number: Number, limit: Limit) -> str:
    """Return one line that says the number, its limits and what it counts."""
    ceiling = "" if limit.ceiling is None else f"ceiling {limit.ceiling:g}, "
    return f"{number.name:<15}{number.value:>9,g}  ({ceiling}goal {limit.goal:g}): {number.meaning}"


if __name__ == "__main__":
    sys.exit(main())
