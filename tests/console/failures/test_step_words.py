"""Every typed step has its sentence."""

from __future__ import annotations

from bs4_console.failures.playbooks import schema
from bs4_console.failures.step_words import SENTENCES, sentence, verified


def test_every_kind_of_step_has_words() -> None:
    """A new kind of step, or way to resume, would otherwise stand on the screen as the program
    calls it.
    """
    steps = dict(schema()["properties"]["fix"]["items"]["properties"])
    relaunch = steps.pop("relaunch")["properties"]["resume"]["enum"]
    waits = steps.pop("wait_until")["properties"]["condition"]["enum"]
    named = {f"relaunch {how}" for how in relaunch} | {f"wait_until {what}" for what in waits}
    assert set(SENTENCES) == {*steps, *named}


def test_parameters_are_told() -> None:
    assert sentence({"relaunch": {"resume": "same"}}) == SENTENCES["relaunch same"]
    assert sentence({"stop_run": None}) == SENTENCES["stop_run"]
    told = sentence({"edit_config": {"set": {"a.b": 1}}})
    assert (
        told
        == "Change the run's config file; the old one is kept in the run's trash (set a.b = 1)."
    )


def test_the_wait_for_a_full_disk_says_what_to_do() -> None:
    step = {"wait_until": {"condition": "disk-free", "percent": 90, "within": "30m"}}
    assert sentence(step) == (
        "Wait until less than 90 % of each disk that the run writes to is used: free space there "
        "meanwhile (within 30m)."
    )


def test_a_verification_is_told_in_words() -> None:
    verify = {"steps_advance": {"count": 2, "within": "30m"}}
    assert verified(verify) == "2 new training steps within 30m"
    assert verified({"process_gone": "x"}) == "process_gone x"
