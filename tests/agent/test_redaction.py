"""What is replaced, what stays, and that it does not matter where a text is cut."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tools.score import DEFAULT

from bs4_common.credentials.forms import forms
from bs4_common.credentials.redaction import (
    _ANCHORS_OF,
    Redactor,
    redacted,
    redacted_bytes,
    redacted_values,
    secrets_among,
)
from tests.hostile.trainer_secrets import PRINTED, TEXT

HEALTHY = (
    "12:00:01    INFO Step 3 | Loss: 0.1 | 12345 tokens/s | max_tokens=2048 | token: 128",
    "saved /data/run/weights/step_40 sha256 " + "0f" * 32,
    "id 6ba7b810-9dad-11d1-80b4-00c04fd430c8 tensor UklGRiQAAABXQVZFZm10IBAAAAABAAEA" + "QUJD" * 20,
    'tokenizer eos_token="<|im_end|>" api_key_var = "JUDGE_API_KEY" prompt_key=question',
    "client = Client(api_key=self.api_key, token=os.environ['HF_TOKEN'])",
)


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_what_a_trainer_prints_is_replaced(name: str) -> None:
    line, secret = PRINTED[name]
    for text in (line, f"a\n{line}\nb", f"error: \\n{line}"):
        cleaned = redacted(text)
        assert secret not in cleaned
        assert "[redacted" in cleaned


@pytest.mark.parametrize("name", ["API Key", "api key", "Access key", "application key"])
def test_a_name_in_two_words_is_one_of_a_secret(name: str) -> None:
    assert redacted(f"  {name}: quiet-harbour-31") == f"  {name}: [redacted]"
    assert redacted(f"the {name} is checked") == f"the {name} is checked"
    assert redacted("sort key: quiet-harbour-31") == "sort key: quiet-harbour-31"


def test_a_private_key_is_replaced_up_to_its_end() -> None:
    begin, end = "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"
    lines = [begin, *["MIIEcAnAry" + "A" * 54] * 3, end, "step 4"]
    cleaned = redacted("\n".join(lines))
    assert "cAnAry" not in cleaned
    assert cleaned.endswith("\nstep 4")
    assert "cAnAry" not in redacted("\\n".join(lines))


@pytest.mark.parametrize("line", HEALTHY)
def test_healthy_lines_stay(line: str) -> None:
    assert redacted(line) == line


@pytest.mark.skipif(not DEFAULT.is_dir(), reason="there is no corpus of logs here")
def test_the_corpus_stays() -> None:
    for path in sorted(DEFAULT.rglob("*.log")):
        text = path.read_text(errors="replace")
        assert redacted(text) == text, path


@given(st.lists(st.integers(0, len(TEXT)), max_size=12))
def test_pieces_give_what_the_whole_gives(cuts: list[int]) -> None:
    redactor, out = Redactor(), ""
    begin = 0
    for end in [*sorted(cuts), len(TEXT)]:
        out += redactor.feed(TEXT[begin:end])
        begin = end
    assert out + redactor.end() == redacted(TEXT)


def test_a_copy_for_a_report_is_as_long() -> None:
    data = TEXT.encode() + b"\xff\x85"
    copy = redacted_bytes(data)
    assert [len(line) for line in copy.split(b"\n")] == [len(line) for line in data.split(b"\n")]
    for _, secret in PRINTED.values():
        assert secret.encode() not in copy


def test_each_form_is_looked_for() -> None:
    assert {kind for kind, _ in forms()} - set(_ANCHORS_OF) == {"a private key"}


@given(st.lists(st.integers(0, len(TEXT)), max_size=12))
def test_what_is_shown_early_is_the_beginning_of_the_same(cuts: list[int]) -> None:
    redactor, out = Redactor(), ""
    begin = 0
    for end in [*sorted(cuts), len(TEXT)]:
        out += redactor.feed(TEXT[begin:end], early=True)
        begin = end
    assert out + redactor.end() == redacted(TEXT)


BEGIN, END = "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"
LONG_PARTS = (
    "word, " * 4_000,
    "x " * 9_000,
    f'"{BEGIN}" ',
    f'"{BEGIN}\\n{"cAnAry" * 1_500}\\n{END}" ',
    f"{BEGIN} is the first line, \x1b[0m",
    "see https://user:cAnAry22@host ",
    "my API key: abc-cAnAry-123456 ",
    f"HF_TOKEN=hf_cAnAry{'Ab1' * 10} ",
    f"Authorization: Bearer cAnAry{'a1' * 900} ",
    "12% done, \r",
)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(0, len(LONG_PARTS) - 1), min_size=4, max_size=16),
    st.lists(st.floats(0, 1), max_size=20),
    st.booleans(),
)
def test_pieces_of_a_long_line_give_what_the_whole_gives(
    parts: list[int], cuts: list[float], early: bool
) -> None:
    line = "".join(LONG_PARTS[part] for part in parts)
    expected = redacted(f"{line}\n")[:-1]
    assert "cAnAry" not in expected
    pieces = Redactor()
    out, begin = "", 0
    for end in [*sorted(int(cut * len(line)) for cut in cuts), len(line)]:
        out += pieces.feed(line[begin:end], early=early)
        begin = end
    assert out + pieces.end() == expected


def test_a_progress_bar_is_shown_as_it_grows() -> None:
    redactor = Redactor()
    assert redactor.feed("a\nloading 10%", early=True) == "a\nloading 10%"
    assert redactor.feed(" 50%", early=True) == " 50%"
    assert redactor.feed(" HF_TOKEN=", early=True) == ""
    assert redactor.feed("hf_" + "a" * 34 + "\nb", early=True) == (
        " HF_TOKEN=[redacted: a Hugging Face token]\n"
    )
    assert redactor.end() == "b"


KEY_LINES = ["MIIEcAnAry" + "A" * 54] * 3
KEY_TEXT = "\n".join(
    ["step 3", "-----BEGIN RSA PRIVATE KEY-----", *KEY_LINES, "-----END RSA PRIVATE KEY-----"]
)


@given(st.integers(0, len(KEY_TEXT)))
def test_a_text_that_begins_anywhere_in_a_private_key_shows_nothing_of_it(line: int) -> None:
    lines = (KEY_TEXT + "\nstep 4\n").splitlines(keepends=True)
    at = line % len(lines)
    redactor = Redactor()
    redactor.begin_after("".join(lines[:at]))
    shown = redactor.feed("".join(lines[at:])) + redactor.end()
    assert "cAnAry" not in shown
    assert shown.endswith("step 4\n")


def test_after_a_private_key_that_ended_all_is_shown() -> None:
    redactor = Redactor()
    redactor.begin_after(KEY_TEXT + "\n")
    assert redactor.feed("abcd\n") == "abcd\n"
    redactor.begin_after("-----BEGIN PRIVATE KEY-----\nMIIE\nINFO no key after all\n")
    assert redactor.feed("abcd\n") == "abcd\n"


@pytest.mark.parametrize("line", ['no "-----BEGIN PRIVATE KEY-----" is in it', KEY_TEXT[7:]])
def test_a_line_in_which_no_private_key_goes_on_hides_nothing_of_the_next(line: str) -> None:
    assert redacted(f"{line}\nabcd\n").endswith("\nabcd\n")
    redactor = Redactor()
    redactor.begin_after(f"{line}\n")
    assert redactor.feed("abcd\n") == "abcd\n"


@pytest.mark.parametrize("behind", ["", " \r", "\x1b[0m", "\\nMIIE"])
def test_a_private_key_goes_on_after_a_line_that_ends_in_it(behind: str) -> None:
    before = f"a -----BEGIN PRIVATE KEY-----{behind}\n"
    assert "cAnAry" not in redacted(f"{before}{KEY_LINES[0]}\n")
    redactor = Redactor()
    redactor.begin_after(before)
    assert "cAnAry" not in redactor.feed(f"{KEY_LINES[0]}\n")


def test_words_and_values_under_the_names_of_secrets_are_replaced() -> None:
    value = {
        "words": [
            "--a.api-key",
            "cAnAry-1",
            "B_TOKEN=cAnAry-2",
            "--lr",
            "1e-6",
            "+c.password=cAnAry-3",
        ],
        "env": {"C_SECRET": "cAnAry-4", "PATH": "/bin"},
        "n": 3,
        "evidence": [{"text": line} for line in KEY_TEXT.splitlines()],
        "lines": KEY_TEXT.splitlines(),
    }
    copy = redacted_values(value, Redactor)
    assert "cAnAry" not in str(copy)
    assert copy["words"][3:5] == ["--lr", "1e-6"]
    assert copy["env"]["PATH"] == "/bin"
    assert copy["n"] == 3
    assert secrets_among(value["words"]) == ["cAnAry-1", "cAnAry-2", "cAnAry-3"]
    assert redacted_values(copy, Redactor) == copy
