"""verl from an empty practice pod to a merged model by the keys of the real console in a real
terminal: launched from the form, crashed from outside, mended by the playbook that the screen
offers, merged by its key.

Each stage of the screen is kept as text below the test's own directory (`screens/`), to be looked
at.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bs4_agent.checkpoints.merging.check import lacking
from bs4_console.tui.screens.launch import FIELDS
from bs4_practice import faults
from bs4_practice.miniature.verl import tensors
from bs4_practice.pod import PracticePod
from tests.agent.runs.practice import until
from tests.console.cli.conftest import Console, practising
from tests.console.tui.test_terminal import Terminal, terminal  # noqa: F401 (a fixture)
from tests.e2e import journals
from tests.e2e.test_launch_verl import attempts, gone, saved, steps

pytestmark = [
    pytest.mark.beside,
    pytest.mark.long,
    pytest.mark.skipif(
        shutil.which("tmux") is None,
        reason="tmux is not installed; the screen was not tried in a real terminal",
    ),
]

#: Seconds for what a person would wait for without a thought; a start and a recovery take longer.
SOON_S, LONG_S = 100.0, 240.0
#: What the header of a run's screen says: ` step 12/10000`.
_STEP = re.compile(r"^ step (\d+)", re.MULTILINE)


@dataclass
class Person:
    """Looks at the terminal and presses keys. What is pressed must be offered there, but for what
    everybody knows (enter, tab, esc).
    """

    terminal: Terminal
    album: Path
    _pictures: list[str] = field(default_factory=list)

    def sees(self, *wanted: str, seconds: float = SOON_S) -> str:
        """The screen, once it shows all of it; words that the terminal's width has broken apart
        count too.
        """
        return self.waits(
            lambda text: all(word in text or word in joined(text) for word in wanted), seconds
        )

    def waits(self, condition: Callable[[str], object], seconds: float = SOON_S) -> str:
        return self.terminal.until(condition, seconds)

    def keeps(self, stage: str, text: str | None = None) -> None:
        self._pictures.append(stage)
        (self.album / f"{len(self._pictures):02d}-{stage}.txt").write_text(
            text or self.terminal.shown()
        )

    def presses(self, key: str, offered: str) -> None:
        """`offered`: how the screen says what the key does."""
        self.sees(offered)
        self.terminal.press(key)

    def fills(self, **values: str) -> None:
        """A form whose cursor is in its first field: from field to field with Tab."""
        for name in FIELDS:
            if name in values:
                self.terminal.type(values[name])
            if name != list(FIELDS)[-1]:
                self.terminal.press("Tab")


def joined(text: str) -> str:
    """Without the frame of a dialog and the ends of its lines."""
    return " ".join(text.replace("│", " ").split())


def shown_step(text: str) -> int:
    """Of the run's header; 0 before there is any."""
    found = _STEP.search(text)
    return int(found[1]) if found else 0


def opened(console: Console, terminal: Terminal) -> None:  # noqa: F811
    """The console as its own command starts it, with this person's directories."""
    typed(console, terminal)


def typed(console: Console, terminal: Terminal, *words: str) -> None:  # noqa: F811
    """A command of the console in the terminal, with this person's directories. At its end the
    terminal shows `left with` and the exit code.
    """
    environment = [
        f"{name}={value}"
        for name, value in console.environment.items()
        if name.startswith(("BS4_", "HOME", "USER"))
    ]
    (console.root / "home").mkdir(exist_ok=True)
    program = [
        sys.executable,
        "-c",
        "import sys; from bs4_console.cli.main import main; sys.exit(main())",
        *words,
    ]
    script = console.root / "console.sh"
    script.write_text(f"{shlex.join(['env', *environment, *program])}\necho left with $?\n")
    terminal.type(f"clear; sh {shlex.quote(str(script))}")
    terminal.press("Enter")


def launched(person: Person, pod: PracticePod) -> None:
    """From the fleet's row of an empty pod to a first step, by the form."""
    person.keeps("fleet", person.sees("bare", "No run is known here: start one.", "data now"))
    assert attempts(pod) == [], "nothing is started by looking"
    person.presses("W", "W launch")
    person.keeps("form", person.sees("Start a run on bare", "name of the run"))
    warmth = "actor_rollout_ref.rollout.temperature=0.9"
    person.fills(config="configs/rl.toml", run="demo", overrides=warmth)
    person.keeps("form-filled", person.sees("configs/rl.toml", "demo", warmth))
    person.terminal.press("Enter")
    person.keeps(
        "plan", person.sees("Start demo", "verl.trainer.main_ppo", "start it", seconds=LONG_S)
    )
    assert attempts(pod) == [], "nothing is started before it was confirmed"
    person.presses("y", "y start it")
    person.keeps("starting", person.sees("demo on bare", "attempt 1"))
    person.keeps(
        "first-step",
        person.waits(lambda text: shown_step(text) >= 1 and "demo trains: step" in text, LONG_S),
    )


def crashed(person: Person, pod: PracticePod) -> int:
    """A GPU worker is killed some steps above a complete checkpoint. The step of that."""
    person.keeps(
        "training", person.waits(lambda text: shown_step(text) >= 7 and saved(pod) >= 5, LONG_S)
    )
    faults.kill(faults.find(pod, "ray-worker")[0])
    until(gone(pod, "launcher", "task-runner"), LONG_S)
    return saved(pod)


def mended(person: Person, newest: int) -> None:
    """The incident, its first line, the plan with its commands, the name typed, and the proof."""
    person.keeps("crashed", person.sees("A Ray worker died", "evidence and fix", seconds=LONG_S))
    person.presses("i", "i evidence and fix")
    person.keeps("incident", person.sees("EVIDENCE", "ActorDiedError", "THE FIX ray-worker-died"))
    person.presses("p", "p make plan")
    person.keeps("fix", person.sees("PLAN ray-worker-died", "runs exactly this plan"))
    person.presses("r", "r run plan")
    person.keeps(
        "confirm-fix", person.sees("Run ray-worker-died on bare?", "To confirm, type demo")
    )
    person.terminal.type("demo")
    person.terminal.press("Enter")
    person.keeps("mending", person.sees("ACTION ray-worker-died"))
    person.keeps("recovered", person.sees("RECOVERED", seconds=LONG_S))
    person.terminal.press("Escape")
    text = person.sees("demo on bare", "attempt 2", f"from step {newest}", "can be resumed")
    assert "A Ray worker died" not in text.split(" host ")[0], "what is mended is no alarm any more"


def nothing_lost(pod: PracticePod, newest: int, before: list[int]) -> None:
    """By verl's own rows of each attempt, and by what the agent has written down of both starts."""
    again = steps(pod, 2)
    assert steps(pod, 1) == before == list(range(1, before[-1] + 1)), (
        "what was told before the crash is still there"
    )
    assert again == list(range(newest + 1, again[-1] + 1)), (
        "the first step after the checkpoint, and from there each once"
    )
    assert again[-1] > before[-1], "it trains past where it died"
    first, second = attempts(pod)
    assert (first["launch"]["resume"], second["launch"]["resume"]) == (None, newest)
    assert (
        f"trainer.resume_from_path={pod.run_dir}/checkpoints/global_step_{newest}" in second["argv"]
    )
    assert first["launch"]["overrides"] == second["launch"]["overrides"]
    assert (pod.run_dir / "checkpoints" / f"global_step_{newest}" / "actor").is_dir()


def merged(person: Person, pod: PracticePod) -> Path:
    """The newest complete step, by its key. The directory that the screen has named."""
    person.presses("X", "X merge checkpoint")
    asked = person.sees("Run merge on bare?", "verl.model_merger merge --backend fsdp", "y run it")
    person.keeps("confirm-merge", asked)
    assert not (pod.run_dir / "merged").exists(), "nothing is merged before it was confirmed"
    step = int(re.search(r"Merge step (\d+) of demo", joined(asked))[1])  # type: ignore[index]
    # The run trains on, and saves: what was asked stays this step.
    until(lambda: saved(pod) > step, LONG_S)
    person.presses("y", "y run it")
    person.keeps("merging", person.sees("doing", "merge", f"Merge step {step} of demo"))
    person.keeps("merged", person.sees(f"demo: step {step} is merged into", seconds=LONG_S))
    return pod.run_dir / "merged" / f"global_step_{step}"


def verified(pod: PracticePod, target: Path) -> None:
    """By the action's own record: the merger's result was looked at before it was put there. And by
    a look of ours.
    """
    (key,) = (
        r["action"]
        for r in journals.records(pod.home)
        if r["type"] == "action" and r.get("kind") == "merge"
    )
    told = journals.of_action(pod.home, key)
    assert journals.finished_steps(told) == {0: 1, 1: 1}
    assert next(r["detail"] for r in told if r["event"] == "step-done" and r["step"] == 0).endswith(
        "verified"
    )
    assert (told[-1]["event"], told[-1]["result"]["target"]) == ("done", str(target))
    assert lacking(target) == ""
    assert len(tensors.load(target)) == tensors.SIZE
    assert json.loads((target / "bs4-merge.json").read_text())["key"] == key


@pytest.mark.timeout(900)
def test_from_an_empty_pod_to_a_merged_model_by_keys(terminal: Terminal, tmp_path: Path) -> None:  # noqa: F811
    person = Person(terminal, tmp_path / "screens")
    person.album.mkdir()
    with practising(
        "verl", "bare", step_seconds=0.4, env={"BS4_MINIATURE_MERGE_SECONDS": "4"}
    ) as practice:
        pod = practice.pod
        assert not (pod.home / ".bs4").exists(), "the pod is empty"
        opened(practice.console, terminal)
        try:
            launched(person, pod)
            newest = crashed(person, pod)
            before = steps(pod, 1)
            mended(person, newest)
            until(lambda: bool(steps(pod, 2)) and steps(pod, 2)[-1] > before[-1], LONG_S)
            person.keeps("past-it", person.waits(lambda text: shown_step(text) > before[-1]))
            nothing_lost(pod, newest, before)
            verified(pod, merged(person, pod))
            assert steps(pod, 2)[-1] > before[-1] + 1, "and it has trained all the while"
            terminal.type(":q\r")
            person.sees("left with 0")
        except BaseException:
            person.keeps("failed")
            raise
