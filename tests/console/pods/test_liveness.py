"""Reclaimed, rebooted, network only or hung: told apart by signs in time, and never by one sign
alone.
"""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bs4_console.pods.liveness import LOST, SILENT, Rules, Sign, Source, Verdict, judge

HOUR = 3600.0


def ssh(*looks: tuple[float, str]) -> list[Sign]:
    return [Sign(t, "ssh", word) for t, word in looks]


def provider(*looks: tuple[float, str]) -> list[Sign]:
    return [Sign(t, "provider", word) for t, word in looks]


def beats(source: Source, *looks: tuple[float, float], word: str = "running") -> list[Sign]:
    return [Sign(t, source, word, seen_t=seen) for t, seen in looks]


def of(signs: list[Sign], now: float = 200.0, rules: Rules | None = None) -> Verdict:
    return judge("alpha", signs, now, rules)


DOWN = ssh((0, "up"), (60, "lost"), (120, "unreachable"), (190, "refused"))
GONE = provider((0, "running"), (70, "stopped"), (185, "stopped"))


def test_taken_back_by_two_looks_at_the_provider_and_a_dead_address():
    verdict = of(DOWN + GONE)
    assert verdict.word == "reclaimed"
    assert {s.source for s in verdict.evidence} == {"ssh", "provider"}
    assert "took alpha back" in verdict.sentence


def test_an_instance_that_exists_no_more_has_ended():
    assert of(DOWN + provider((70, "gone"), (185, "gone"))).word == "ended"


@pytest.mark.parametrize("missing", ["ssh", "provider"])
def test_neither_sign_is_a_ground_alone(missing):
    assert not of([s for s in DOWN + GONE if s.source != missing]).lost


def test_weights_and_biases_is_never_a_ground_at_all():
    """The scripts before this rented a second pod because W&B had called the run crashed."""
    crashed = beats("wandb", (70, 10.0), (185, 10.0), word="stopped")
    assert of(DOWN + crashed).word == "unknown"
    assert of(ssh((0, "up"), (190, "up")) + crashed).word == "fine"


def test_a_healthy_pod_whose_dashboard_lags_is_fine_wherever_it_was_rented():
    """Defect 1.9: a healthy run elsewhere than at Vast, with W&B behind, got a second pod."""
    moving = [Sign(190, "run", "moving", seen_t=189.0)]
    verdict = of(
        ssh((190, "up"))
        + moving
        + beats("wandb", (70, 1.0), (185, 1.0), word="stopped")
        + provider((100, "gone"), (190, "gone"))
    )
    assert verdict.word == "fine"
    assert "the pod itself knows better" in verdict.sentence


def test_one_look_is_no_look_and_two_at_once_neither():
    assert of(DOWN + provider((185, "stopped"))).word == "unknown"
    close = ssh((181, "refused"), (186, "refused"))
    assert of(DOWN + close + provider((180, "stopped"), (185, "stopped"))).word == "unknown"


def test_a_look_that_got_no_answer_neither_confirms_nor_breaks_the_row():
    assert (
        of(DOWN + provider((70, "stopped"), (120, "unknown"), (185, "stopped"))).word == "reclaimed"
    )
    assert (
        of(DOWN + provider((70, "stopped"), (120, "running"), (185, "stopped"))).word == "unknown"
    )
    assert (
        of(DOWN + provider((70, "stopped"), (130, "stopped"), (185, "unknown"))).word == "unknown"
    ), "now it is not known"


def test_a_link_that_came_back_in_between_breaks_it():
    assert of(GONE + ssh((60, "lost"), (120, "up"), (190, "lost"))).word == "unknown"


def test_old_signs_are_not_now():
    assert of(DOWN + GONE, now=190 + 301).word == "unknown"
    assert "Nobody has looked" in of([], now=0).sentence


def test_a_run_that_is_heard_from_is_cut_off_and_not_lost():
    verdict = of(DOWN + beats("wandb", (70, 1000.0), (185, 1090.0)))
    assert verdict.word == "network-only"
    assert "goes on" in verdict.sentence
    assert (
        of(DOWN + beats("store", (70, 1000.0), (185, 1090.0), word="seen")).word == "network-only"
    )


def test_a_heartbeat_counts_only_when_it_moves_between_looks_after_the_loss():
    """Its clock is another's: that it is "recent" by ours proves nothing, however far the clocks
    are apart.
    """
    assert of(DOWN + beats("wandb", (70, 1e9), (185, 1e9))).word == "unknown"
    assert of(DOWN + beats("wandb", (10, 1000.0), (185, 1040.0))).word == "unknown", (
        "it may have moved before the loss"
    )


def test_witnesses_that_contradict_each_other_lead_to_nothing():
    verdict = of(DOWN + GONE + beats("wandb", (75, 1000.0), (185, 1090.0)))
    assert verdict.word == "unknown"
    assert "contradict" in verdict.sentence


def test_an_hour_without_network_is_an_hour_without_network():
    for minute in range(1, 61):
        now = minute * 60.0
        signs = ssh((0, "up"), *((60.0 * m, "unreachable") for m in range(1, minute + 1)))
        signs += [Sign(60.0 * m, "network", "down") for m in range(1, minute + 1)]
        signs += provider(*((60.0 * m, "unknown") for m in range(1, minute + 1)))
        assert of(signs, now).word == "network-only"


def test_it_greets_nobody_and_runs_at_the_provider():
    mute = [Sign(t, "port", "mute") for t in (70, 130, 190)]
    assert of(DOWN + mute + provider((185, "running"))).word == "hung"
    assert of(DOWN + mute).word == "unknown", "one sign"
    assert of(DOWN + mute[-1:] + provider((185, "running"))).word == "unknown", "one look"
    assert (
        of(DOWN + mute + provider((185, "running")) + beats("wandb", (70, 1.0), (185, 9.0))).word
        == "network-only"
    )


def test_a_run_that_stands_still_on_a_living_pod_is_hung_and_never_lost():
    """Defect 1.9: with the instance running, the old controller called a hung run "recovery in
    progress" for ever.
    """
    verdict = of(
        [
            *ssh((190, "up")),
            Sign(190, "run", "still", "No new step for 20 minutes."),
            *provider((185, "running")),
        ]
    )
    assert verdict.word == "hung"
    assert "playbooks" in verdict.next_step


def test_another_boot_id_is_a_reboot_until_the_run_moves_again():
    signs = [
        *ssh((0, "up"), (60, "lost"), (120, "up"), (190, "up")),
        Sign(0, "boot", "", value="a"),
        Sign(120, "boot", "", value="b"),
    ]
    assert of(signs).word == "rebooted"
    assert of([*signs, Sign(190, "run", "moving")]).word == "fine"
    same = [
        *ssh((0, "up"), (60, "lost"), (190, "up")),
        Sign(0, "boot", "", value="a"),
        Sign(190, "boot", "", value="a"),
    ]
    assert of(same).word == "fine"


@pytest.mark.parametrize(
    "word", ["auth failed", "host key?", "no session", "no agent", "disk full", "HOST KEY CHANGED"]
)
def test_a_server_that_speaks_is_not_a_lost_pod(word):
    verdict = of(ssh((0, "up"), (120, word), (190, word)))
    assert verdict.word == "unknown"
    assert not of(ssh((120, word), (190, word)) + provider((70, "running"), (185, "running"))).lost


def test_another_machine_at_the_address_of_one_that_is_gone():
    foreign = ssh((75, "HOST KEY CHANGED"), (190, "HOST KEY CHANGED"))
    assert of(foreign + provider((70, "gone"), (185, "gone"))).word == "ended"
    assert not of(
        ssh((75, "auth failed"), (190, "auth failed")) + provider((70, "gone"), (185, "gone"))
    ).lost, "our key's owner answers"


def ports(*looks: tuple[float, str]) -> list[Sign]:
    return [Sign(t, "port", word) for t, word in looks]


@pytest.mark.parametrize("word", ["open", "mute"])
def test_something_that_answers_at_the_address_contradicts_the_provider(word):
    verdict = of(DOWN + GONE + ports((75, "silent"), (191, word)))
    assert verdict.word == "unknown"
    assert f"port: {word}" in verdict.sentence
    assert of(DOWN + GONE + ports((75, word), (191, "refused"))).word == "unknown", (
        "answered meanwhile"
    )
    assert (
        of(DOWN + GONE + ports((30, word), (75, "refused"), (191, "silent"))).word == "reclaimed"
    ), "before the provider said so"


def test_an_open_port_of_another_machine_at_the_address_is_not_its():
    foreign = ssh((75, "HOST KEY CHANGED"), (190, "HOST KEY CHANGED"))
    assert (
        of(
            foreign + provider((70, "gone"), (185, "gone")) + ports((76, "open"), (191, "open"))
        ).word
        == "ended"
    )


@pytest.mark.parametrize(
    "word", ["auth failed", "host key?", "no session", "no agent", "disk full", "up"]
)
def test_every_look_meanwhile_must_have_found_nobody(word):
    gone = provider((70, "gone"), (185, "gone"))
    assert of(ssh((75, word), (190, "unreachable")) + gone).word == "unknown"
    assert of(ssh((75, "lost"), (120, word), (190, "unreachable")) + gone).word == "unknown"
    assert of(ssh((60, word), (120, "lost"), (190, "unreachable")) + gone).word == "ended", (
        "before the provider said so"
    )


_words: dict[Source, list[str]] = {
    "ssh": ["up", *sorted(SILENT), "HOST KEY CHANGED", "auth failed"],
    "port": ["open", "mute", "refused", "silent"],
    "network": ["up", "down"],
    "provider": ["running", "stopped", "gone", "unknown"],
    "wandb": ["running", "stopped", "gone", "unknown"],
    "store": ["seen", "unknown"],
    "run": ["moving", "still", "finished", "failed", "stopped"],
}
_sign = st.sampled_from(sorted(_words)).flatmap(
    lambda source: st.builds(
        Sign,
        st.floats(0, 200),
        st.just(source),
        st.sampled_from(_words[source]),
        seen_t=st.none() | st.floats(0, 2e9),
    )
)


@settings(max_examples=150)
@given(st.lists(_sign, max_size=25))
def test_whatever_is_seen_a_loss_rests_on_two_sources(signs):
    verdict = of(signs)
    if not verdict.lost:
        return
    assert [s.source for s in verdict.evidence].count("provider") >= 1
    for source in ("provider", "ssh"):
        assert not of([s for s in signs if s.source != source]).lost
    assert max((s for s in signs if s.source == "ssh"), key=lambda s: s.t).word != "up"
    first = min(s.t for s in verdict.evidence if s.source == "provider")
    assert not [
        s for s in signs if s.source == "ssh" and s.t >= first and s.word in ("up", "auth failed")
    ]


@settings(max_examples=80)
@given(st.lists(_sign, max_size=15), st.randoms())
def test_the_order_in_which_signs_arrive_does_not_matter(signs, random):
    if len({s.t for s in signs}) < len(signs):
        return
    shuffled = list(signs)
    random.shuffle(shuffled)
    assert of(shuffled) == of(signs)


def test_every_verdict_of_a_loss_is_one_that_the_controller_knows():
    assert {"reclaimed", "ended"} == LOST
    assert set(itertools.chain(*_words.values())) >= SILENT
