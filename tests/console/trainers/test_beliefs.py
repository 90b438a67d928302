"""What is believed of the trainers agrees with what the agent does with them."""

from __future__ import annotations

import re

import pytest

from bs4_common.trainers import prime_rl_2026_01_lines, prime_rl_lines, verl_lines
from bs4_common.trainers.grammar import Rule
from bs4_common.trainers.inference_lines import INFERENCE_RULES, RATE_LIMIT_RULES, TORCH_RULES
from bs4_common.trainers.launcher import component
from bs4_console.trainers.belief import (
    Belief,
    Believed,
    Calls,
    Entry,
    Logged,
    Message,
    Printed,
    Texts,
)
from bs4_console.trainers.known import BELIEVED
from bs4_console.trainers.texts import pattern

RULES = {
    "prime-rl-2026-01": prime_rl_2026_01_lines.RULES,
    "prime-rl": prime_rl_lines.RULES,
    "verl": verl_lines.RULES,
}
#: Rules for lines of programs that a trainer runs and that are not in its source: vLLM, torch,
#: huggingface_hub, loguru, httpx, verifiers, Ray, Hydra.
OTHERS = frozenset(
    rule.template for rule in (*INFERENCE_RULES, *RATE_LIMIT_RULES, *TORCH_RULES)
) | {
    "An error has been caught in function '<function:t>',",
    "httpx.ConnectError: <error:t>",
    "Aborted rollout due to <error:t>",
    "Started a local Ray instance.",
    "Error executing job with overrides: [<_rest:t>",
}
ALL = [pytest.param(one, id=one.id) for one in BELIEVED.values()]


def read_by(belief: Belief) -> tuple[str, ...]:
    """Return the templates of the rules that read what a belief is about."""
    expected = belief.expected
    if isinstance(expected, Message):
        return expected.rules or (expected.text,)
    if isinstance(expected, Texts):
        return expected.rules
    return ()


def of_lines(believed: Believed) -> list[Belief]:
    """Return the beliefs about log lines that rules read."""
    return [belief for belief in believed.beliefs if belief.topic == "line" and read_by(belief)]


@pytest.mark.parametrize("trainer", RULES)
def test_each_rule_for_a_line_of_the_trainer_has_a_belief(trainer: str) -> None:
    believed = {text for belief in of_lines(BELIEVED[trainer]) for text in read_by(belief)}
    rules = {rule.template for rule in RULES[trainer]} - OTHERS
    assert rules - believed == set()


@pytest.mark.parametrize("trainer", RULES)
def test_each_belief_about_a_line_names_rules_that_there_are(trainer: str) -> None:
    rules = {rule.template for rule in RULES[trainer]}
    for belief in of_lines(BELIEVED[trainer]):
        assert set(read_by(belief)) <= rules, belief.id


@pytest.mark.parametrize("trainer", RULES)
def test_the_level_of_a_belief_is_that_of_its_rules(trainer: str) -> None:
    levels: dict[str, set[str]] = {}
    for rule in RULES[trainer]:
        levels.setdefault(rule.template, set()).add(rule.level)
    for belief in of_lines(BELIEVED[trainer]):
        for text in read_by(belief):
            if isinstance(belief.expected, Logged):
                assert levels[text] == {belief.expected.level}, belief.id
            elif isinstance(belief.expected, Printed):
                assert levels[text] == {""}, belief.id


@pytest.mark.parametrize("believed", ALL)
def test_ids_are_unique_and_speak_the_same_form(believed: Believed) -> None:
    ids = [belief.id for belief in believed.beliefs]
    assert len(set(ids)) == len(ids)
    assert [text for text in ids if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", text)] == []


@pytest.mark.parametrize("believed", ALL)
def test_no_two_beliefs_say_the_same(believed: Believed) -> None:
    seen = [(belief.place, belief.expected) for belief in believed.beliefs]
    assert [one for one in seen if seen.count(one) > 1] == []


@pytest.mark.parametrize("believed", ALL)
def test_a_place_is_a_file_in_the_checkout_and_has_no_line_number(believed: Believed) -> None:
    for belief in believed.beliefs:
        assert not belief.place.file.startswith("/")
        assert ".." not in belief.place.file.split("/")
        assert not re.search(r":\d", str(belief.place)), belief.id
        assert isinstance(belief.expected, Entry) == belief.place.file.endswith(".toml")


@pytest.mark.parametrize("believed", ALL)
def test_each_belief_says_which_feature_is_weaker_without_it(believed: Believed) -> None:
    assert [belief.id for belief in believed.beliefs if len(belief.feature.split()) < 3] == []


@pytest.mark.parametrize("believed", ALL)
def test_at_least_one_commit_is_known_that_the_beliefs_were_read_from(believed: Believed) -> None:
    assert [known.commit for known in believed.known if known.read] != []
    dates = [known.date for known in believed.known]
    assert dates == sorted(dates)


def test_process_titles_are_those_by_which_the_agent_names_processes() -> None:
    named = {}
    for belief in BELIEVED["prime-rl"].beliefs:
        expected = belief.expected
        if belief.topic == "title" and isinstance(expected, Calls):
            title = f"PRIME-RL::{expected.are[0].split()[1]}"
            named[title] = component([title], title[:15])
    assert named["PRIME-RL::Launcher"] == "launcher"
    assert named["PRIME-RL::Trainer"] == "rank"
    assert {"PRIME-RL::Inference", "PRIME-RL::Orchestrator", "PRIME-RL::EnvServer"} <= set(named)


def test_scripts_are_those_by_which_the_agent_names_processes() -> None:
    for believed in BELIEVED.values():
        for belief in believed.beliefs:
            if isinstance(belief.expected, Entry):
                script = belief.expected.key.rpartition(".")[2]
                if script not in ("sft", "eval", "evals"):
                    assert component([f"/env/bin/{script}", "@", "x.toml"], script), script


def rules_with_optional_parts() -> list[Rule]:
    """Return the rules whose lines may lack something."""
    return [rule for rules in RULES.values() for rule in rules if "{" in rule.template]


def test_a_belief_reads_optional_parts_as_a_rule_does() -> None:
    assert rules_with_optional_parts()
    wording = pattern("Step <step:i>{ | Max Vio <max_vio>}")
    assert wording.fullmatch("Step \ufffc")
    assert wording.fullmatch("Step \ufffc | Max Vio \ufffc")
    assert not wording.fullmatch("Step \ufffc | Max Vio 3")
