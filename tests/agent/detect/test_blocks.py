"""The lines of a block are the same, whichever way they are found."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bs4_common.failures.blocks import LINE_CAP, Block, Lines

LINES = st.lists(
    st.sampled_from(
        [
            b"",
            b" \t",
            b"one",
            b"two words\r",
            b"\x1b[32mgreen",
            b"z" * 5000,
            b" " * 5000,
            b"\xff\xfe",
        ]
    ),
    min_size=1,
    max_size=12,
)


@given(LINES, st.booleans(), st.data())
def test_every_way_to_a_line_finds_the_same_one(given_lines, closed, data):
    text = b"\n".join(given_lines) + (b"\n" if closed else b"")
    raws = text.removesuffix(b"\n").split(b"\n")
    known, start = [], 0
    for raw in raws:
        known.append((start, raw))
        start += len(raw) + 1
    lines = Lines(text)

    assert list(lines.all()) == known
    assert [lines.at(number) for number in range(len(known))] == known
    assert [lines.line_at(at) for at, _ in known if at < len(text)] == [
        raw for at, raw in known if at < len(text)
    ]
    for number in data.draw(st.permutations(range(len(known)))):
        assert lines.number(known[number][0]) == number
    assert lines.count() == len(known)
    offset = data.draw(st.integers(0, len(text)))
    later = [at for at, _ in known if at >= offset]
    assert lines.next_start(offset) == min([*later, len(text)])


@given(LINES, st.booleans(), st.data())
def test_lines_above_a_place_come_the_last_first(given_lines, closed, data):
    text = b"\n".join(given_lines) + (b"\n" if closed else b"")
    known = [line for line in Lines(text).all() if line[0] < len(text)]
    offset = data.draw(st.sampled_from([*(at for at, _ in known), len(text)]))
    least = data.draw(st.sampled_from([0, *(at for at, _ in known)]))
    above = [line for line in known if least <= line[0] < offset]
    # an empty line that ends the block without a line end begins where the block ends
    assert list(Lines(text).before(offset, least)) == above[::-1]

    written = [number for number, (_, raw) in enumerate(known) if raw.strip()]
    last = written[-1] + 1 if written else 0
    assert list(Lines(text).written()) == known[:last][::-1]


def test_a_line_that_is_too_long_is_capped_in_every_way():
    text = b"short\n" + b"y" * (LINE_CAP + 5) + b"\nend"
    lines = Lines(text)
    capped = (6, b"y" * LINE_CAP)
    assert lines.at(1) == capped
    assert lines.line_at(6) == capped[1]
    assert list(lines.before(len(text)))[1] == capped
    assert list(lines.all())[1] == capped
    assert next(Lines(text[:-4]).written()) == capped


def test_a_place_is_that_of_the_file_also_where_something_was_taken_off():
    block = Block(b"one\ntwo\n", 100, 5, None)
    assert block.place(1, 4) == 104
    undressed = Block(b"one\ntwo\n", 100, 5, None, raw=b"| one\n| two\n")
    assert undressed.place(1, 4) == 106
