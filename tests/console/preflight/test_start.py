"""Of the start: refusals, what lies there, disk, ports, and the detectors' words."""

from __future__ import annotations

from typing import Any

import pytest

from bs4_console.preflight import start as judges
from bs4_console.preflight.checks import GIB, Check, Wanted

START = Wanted(trainer="prime-rl-2026-01", config="rl.toml", run="demo")


def run(**changes: Any) -> dict[str, Any]:
    """A start that nothing stands against."""
    return {
        "plan": {"resume": None, "why": "nothing was saved here yet", "notes": [], "moves": []},
        "refused": None,
        "command": "uv run rl @ rl.toml --ckpt",
        "findings": [],
        "keep_last": 2.0,
        "interval": 5.0,
        "max_steps": 1000.0,
        "model": "Qwen/Qwen3-8B",
        "checkpoints": [],
        "ports": [{"port": 8000, "holder": None, "run": None}],
        "serves_itself": True,
        "disk": {"free": 400 * GIB},
        **changes,
    }


def judged(**changes: Any) -> list[Check]:
    return judges.judge(run(**changes), START)


def one(identifier: str, **changes: Any) -> Check:
    found = [check for check in judged(**changes) if check.id == identifier]
    assert len(found) == 1, [check.id for check in judged(**changes)]
    return found[0]


def steps(count: int, size: int) -> list[dict[str, Any]]:
    return [
        {"step": 5 * n, "complete": True, "bytes": size, "missing": [], "parts": []}
        for n in range(1, count + 1)
    ]


def test_a_clean_start_is_ok_throughout() -> None:
    assert {check.state for check in judged()} == {"ok"}
    assert "uv run rl @ rl.toml" in one("launch").why


def test_what_was_not_looked_at_is_unknown() -> None:
    assert {check.state for check in judges.judge({"unknown": "no"}, START)} == {"unknown"}
    assert {check.state for check in judges.judge(None, START)} == {"unknown"}


@pytest.mark.parametrize(
    ("kind", "message", "identifier"),
    [
        (
            "run-exists",
            "demo runs already (attempt 1). Stop it first, or start another run as demo-2.",
            "run-dir-collision",
        ),
        ("bad-config", "The config /c is not TOML: x; correct that line.", "config-rejected"),
        (
            "launch-failed",
            "uv is neither on the pod's PATH nor in ~/.local/bin; install it there first.",
            "uv-missing",
        ),
        (
            "launch-failed",
            "There is no directory /x on this pod; name the one that prime-rl is in.",
            "path-drift",
        ),
        (
            "refused",
            "the trainer would wait for ever (step-desync). Move them aside.",
            "step-desync",
        ),
        ("not-applicable", "Slurm is not for here.", "launch"),
    ],
)
def test_what_a_launch_refuses_blocks_under_the_failure_that_it_prevents(
    kind: str, message: str, identifier: str
) -> None:
    check = one(identifier, plan=None, refused={"type": kind, "message": message})
    assert check.state == "blocking"
    assert check.why[:10] == message[:10]
    assert check.fix


def test_what_a_launch_would_move_aside_is_said() -> None:
    moves = ["/o/run_default/checkpoints/step_15"]
    check = one(
        "stale-checkpoint-deadlock",
        plan={"resume": None, "why": "a start afresh was asked for", "moves": moves},
    )
    assert check.state == "warning"
    assert "step_15" in check.why
    ahead = one("step-desync", plan={"resume": 5, "why": "step 5 is the newest", "moves": moves})
    assert (ahead.state, ahead.playbook) == ("warning", "step-desync")


def test_the_checkpoints_that_are_not_listed_are_said_to_be_there() -> None:
    def there(**changes: Any) -> str:
        return one("stale-checkpoint-deadlock", **changes).why

    told = there(checkpoints=steps(2, 1), older={"complete": 46, "incomplete": 0})
    assert told.endswith("Complete steps there: 5, 10 and 46 older.")
    told = there(checkpoints=steps(2, 1), older={"complete": 0, "incomplete": 3})
    assert told.endswith("Complete steps there: 5, 10; incomplete: 3 older ones.")
    assert there(checkpoints=steps(2, 1)).endswith("Complete steps there: 5, 10.")
    # An agent before this one lists sixteen and does not say whether there are more.
    assert "does not say whether there are older ones" in there(checkpoints=steps(16, 1))
    count = {"complete": 0, "incomplete": 0}
    assert "older" not in there(checkpoints=steps(16, 1), older=count)


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"disk": {"free": 400 * GIB}}, "ok"),
        ({"disk": {"free": 130 * GIB}}, "blocking"),  # 3 x 44.7 GiB, as measured
        ({"disk": {"free": 140 * GIB}}, "ok"),
        ({"disk": {"free": 140 * GIB}, "bytes_each": 14.0}, "blocking"),  # without an adapter
        (
            {"disk": {"free": 80 * GIB}, "checkpoints": steps(2, 30 * GIB)},
            "ok",
        ),  # one more beside the two
        (
            {
                "disk": {"free": 80 * GIB},
                "checkpoints": steps(2, 30 * GIB),
                "plan": {"resume": None, "moves": ["/o/checkpoints/step_5"]},
            },
            "blocking",
        ),  # what is moved aside stays on the disk
        ({"disk": {"free": 20 * GIB}, "checkpoints": steps(5, 30 * GIB)}, "blocking"),
        (
            {"disk": {"free": 400 * GIB}, "checkpoints": steps(1, 300 * GIB)},
            "blocking",
        ),  # measured counts, not the name
        ({"disk": {"free": None}}, "unknown"),
        ({"model": "own/model"}, "unknown"),
    ],
)
def test_the_disk_against_keep_last_and_one_more(changes: dict[str, Any], state: str) -> None:
    assert one("disk-next-checkpoint", **changes).state == state


@pytest.mark.parametrize(
    ("free", "steps_planned", "identifier", "state"),
    [
        (400, 1000, "keep-last-missing", "warning"),
        (500, 50, "disk-next-checkpoint", "ok"),
        (50, 1000, "disk-next-checkpoint", "blocking"),
    ],
)
def test_without_keep_last_all_of_them_have_to_fit(
    free: int, steps_planned: int, identifier: str, state: str
) -> None:
    assert (
        one(
            identifier, keep_last=None, max_steps=float(steps_planned), disk={"free": free * GIB}
        ).state
        == state
    )


def test_taken_ports_name_their_holder_and_what_ends_it() -> None:
    held = [
        {"port": 8000, "holder": "pid 9 vllm serve (port 8000)", "run": "old"},
        {"port": 8100, "holder": "pid 10 nc (port 8100)", "run": None},
    ]
    first, second = (check for check in judged(ports=held) if check.id == "port-in-use")
    assert (first.state, second.state) == ("blocking", "blocking")
    assert "bs4-console stop --pod POD --run old" in first.fix
    assert "8100" in second.fix


def test_a_config_that_expects_a_server_wants_its_port_taken() -> None:
    held = [{"port": 8000, "holder": "pid 9 vllm serve (port 8000)", "run": "inference"}]
    assert one("port-in-use", serves_itself=False, ports=held).state == "ok"
    assert one("inference-unreachable", serves_itself=False).state == "warning"


def finding(failure: str, severity: str) -> dict[str, Any]:
    return {
        "failure": failure,
        "title": "As its playbook says",
        "summary": "It is so.",
        "severity": severity,
        "role": "root",
        "evidence": ["/x 1"],
    }


def test_detectors_speak_with_the_severity_and_the_advice_of_their_playbooks() -> None:
    critical, mild = finding("readonly-fs", "critical"), finding("curriculum-noop", "warning")
    blocking, warning = (
        one("readonly-fs", findings=[critical]),
        one("curriculum-noop", findings=[mild]),
    )
    assert (blocking.state, warning.state) == ("blocking", "warning")
    assert blocking.playbook == "readonly-fs"
    assert warning.fix
    assert "playbook show" not in warning.fix


def test_one_failure_is_said_once() -> None:
    found = [finding("disk-next-checkpoint", "warning")]
    # the check, with its numbers
    assert one("disk-next-checkpoint", disk={"free": 10 * GIB}, findings=found).state == "blocking"
    # the detector, where the check saw nothing
    assert one("disk-next-checkpoint", findings=found).state == "warning"


def test_a_part_by_itself_is_asked_for_what_it_needs() -> None:
    ids = {
        name: {
            check.id
            for check in judges.judge(
                run(), Wanted(trainer=START.trainer, config="c.toml", run="x", component=name)
            )
        }
        for name in ("trainer", "inference")
    }
    assert ids["trainer"] == {"launch", "stale-checkpoint-deadlock", "disk-next-checkpoint"}
    assert ids["inference"] == {"launch", "stale-checkpoint-deadlock", "port-in-use"}


def test_a_secret_among_the_options_blocks_and_is_not_shown() -> None:
    found = {"secret": "a Hugging Face token", "command": ""}
    assert one("secrets-exposed", **found).state == "blocking"
