"""What a stop would do, said before it does: the signals of the run's own trainer, then TERM and
KILL for the rest.
"""

from __future__ import annotations

from bs4_console.launch import stopping
from bs4_console.pods.state import RunState
from tests.console.tui import fixtures


def a_run(trainer: str) -> RunState:
    pod = fixtures.connected("h100-a", "root@192.0.2.41:22")
    fixtures.start_run(pod, "math-7b", trainer, 400, 100)
    fixtures.telemetry(
        pod,
        runs=[
            {"run": "math-7b", "attempt": 1, "alive": True, "components": fixtures.parts(100, 1, 1)}
        ],
    )
    return pod.runs["math-7b"]


def test_the_old_generation_is_signalled_as_a_tree() -> None:
    assert [(s.command, s.seconds) for s in stopping.steps(a_run("prime-rl-2026-01"))] == [
        ("kill -INT 100 109 118 127 136 145", 30.0),
        ("kill -TERM 100 109 118 127 136 145", 20.0),
        ("kill -KILL 100 109 118 127 136 145", 5.0),
    ]


def test_the_new_one_through_its_launcher_alone() -> None:
    assert [s.command for s in stopping.steps(a_run("prime-rl"))][:2] == [
        "kill -TERM 100",
        "kill -TERM 100 109 118 127 136 145",
    ]


def test_of_a_trainer_that_only_a_newer_agent_knows_the_rest_is_said() -> None:
    assert [s.command.split()[1] for s in stopping.steps(a_run("nextgen"))] == ["-TERM", "-KILL"]


def test_nothing_is_said_of_what_does_not_live() -> None:
    run = a_run("prime-rl")
    run.alive = False
    assert (stopping.processes(run), stopping.steps(run)) == ([], [])
