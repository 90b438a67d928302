"""What differs between two runs, from their records, and what of it is unknown."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bs4_console.ceilings import CONFIG_BYTES
from bs4_console.run_log import config_texts
from bs4_console.run_log.comparison import Row, rows
from bs4_console.run_log.config_texts import ConfigTexts, digest_of, hidden
from bs4_console.run_log.record import Attempt, RunRecord

ONE = """# version 3
max_steps = 100
[ckpt]
interval = 5
[[orchestrator.env]]
id = "parrot"
"""
TWO = """max_steps = 100
[ckpt]
interval = 10
keep_last = 2
[[orchestrator.env]]
id = "cockatoo"
"""


@pytest.fixture
def texts(tmp_path: Path) -> ConfigTexts:
    return ConfigTexts("pod", tmp_path / "runlog" / "configs")


def run(name: str, config: str = "", **attempt: object) -> RunRecord:
    """A run of one attempt, launched with a config."""
    one = Attempt(title="Attempt 1", number=1, config_digest=digest_of(config) if config else "")
    for key, value in attempt.items():
        setattr(one, key, value)
    return RunRecord(name=name, attempts=[one])


def by_key(found: list[Row]) -> dict[tuple[str, str], Row]:
    return {(row.part, row.key): row for row in found}


def test_settings_and_data_that_differ(texts: ConfigTexts) -> None:
    one, two = run("one", ONE), run("two", TWO, overrides=["--ckpt.interval", "20"])
    for text in (ONE, TWO):
        assert texts.keep(digest_of(text), text)
    found = by_key(rows(one, two, lambda _: texts))
    assert found["settings", "ckpt.interval"].values == (5, 10)
    assert found["settings", "ckpt.keep_last"].values == (None, 2)
    assert found["data", "orchestrator.env[0].id"].values == ("parrot", "cockatoo")
    assert found["settings", "arguments"].values == ("", "--ckpt.interval 20")
    for row in found.values():
        if row.part in ("settings", "data") and row.key != "of attempt":
            assert row.differs
    assert ("settings", "max_steps") not in found


def test_the_same_config_needs_no_text(texts: ConfigTexts) -> None:
    found = by_key(
        rows(run("one", ONE), run("two", ONE.replace("# version 3", "")), lambda _: texts)
    )
    assert found["settings", "config values"].differs is False
    assert not found["settings", "config values"].why


def test_a_text_that_was_not_kept_is_unknown_and_still_differs(texts: ConfigTexts) -> None:
    texts.keep(digest_of(ONE), ONE)
    row = by_key(rows(run("one", ONE), run("two", TWO), lambda _: texts))[
        "settings", "config values"
    ]
    assert row.differs
    assert row.why == f"the text of config {digest_of(TWO)} was not kept on this machine"


def test_a_run_that_no_console_launched_records_no_config(texts: ConfigTexts) -> None:
    row = by_key(rows(run("one"), run("two", TWO), lambda _: texts))["settings", "config values"]
    assert row.differs is None
    assert "attempt 1 of one has no launch plan that names its config" in row.why


def test_an_imported_run_is_unknown_and_not_equal(texts: ConfigTexts) -> None:
    found = by_key(rows(RunRecord(name="one"), RunRecord(name="two"), lambda _: texts))
    for key in (("code", "commit"), ("hardware", "gpus"), ("packages", "versions")):
        assert found[key].differs is None
        assert found[key].why == "neither run records it"
    assert found["result", "cost"].differs is None
    assert "one: its price is not recorded" in found["result", "cost"].why


def test_a_later_attempt_without_a_config_is_told(texts: ConfigTexts) -> None:
    one = run("one", ONE)
    one.attempts.append(Attempt(title="Attempt 2", number=2))
    row = by_key(rows(one, run("two", ONE), lambda _: texts))["settings", "of attempt"]
    assert row.values == (1, 1)
    assert "a later attempt of one records no config" in row.why


def test_code_packages_and_hardware(texts: ConfigTexts) -> None:
    one = run("one", ONE, commit="a" * 40, versions={"torch": "2.9.0", "vllm": "0.11.0"})
    two = run("two", ONE, commit="b" * 40, versions={"torch": "2.10.0", "vllm": "0.11.0"})
    one.hardware = {"gpus": "2 x NVIDIA H100 80GB HBM3", "driver": "580.65.06"}
    two.hardware = {"gpus": "2 x NVIDIA H100 80GB HBM3"}
    found = by_key(rows(one, two, lambda _: texts))
    assert found["code", "commit"].differs
    assert found["packages", "torch"].values == ("2.9.0", "2.10.0")
    assert found["packages", "1 others"].differs is False
    assert found["hardware", "gpus"].differs is False
    assert found["hardware", "driver"].differs is None


def test_the_reward_is_compared_at_the_same_step(texts: ConfigTexts) -> None:
    one, two = run("one", ONE), run("two", ONE)
    one.rewards = [(step, 0.1) for step in range(50)]
    two.rewards = [(step, step / 100) for step in range(31)]
    one.reward, two.reward = 0.1, 0.3
    found = by_key(rows(one, two, lambda _: texts))
    assert found["result", "reward at step 30, mean of 10"].values == (0.1, 0.255)
    assert found["result", "best reward"].values == ("0.1 at step 0", "0.3 at step 30")


def test_cost_is_of_all_the_time_between_start_and_end(texts: ConfigTexts) -> None:
    one, two = run("one", ONE), run("two", ONE)
    for record, price in ((one, 2.0), (two, 3.0)):
        record.price, record.started_t, record.ended_t = price, 1000.0, 1000.0 + 7200
    assert by_key(rows(one, two, lambda _: texts))["result", "cost"].values == (4.0, 6.0)


def test_a_text_is_kept_only_under_its_digest(texts: ConfigTexts) -> None:
    assert not texts.keep(digest_of(ONE), TWO), "the file was changed since the launch"
    assert not texts.keep("../../etc/passwd", ONE), "a digest comes from a pod"
    assert not texts.keep(digest_of(ONE), "no = = toml")
    assert texts.text(digest_of(ONE)) is None
    assert texts.text("../../../etc/passwd") is None
    assert texts.keep(digest_of(ONE), ONE)
    assert texts.text(digest_of(ONE)) == ONE
    (file,) = texts.directory.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert texts.keep(digest_of(ONE), ONE.replace("# version 3", "# other")), "kept already"
    assert texts.text(digest_of(ONE)) == ONE


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "9" * 5000,
        "a = 0x" + "f" * 5000,
        "a = " + "[" * 5000,
        'a = "\ud800"',
        "a = 1\na = 2",
    ],
)
def test_a_text_that_is_no_config_is_not_kept(texts: ConfigTexts, text: str) -> None:
    assert not texts.keep("0" * 16, text)
    assert not texts.keep(digest_of(text), text)
    assert not texts.directory.exists()


def test_a_pod_cannot_fill_the_disk_with_configs(
    texts: ConfigTexts, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = f'text = "{"x" * CONFIG_BYTES}"'
    assert not texts.keep(digest_of(long), long)
    monkeypatch.setattr(config_texts, "CONFIGS", 2)
    for number in range(3):
        text = f"number = {number}"
        assert texts.keep(digest_of(text), text) == (number < 2)
    assert len(list(texts.directory.iterdir())) == 2
    other = ConfigTexts("other", texts.directory.parent)
    assert other.keep(digest_of(ONE), ONE), "another pod has room of its own"


def test_a_pod_that_lies_cannot_put_its_text_in_the_place_of_another_pods(tmp_path: Path) -> None:
    lying = f"# rm -rf the node before you launch this\n{ONE}"
    assert digest_of(lying) == digest_of(ONE), "a digest is that of the values"
    liar, honest = ConfigTexts("liar", tmp_path), ConfigTexts("honest", tmp_path)
    assert liar.keep(digest_of(ONE), lying)
    assert honest.text(digest_of(ONE)) is None
    assert not honest.holds(digest_of(ONE))
    assert honest.keep(digest_of(ONE), ONE)
    assert (liar.text(digest_of(ONE)), honest.text(digest_of(ONE))) == (lying, ONE)


def test_a_text_that_an_earlier_version_kept_for_all_pods_is_found_until_one_of_the_pod_is_kept(
    tmp_path: Path,
) -> None:
    before = ONE.replace("# version 3", "# kept before")
    (tmp_path / f"{digest_of(ONE)}.toml").write_text(before)
    texts = ConfigTexts("pod", tmp_path)
    assert texts.text(digest_of(ONE)) == before
    assert texts.keep(digest_of(ONE), ONE)
    assert texts.text(digest_of(ONE)) == ONE


def test_a_secret_in_a_config_is_not_kept(texts: ConfigTexts) -> None:
    key = "hf_" + "abcdefghijklmnopqrstuvwxyzABCDEFGH"
    text = f'{ONE}token = "{key}"\n'
    assert texts.keep(digest_of(text), text)
    kept = texts.text(digest_of(text))
    assert kept is not None
    assert key not in kept
    assert "[redacted" in kept
    assert digest_of(kept) != digest_of(text)


@pytest.mark.parametrize(
    "text",
    [
        'api_key    = "cAnAry-0123456789"\nlr = 1\n',
        '[wandb]\nkey = "cAnAry-0123456789"\n',
        'password = """cAnAry-0123456789"""\n',
        'tokens = 5\ntoken = ["cAnAry-0123456789"]\n',
    ],
)
def test_a_kept_config_has_no_value_that_is_named_as_a_secret(
    text: str, texts: ConfigTexts
) -> None:
    assert texts.keep(digest_of(text), text)
    kept = texts.text(digest_of(text))
    assert kept is not None
    assert "cAnAry" not in kept
    assert "[redacted" in kept


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (
            'api_key = "rl"\nmax_steps = 5\n[orchestrator]\nname = "rl-run"\nurl = "http://x/rl/v1"\n',
            'api_key = "[redacted]"\nmax_steps = 5\n[orchestrator]\nname = "rl-run"\n'
            'url = "http://x/rl/v1"\n',
        ),
        (
            '[a]\napi_key = "EMPTY" # EMPTY\nmode = "EMPTY"\n[b]\ntoken = "a"\n',
            '[a]\napi_key = "[redacted]" # EMPTY\nmode = "EMPTY"\n[b]\ntoken = "[redacted]"\n',
        ),
        (  # The secret is a name too, and is written in several ways.
            '"api_key" = "api_key"\ntoken = """\napi_key"""\nlist = ["api_key", \'api_key\']\n',
            '"api_key" = "[redacted]"\ntoken = "[redacted]"\nlist = ["api_key", \'api_key\']\n',
        ),
        (
            'a = { hub.token = \'x"y\' }\r\nb = "x\\u0022y"\r\n',
            'a = { hub.token = "[redacted]" }\r\nb = "x\\u0022y"\r\n',
        ),
        (
            '# "token" = "a\ntoken = "b\\u0061#"\nx = "ba#"',
            '# "token" = "a\ntoken = "[redacted]"\nx = "ba#"',
        ),
        ('token = "b\\u0061#"\nx = "ba#"', 'token = "[redacted]"\nx = "ba#"'),
        # A long one is a secret elsewhere too.
        (
            '# was cAnAry-0123\npassword = "cAn\\u0041ry-0123"\nx = "cAnAry-0123"\ny = "cAn"\n',
            '# was [redacted]\npassword = "[redacted]"\nx = "[redacted]"\ny = "cAn"\n',
        ),
    ],
)
def test_only_the_secrets_of_a_config_are_replaced(
    texts: ConfigTexts, text: str, kept: str
) -> None:
    assert texts.keep(digest_of(text), text)
    found = texts.text(digest_of(text))
    assert found == kept
    assert hidden(found)


def test_a_config_whose_secret_cannot_be_replaced_is_not_kept(texts: ConfigTexts) -> None:
    text = 'password = "cAnAry-0123"\n[cAnAry-0123]\nx = 1\n'
    assert not texts.keep(digest_of(text), text), "it is a name"


@pytest.mark.parametrize("text", [".".join(["a"] * 20_000) + " = 1", "a = " + "[" * 5000])
def test_a_config_that_takes_a_parser_minutes_is_none(text: str, texts: ConfigTexts) -> None:
    began = time.process_time()
    assert digest_of(text) == ""
    assert not texts.keep("0" * 16, text)
    assert time.process_time() - began < 1.0
