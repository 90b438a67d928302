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
    """What was counted in a set of Python files. `statements` does not include docstrings.
    `crowded` are statements with three or more expressions that are hard to read (see CROWDING).
    `long_lines` are lines of more than LINE_MOST columns, and `skips` are comments that make the
    formatter skip a line. `positional` are dataclasses of many fields that are not keyword-only.

    `loose` are dicts and mappings with values of any type in signatures. `trainers` are comparisons
    with a trainer's id and tables by it. `agent_imports` are imports of the agent in the console.
    `folders` has the number of modules in each folder.
    """

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
    """One measure of how easily the code reads, such as the number of lines that are too long.
    `value` is the measure at present, and `meaning` says in words what it counts.
    """

    name: str
    value: float
    meaning: str


@dataclass(frozen=True)
class Limit:
    """How high one of the measured numbers (such as the lines that are too long) may be. A check
    fails if the number is above `ceiling`; with None it never fails. `goal` is the value to reach
    in the end.
    """

    ceiling: float | None
    goal: float


def main(arguments: list[str] | None = None) -> int:
    """Measure how easily the code reads, and print the resulting numbers. With `--check`, print
    only those that are above their ceilings, and return 1 if there are any. With `--lower`, print
    nothing, and lower the ceilings of the numbers that got better. Return 0 otherwise. `arguments`
    is the command line; None means that of the process.
    """
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
    """Yield the Python files below `root` that this tool measures: those of `agents` and `console`,
    without the practice world (simulated pods). The files of each of the two are sorted by path.
    """
    for folder in SOURCES:
        for path in sorted((root / folder).rglob("*.py")):
            if not path.relative_to(root).as_posix().startswith(PRACTICE):
                yield path


def measure(paths: Iterator[Path], root: Path) -> list[Number]:
    """Measure the Python files at `paths`, which lie under `root`. Return one Number for each thing
    that is counted in all of them together, such as statements or lines that are too long.
    """
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
    """Return True if the class `node` is a dataclass with at least FIELDS_MOST (7) fields that is
    not declared with kw_only=True.
    """
    for decorator in node.decorator_list:
        text = ast.unparse(decorator)
        if text.startswith(("dataclass", "dataclasses.dataclass")) and "kw_only=True" not in text:
            fields = [line for line in node.body if isinstance(line, ast.AnnAssign)]
            return len(fields) >= FIELDS_MOST
    return False


def is_conditional(node: ast.AST) -> bool:
    """Return True if `node` chooses between values in one expression: `a if b else c`, or a form
    that stands for it, such as `b and a or c` or `(c, a)[b]`.
    """
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Tuple | ast.List | ast.Dict)
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        first = node.values[0]
        chooses = isinstance(first, ast.BoolOp) and isinstance(first.op, ast.And)
        return chooses and not is_truth(node.values[-1])
    return isinstance(node, ast.IfExp)


def is_truth(node: ast.AST) -> bool:
    """Return True if `node` may be meant as a truth value, such as a comparison, a name or a call.
    This tells two uses of `a and b or c` apart: with a truth value as `c` it is a plain condition,
    and otherwise it stands for `b if a else c`.
    """
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
    """Add to `counts` three measures, for which the names that modules import from each other must
    be known: signatures with loosely typed mappings, comparisons that ask which trainer it is, and
    imports of the agent in the console. `modules` maps the path of each module, without the suffix
    ".py", to its syntax tree.
    """
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
    """Return {module: names}: the names in each module that stand for a wanted expression.

    `modules` are syntax trees by the names of the modules. `is_meant(expression, names)` says if an
    expression is wanted; `names` are those that were found in the module so far. A name is found if
    the module assigns a wanted expression to it, or imports it from a module where it was found. If
    the module imports that other module as a whole, the name has a dot, as in `launcher.CURRENT`.
    """
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
    """Return the dotted names, such as "launcher.CURRENT", by which the module `tree` can use the
    names in `found`. `found` maps the full name of each module to a set of names in that module.
    Only modules that `tree` imports as in `from PACKAGE import MODULE` count.
    """
    dotted = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for name in node.names:
                theirs = found.get(f"{node.module}.{name.name}", set())
                dotted |= {f"{name.asname or name.name}.{each}" for each in theirs}
    return dotted


def theirs_of(tree: ast.Module, modules: set[str]) -> Iterator[tuple[str, str, str]]:
    """Yield three texts for each name that `tree` imports by `from MODULE import ...`, where MODULE
    is one of `modules`: the name that it gets in `tree`, the module, and its name in that module.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in modules:
            for name in node.names:
                yield name.asname or name.name, str(node.module), name.name


def signature_types(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    """Yield the type annotation of each parameter of the function `node`, then that of its result.
    What has no annotation is left out.
    """
    given = node.args
    every = [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]
    for argument in every:
        if argument is not None and argument.annotation is not None:
            yield argument.annotation
    if node.returns is not None:
        yield node.returns


def is_loose_alias(value: ast.expr, aliases: set[str]) -> bool:
    """Return True if `value`, the right side of an assignment, makes its name stand for a type with
    a loose mapping in it. A mapping is loose if nothing says of what type its values are (see
    MAPPINGS). `aliases` are names that are known to stand for such types. `dict` alone does not
    count, because outside an annotation it is the function `dict`.
    """
    if isinstance(value, ast.Name):
        return value.id in aliases
    return isinstance(value, ast.Subscript | ast.BinOp) and loose_in(value, aliases) > 0


def loose_in(node: ast.AST, aliases: set[str]) -> int:
    """Return how many loosely typed mappings the annotation `node` has: a mapping type without
    parameters, or one with values of type Any or object. `aliases` are the names of type aliases
    for such mappings; each use of one counts too.
    """
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
    """Return True if the expression `value` stands for the id of a trainer. It may be the id as a
    string, one of the names `ids` of constants that hold one, or a tuple, list or set in which one
    of these occurs.
    """
    if isinstance(value, ast.Name | ast.Attribute):
        return ast.unparse(value) in ids
    if isinstance(value, ast.Tuple | ast.List | ast.Set):
        return any(is_trainer_id(each, ids) for each in value.elts)
    return isinstance(value, ast.Constant) and value.value in TRAINERS


def asks_trainer(node: ast.Compare | ast.Dict | ast.MatchValue, ids: set[str]) -> bool:
    """Return True if the code at `node` asks which trainer is used. It does so if a side of a
    comparison, or the value of a `case`, is a trainer's id, or if more than half of the keys of a
    dictionary are. `ids` are the names that stand for such ids.
    """
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
    """Return the limits in the TOML file `path`, as {name: limit}. The name is that of the number
    (a measure of how easily the code reads) to which the limit belongs.
    """
    tables = tomllib.loads(path.read_text())
    return {name: Limit(table.get("ceiling"), table["goal"]) for name, table in tables.items()}


def is_worse(number: Number, limit: Limit) -> bool:
    """Return True if `number` is above its ceiling, so that `--check` fails. Return False if the
    limit has no ceiling.
    """
    return limit.ceiling is not None and number.value > limit.ceiling


def lowered(numbers: list[Number], limits: dict[str, Limit]) -> str:
    """Return the text of house.toml, the file of the limits. A ceiling that is higher than the
    present value in `numbers` is lowered to that value; the other ceilings and the goals stay.
    """
    lines = ["# What each number counts: python tools/house.py"]
    for number in numbers:
        limit = limits[number.name]
        lines += ["", f"[{number.name}]"]
        if limit.ceiling is not None:
            lines.append(f"ceiling = {min(limit.ceiling, number.value)}")
        lines.append(f"goal = {limit.goal}")
    return "\n".join(lines) + "\n"


def described(number: Number, limit: Limit) -> str:
    """Return one line about a measured number: its name, its value now, its ceiling (if it has one)
    and its goal, and what it counts.
    """
    ceiling = "" if limit.ceiling is None else f"ceiling {limit.ceiling:g}, "
    return f"{number.name:<15}{number.value:>9,g}  ({ceiling}goal {limit.goal:g}): {number.meaning}"


if __name__ == "__main__":
    sys.exit(main())
