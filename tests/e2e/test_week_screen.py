"""A day of the engineer's week that is spent at the screen, by keys and `:` commands in a real
terminal: a start that cannot work and one that does, what the model writes, checkpoints that are
copied, kept, freed and brought back, and what is said of that which is done in a shell.

Each stage of the screen is kept as text below the test's own directory (`screens/`).
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from bs4_practice.b2.server import B2Server
from bs4_practice.pod import PracticePod
from tests.agent.runs.practice import until
from tests.console.cli.conftest import Practice, practising
from tests.console.tui.test_terminal import Terminal, terminal  # noqa: F401 (a fixture)
from tests.e2e import lost_pods
from tests.e2e.test_launch_verl import attempts, gone
from tests.e2e.test_verl_screen import LONG_S, Person, joined, opened, shown_step
from tests.e2e.test_week import freed

pytestmark = [
    pytest.mark.beside,
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="the screen is walked in tmux"),
]

POD, RUN = "delta", "demo"
#: What is done in a shell: the word that a person types, and how the line begins that is shown.
IN_A_SHELL = {
    "phases": f"bs4-console phases status FILE --pod {POD}",
    "cost": f"bs4-console runs cost {RUN}",
    "evaluate": f"bs4-console runs milestones {RUN} --pod {POD}",
    "bench": "bs4-console runs bench BASELINE STEP=FILE",
    "prune": f"bs4-console checkpoints prune --from b2://BUCKET/PREFIX --run {RUN}",
    "report": f"bs4-console runs report {RUN} --output {RUN}.html",
}


def commands(person: Person, text: str) -> None:
    """Type a command after `:`, in one go as a quick hand does it."""
    person.terminal.type(f":{text}\r")


def copied_text(person: Person) -> str:
    """The newest of tmux's buffers, "" while there is none."""
    try:
        return person.terminal._tmux("show-buffer")
    except subprocess.CalledProcessError:
        return ""


def pages_to(person: Person, *wanted: str) -> None:
    """Page down in a dialog until all of it was on the screen."""
    left = set(wanted)

    def look(text: str) -> bool:
        left.difference_update([word for word in left if word in text])
        if left:
            person.terminal.press("PageDown")
        return not left

    person.waits(look)


def a_start_that_cannot_work(person: Person, on: Practice) -> None:
    """What the look before the start finds stands beside the form, and nothing is started."""
    bad = on.pod.config_path.with_name("bad.toml")
    bad.write_text(on.pod.config_path.read_text() + "\n[config]\nversion = 3\n")
    person.keeps("fleet", person.sees(POD, "No run is known here", "data now", seconds=LONG_S))
    commands(person, f"launch configs/bad.toml {RUN}")
    person.keeps("form", person.sees(f"Start a run on {POD}", "configs/bad.toml"))
    person.terminal.press("Enter")
    refused = person.sees("Nothing was started: first mend what is marked", seconds=LONG_S)
    person.keeps("refused", refused)
    pages_to(person, "R15")
    assert attempts(on.pod) == []
    person.terminal.press("Escape")
    person.waits(lambda text: "Start a run on" not in text)


def a_start(person: Person, on: Practice) -> None:
    """By the form that the command has filled: the exact command, the price, and one key."""
    commands(person, f"launch configs/rl.toml {RUN}")
    person.sees(f"Start a run on {POD}", "configs/rl.toml")
    person.terminal.press("Enter")
    person.keeps("plan", person.sees(f"Start {RUN}", "y start it", seconds=LONG_S))
    pages_to(person, "$2.50 an hour")
    assert attempts(on.pod) == [], "nothing is started before it was confirmed"
    person.terminal.press("y")
    person.sees(f"{RUN} on {POD}", "attempt 1", seconds=LONG_S)
    person.keeps(
        "trains",
        person.waits(lambda text: shown_step(text) >= 2 and re.search(r"eta \d", text), LONG_S),
    )


def what_it_writes(person: Person, on: Practice) -> None:
    """The page has what the command prints of the same step."""
    commands(person, "rollouts")
    page = person.sees("Reverse the text", "assistant: ", "reward ", seconds=LONG_S)
    person.keeps("rollouts", page)
    (step,) = re.findall(r"rollouts/step_(\d+)/", page)
    printed = on("runs", "rollouts", RUN, "--pod", POD, "--step", step)
    assert printed.code == 0, printed
    first = re.search(r"^(reverse-text example \S*): (reward \S+)$", printed.out, re.MULTILINE)
    assert first is not None, printed
    assert f"{first[1]}  {first[2]}" in page
    person.terminal.press("Escape")
    person.sees(f"{RUN} on {POD}", "step time")


def copied(person: Person, server: B2Server, pod: PracticePod) -> int:
    """Ordered on the screen of the checkpoints. A step that the store has then."""
    lost_pods.give_key(pod, server, write=True)
    person.terminal.press("D")
    person.sees("checkpoints", "complete", seconds=LONG_S)
    commands(person, f"sync {lost_pods.URL}")
    person.keeps("sync", person.sees(f"Copy each newest checkpoint of {RUN}", "order it"))
    person.terminal.press("y")
    pointer = f"{lost_pods.PLACE.prefix}/{RUN}/latest.json"
    until(lambda: pointer in names(server), LONG_S)
    return lost_pods.pointed(server)


def names(server: B2Server) -> set[str]:
    return {entry.name for entry in lost_pods.open_store(server).entries("")}


def kept(person: Person, pod: PracticePod, step: int) -> None:
    """The two newest, after what goes for good was shown. `step` is freed when it is old."""
    until(lambda: len(list((pod.run_dir / "checkpoints").glob("step_*"))) >= 4, LONG_S)
    person.waits(lambda text: len(re.findall(r"^\s+\d+ .*complete", text, re.MULTILINE)) >= 4)
    commands(person, "keep 2")
    asked = person.sees(f"Keep the 2 newest complete checkpoints of {RUN}?", "Freed for good now")
    person.keeps("keep", asked)
    assert freed(pod) == set(), "nothing goes before it was confirmed"
    foretold = re.search(r"from now on: steps? ((?:\d+, )+)", joined(asked))
    assert foretold is not None, asked
    person.terminal.type(RUN)
    person.terminal.press("Enter")
    wanted = {int(number) for number in re.findall(r"\d+", foretold[1])} | {step}
    until(lambda: wanted <= freed(pod), LONG_S)


def stopped(person: Person, pod: PracticePod) -> None:
    person.terminal.press("K")
    person.keeps("stop", person.sees(f"Stop {RUN} on {POD}?", f"To confirm, type {RUN}"))
    person.terminal.type(RUN)
    person.terminal.press("Enter")
    until(gone(pod, "launcher", "orchestrator"), LONG_S)


def brought_back(person: Person, pod: PracticePod, step: int) -> None:
    """A freed step comes back from the store, after its plan was shown and confirmed."""
    assert not (pod.run_dir / "checkpoints" / f"step_{step}").exists()
    commands(person, f"restore {step}")
    asked = person.sees(f"Run restore on {POD}?", "to fetch:", seconds=LONG_S)
    person.keeps("restore", asked)
    assert "to the run's trash" not in asked, "nothing lies in the way of the step"
    if "To confirm, type" in asked:
        person.terminal.type(RUN)
        person.terminal.press("Enter")
    else:
        person.terminal.press("y")
    until(lambda: (pod.run_dir / "checkpoints" / f"step_{step}").is_dir(), LONG_S)
    person.keeps("restored", person.terminal.shown())


def what_is_done_in_a_shell(person: Person) -> None:
    """Each word is answered with the line to type, with this run and pod in it, which is copied."""
    for word, line in IN_A_SHELL.items():
        commands(person, word)
        # The news are gone after a few seconds. What was copied stays.
        person.waits(
            lambda text, line=line: line in joined(text) or copied_text(person).startswith(line)
        )
    commands(person, "messages")
    person.keeps("in-a-shell", person.sees(*IN_A_SHELL.values()))


@pytest.mark.timeout(900)
def test_a_day_at_the_screen(terminal: Terminal, tmp_path: Path) -> None:  # noqa: F811
    person = Person(terminal, tmp_path / "screens")
    person.album.mkdir()
    with (
        B2Server(tmp_path / "b2") as server,
        practising("prime-rl", POD, step_seconds=0.3, env={"BS4_B2_REALM": server.url}) as on,
    ):
        server.bucket(lost_pods.BUCKET)
        with (on.console.config / "pods.toml").open("a") as inventory:
            inventory.write("price = 2.5\n")
        opened(on.console, terminal)
        try:
            a_start_that_cannot_work(person, on)
            a_start(person, on)
            what_it_writes(person, on)
            step = copied(person, server, on.pod)
            kept(person, on.pod, step)
            stopped(person, on.pod)
            brought_back(person, on.pod, step)
            what_is_done_in_a_shell(person)
            person.sees(f"{RUN}: step {step} is complete here", seconds=LONG_S)
            commands(person, "q")
            person.sees("left with 0")
        except BaseException:
            person.keeps("failed")
            raise
