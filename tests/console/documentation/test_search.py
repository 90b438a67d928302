"""A topic finds what it names: in the real pages, playbooks, rules and schemas."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from bs4_common.trainers import prime_rl_metrics, verl_metrics
from bs4_console import nested_yaml
from bs4_console.assets import find
from bs4_console.cli.main import COMMANDS
from bs4_console.configs.catalog import rules
from bs4_console.documentation.catalog import catalog
from bs4_console.documentation.entry import Entry, words
from bs4_console.documentation.passage import LONGEST, blocks, passage
from bs4_console.documentation.search import MOST, Found, Index, search


@pytest.fixture(scope="module")
def index() -> Index:
    return Index(catalog())


def best(topic: str, index: Index) -> tuple[str, str]:
    hit = search(topic, index).hits[0]
    return hit.entry.kind, hit.entry.names[0]


@pytest.mark.parametrize(
    ("topic", "kind", "name"),
    [
        ("orchestrator.rollouts_per_example", "parameter", "orchestrator.rollouts_per_example"),
        ("rollouts_per_example", "parameter", "orchestrator.rollouts_per_example"),
        ("rollouts per example", "parameter", "orchestrator.rollouts_per_example"),
        ("keep_last", "parameter", "ckpt.keep_last"),
        ("optim.lr", "parameter", "trainer.optim.lr"),
        ("orchestrator.env.id", "parameter", "orchestrator.env[].id"),
        ("trainer.save_freq", "parameter", "trainer.save_freq"),
        ("R19", "rule", "R19"),
        ("r19", "rule", "R19"),
        ("step-desync", "failure", "step-desync"),
        ("runs bench", "command", "runs bench"),
        ("bs4-console runs bench", "command", "runs bench"),
        ("stop", "command", "stop"),
        ("Xid 79", "xid", "Xid 79"),
        ("Xid(48)", "xid", "Xid 48"),
        ("79", "xid", "Xid 79"),
        ("137", "exit", "exit code 137"),
        ("exit code 143", "exit", "exit code 143"),
        ("exited with code 139", "exit", "exit code 139"),
        ("external observer", "word", "word: external observer"),
        ("time and money", "page", "runs: Time and money"),
        ("sync.md", "page", "sync: Checkpoints in a bucket"),
    ],
)
def test_a_name_finds_its_entry(topic: str, kind: str, name: str, index: Index) -> None:
    found = search(topic, index)
    assert (found.hits[0].entry.kind, found.hits[0].entry.names[0]) == (kind, name)
    assert found.hits[0].is_named
    assert (found.corrected, found.unknown) == ("", ())


@pytest.mark.parametrize(
    "keys",
    [
        verl_metrics._TRAINER,
        verl_metrics._ROLLOUTS,
        prime_rl_metrics._TRAINER,
        prime_rl_metrics._ORCHESTRATOR,
    ],
)
def test_every_name_of_a_metric_that_is_read_is_found(
    keys: Mapping[str, tuple[Any, ...]], index: Index
) -> None:
    for key, several in keys.items():
        for name in [each[0] for each in several if isinstance(each, tuple)] or [key]:
            hit = search(name, index).hits[0].entry
            if name == "optim/lr":
                assert hit.names[0] == "trainer.optim.lr", "it is a parameter as well"
                continue
            assert (hit.kind, hit.names[-1]) == ("word", name)
            ours = several[0] if name == key else key
            assert hit.text.startswith(f"{ours}")


@pytest.mark.parametrize(
    "name",
    [
        "train/loss",
        "val/loss",
        "train/epoch",
        "train/global_step",
        "train/throughput",
        "system/gpu_utilization",
        "system/memory_usage",
        "train/policy_loss",
        "train/value_loss",
        "train/kl_loss",
        "train/reward",
        "train/advantage",
        "train/entropy",
        "rollout/throughput",
    ],
)
def test_a_name_of_a_metric_as_notes_have_it_is_found(name: str, index: Index) -> None:
    assert best(name, index) == ("word", f"word: {name}")


def test_everything_has_an_entry_that_its_name_finds(index: Index) -> None:
    for path in find("playbooks").glob("*/*.yaml"):
        assert best(path.stem, index) == ("failure", path.stem)
    for rule in set(rules()) - {"schema", "toml", "yaml"}:
        assert best(rule, index) == ("rule", rule)
    shown = {entry.names[0] for entry in index.entries if entry.kind == "command"}
    assert set(COMMANDS) <= shown
    first = Counter(entry.names[0] for entry in index.entries)
    assert [name for name, count in first.items() if count > 1] == [], "two entries of one name"


@pytest.mark.parametrize(
    ("number", "failure"),
    [
        (79, "gpu-off-bus"),
        (31, "gpu-xid-app"),
        (48, "gpu-xid-ecc"),
        (119, "gpu-xid-gsp"),
        (74, "gpu-xid-nvlink"),
        (63, "gpu-row-remap-pending"),
        (154, "gpu-recovery-action"),
        (173, "gpu-xid-other"),
    ],
)
def test_an_xid_is_the_failure_that_detection_would_name(
    number: int, failure: str, index: Index
) -> None:
    hit = search(f"xid {number}", index).hits[0].entry
    assert (hit.kind, hit.names[0]) == ("xid", f"Xid {number}")
    assert hit.title.startswith(f"{failure}: ")
    assert hit.more == f"bs4-console playbook show {failure}"


def test_who_wants_to_kill_a_run_finds_stop(index: Index) -> None:
    assert best("kill run", index) == ("command", "stop")


def test_a_number_that_is_both_shows_the_exit_code_first(index: Index) -> None:
    first, second, *_ = search("137", index).hits
    assert (first.entry.names[0], second.entry.names[0]) == ("exit code 137", "Xid 137")
    assert "SIGKILL" in first.entry.title
    assert search("xid 137", index).hits[0].entry.kind == "xid"


def test_every_xid_of_every_playbook_is_found(index: Index) -> None:
    count = 0
    for path in find("playbooks").glob("gpu/*.yaml"):
        if path.stem == "gpu-xid-other":
            continue
        playbook = nested_yaml.load(path.read_text())
        for signature in playbook["detect"].get("logs", ()):
            numbers = re.search(r"Xid .*?\(\?:(\d[\d|]+)\)", signature["pattern"])
            for number in numbers[1].split("|") if numbers else ():
                hit = search(f"xid {number}", index).hits[0].entry
                assert hit.title.startswith(f"{path.stem}: "), number
                count += 1
    assert count > 30


def test_a_bare_number_that_no_failure_names_is_no_xid(index: Index) -> None:
    assert all(hit.entry.kind != "xid" for hit in search("404", index).hits)


@pytest.mark.parametrize(
    ("topic", "meant"),
    [
        ("rollouts_per_exmaple", "rollouts_per_example"),
        ("stpe-desync", "step-desync"),
        ("orchestrater.batch_size", "orchestrator.batch_size"),
        ("tokenizr qwen", "tokenizer qwen"),
    ],
)
def test_a_typo_is_searched_as_what_was_meant(topic: str, meant: str, index: Index) -> None:
    found = search(topic, index)
    assert found.corrected == meant
    assert [hit.entry for hit in found.hits] == [hit.entry for hit in search(meant, index).hits]


def test_words_that_occur_nowhere_are_left_out_and_named(index: Index) -> None:
    found = search("checkpoint qwzx", index)
    assert found.unknown == ("qwzx",)
    assert found.hits


def test_nothing_is_found_and_what_is_like_it_is_offered(index: Index) -> None:
    assert search("qwertzuiop", index) == Found(())
    found = search("R91", index)
    assert found.hits == ()
    assert len(found.nearest) == 3
    assert all(name.startswith("R") for name in found.nearest)


def test_at_most_ten_hits_and_every_word_counts(index: Index) -> None:
    found = search("checkpoint disk full", index)
    assert len(found.hits) == MOST
    first = [hit.entry.names[0] for hit in found.hits[:2]]
    assert first == ["checkpoints list", "checkpoints: When the disk is full"]
    assert best("no space left on device", index) == ("failure", "disk-full")
    assert best("how do i resume", index)[0] != "key", "a letter is no topic beside words"


def test_a_passage_is_the_paragraph_with_the_words(index: Index) -> None:
    text = (
        "One begins.\n\n| a | b |\n|---|---|\n| rare | thing |\n\n- *An* item\n  of `two` lines\n"
    )
    entry = Entry(kind="page", names=("x",), title="x", text=text)
    assert list(blocks(text)) == ["One begins.", "a  b", "rare  thing", "- An item of two lines"]
    assert passage(entry, ("rare",), is_named=False) == "rare  thing"
    assert passage(entry, ("x",), is_named=True).startswith("One begins.\n")
    for known in index.entries:
        assert len(passage(known, (), is_named=True)) <= LONGEST + 4


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("how do I stop a run", "stop"),
        ("how do i see the logs", "logs"),
        ("learning rate", "trainer.optim.lr"),
    ],
)
def test_a_question_of_a_person_has_its_answer_first(
    question: str, name: str, index: Index
) -> None:
    assert best(question, index)[1] == name


@pytest.mark.parametrize(
    ("topic", "step"),
    [
        (
            "xid 79",
            "What to do. Make sure that the newest complete checkpoint is in the object store",
        ),
        ("disk full", "What to do. Its playbook mends it: bs4-console playbook plan disk-full"),
    ],
)
def test_a_failure_says_first_what_to_do(topic: str, step: str, index: Index) -> None:
    hit = search(topic, index).hits[0]
    said = passage(hit.entry, words(topic), hit.is_named)
    assert said.startswith("Looks like.")
    assert step in said
