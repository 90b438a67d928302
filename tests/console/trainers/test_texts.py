"""The strings that a piece of source makes."""

from __future__ import annotations

import ast

import pytest

from bs4_console.trainers import extract
from bs4_console.trainers.texts import HOLE, WAYS_MOST, given_in, made, pattern


@pytest.mark.parametrize(
    ("source", "ways"),
    [
        ("'a'", {"a"}),
        ("f'Step {n} of {m}'", {"Step # of #"}),
        ("f'({m or \"infinite\"})'", {"(#)", "(infinite)"}),
        ('f\'{"on" if x else "off"}!\'', {"on!", "off!"}),
        ("'a' + f'{b}' + 'c'", {"a#c"}),
        ("'%s of %.2f' % (a, b)", {"# of #"}),
        ("'{} of {x:.2f}'.format(a, x=b)", {"# of #"}),
        ("f'{n=}'", {"n=#"}),
        ("f'{a}{b}'", {"#"}),
        ("text()", {"#"}),
        ("f'{text.join(parts)}'", {"#"}),
    ],
)
def test_strings_of_an_expression(source: str, ways: set[str]) -> None:
    node = ast.parse(source, mode="eval").body
    assert {way.replace(HOLE, "#") for way in made(node, {})} == ways


def test_a_variable_has_what_its_function_gives_it_and_additions_may_be_missing() -> None:
    tree = ast.parse("m = f'Step {n}'\nif x:\n    m += f' | Max {y}'\nm += ' end'\nlog.info(m)\n")
    (said,) = extract.logged(tree)
    ways = {way.replace(HOLE, "#") for way in said.ways}
    assert {"Step # end", "Step # | Max # end"} <= ways
    assert (said.kind, said.line, said.last_line) == ("INFO", 1, 5)


def test_the_alternatives_of_a_string_are_bounded() -> None:
    parts = "".join("{'a' if x else 'b'}" for _ in range(40))
    node = ast.parse(f'f"{parts}"', mode="eval").body
    assert len(made(node, {})) <= WAYS_MOST


def test_a_deep_expression_ends_in_a_value() -> None:
    node = ast.parse("+".join(["'a'"] * 200), mode="eval").body
    assert HOLE in made(node, {})[0]


def test_a_function_does_not_see_the_variables_of_another() -> None:
    tree = ast.parse("def f():\n    m = 'inner'\ndef g():\n    log.info(m)\n")
    (said,) = extract.logged(tree)
    assert said.ways == (HOLE,)
    assert given_in(ast.parse("x: str = 'a'"))["x"].ways == ["a"]


def test_docstrings_and_pieces_of_f_strings_are_no_texts() -> None:
    tree = ast.parse('"""Doc."""\ndef f():\n    """Doc."""\n    return f"step_{n}" + g("logs")\n')
    ways = {way.replace(HOLE, "#") for said in extract.texts(tree) for way in said.ways}
    assert ways == {"step_#", "logs"}


def test_a_placeholder_fits_a_value_and_no_word() -> None:
    wording = pattern("Step <step:i> of <most>")
    assert wording.fullmatch(f"Step {HOLE} of {HOLE}")
    assert not wording.fullmatch("Step 3 of 4")
    assert not wording.fullmatch(f"Step {HOLE} out of {HOLE}")
    assert pattern("Cancelled <n>", whole=False).fullmatch(f"Cancelled {HOLE} requests")


def test_the_default_of_a_field_is_read_where_it_is_a_constant() -> None:
    (owner,) = ast.parse(
        "class C:\n"
        "    a: int = 3\n"
        "    b: int | None = Field(None, ge=1)\n"
        "    c: str = Field(default='x')\n"
        "    d: Path = Path('y')\n"
        "    e: int\n"
        "    f = 4\n"
    ).body
    found = {field.name: field.default for field in extract.fields(owner)}
    assert found == {"a": "3", "b": "None", "c": "'x'", "d": "", "e": ""}


def test_a_call_mentions_what_its_variables_were_set_to() -> None:
    tree = ast.parse("d = get_log_dir(config.out)\nshutil.rmtree(d, ignore_errors=True)\n")
    call = next(call for call in extract.calls(tree) if call.name == "rmtree")
    assert {"d", "get_log_dir", "out", "True"} <= call.mentions
