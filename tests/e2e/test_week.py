"""A week of an engineer who trains on rented machines, day by day, by the commands that a person
types, beside a screen that stays open in a terminal all week.

Clouds, machines, store and trainers are practice ones; commands, screen, SSH and processes are
real. Whatever goes for good during the week was shown before: `Week.said` has all that commands
have printed, and the walk looks there.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bs4_console.transport.hostkeys import fingerprint
from bs4_practice import faults, witness
from bs4_practice.b2.server import B2Server
from bs4_practice.cloud import Cloud, PracticePods, running
from bs4_practice.pod import PracticePod
from tests.console.cli.conftest import Console, Result, practising
from tests.console.cli.test_run_log import DOCUMENT
from tests.console.tui.test_terminal import Terminal, terminal  # noqa: F401 (a fixture)
from tests.e2e import journals
from tests.e2e.rented import until
from tests.e2e.test_programs import furnish
from tests.e2e.test_verl_screen import Person, opened, typed
from tests.support import keys
from tests.support.trees import below

TRAINER, GENERATION = "prime-rl-2026-01", "2026-01"
BUCKET = "practice-bucket"
STORE = f"b2://{BUCKET}/week"
H100 = ("--gpu", "H100", "--count", "2", "--max-price", "6")
#: Seconds for what takes long: a start, a recovery, a hundred steps.
LONG_S = 240.0


@dataclass
class Week:
    """The world of the week, and the person's console in it."""

    cloud: Cloud
    metal: PracticePods
    server: B2Server
    console: Console
    key: Path
    """Opens the rented machines."""
    said: list[str] = field(default_factory=list)
    """All that the commands have printed so far."""

    def does(self, *words: str, code: int = 0, stdin: bytes | None = None) -> Result:
        """Type a command. It has to end with this exit code."""
        done = self.console(*words, stdin=stdin, timeout=LONG_S)
        self.said.append(done.out + done.err)
        assert done.code == code, (words, done)
        return done

    def told(self, *words: str, code: int = 0) -> dict[str, Any]:
        return self.does(*words, "--json", code=code).json

    def was_shown(self, text: str) -> bool:
        return any(text in said for said in self.said)

    def pod(self, name: str) -> PracticePod:
        """The machine behind a pod of the inventory."""
        return self.metal.pods[self.told("pods", "show", name)["instance"]]

    def rents(self, name: str, *words: str) -> str:
        """A machine by its plan's hash, into the inventory. The provider that has it."""
        asked = ("provision", "create", *H100, "--run", "week", *words)
        identity = ("--identity", str(self.key))
        plan = self.told(*asked, *identity, "--plan")
        assert [one["provider"] for one in plan["offers"]] == ["vast", "vast", "runpod"]
        hash_ = plan["plan_hash"]
        made = self.told("provision", "create", "--plan", hash_, "--pod", name, *identity)
        assert (made["pod"], made["trusted"]) == (name, True), "the provider tells its host key"
        self.does("deploy", "--pod", name)
        return str(made["machine"]["provider"])

    def gives_credentials(self, name: str) -> None:
        """The store's key to a pod, and nothing else is set up there."""
        key = self.server.key("listBuckets", "listFiles", "readFiles", "writeFiles")
        lines = f"B2_APPLICATION_KEY_ID={key.id}\nB2_APPLICATION_KEY={key.secret}\n"
        self.does("pods", "setup", name, "--credentials", "-", "--yes", stdin=lines.encode())
        home = self.pod(name).home
        kept = home / ".bs4" / "credentials" / "b2.json"
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert key.secret not in json.dumps(journals.records(home))
        assert not self.was_shown(key.secret)

    def writes_configs(self, pod: str = "alpha", **texts: str) -> None:
        """Configs of this machine, and bring all that are there to a pod."""
        directory = self.console.root / "configs"
        directory.mkdir(exist_ok=True)
        for name, text in texts.items():
            (directory / f"{name}.toml").write_text(text)
        (directory / ".env").write_text("HF_TOKEN=never-to-travel\n")
        sent = self.does("pods", "sync", pod, str(directory), "prime-rl/configs", "--yes")
        assert ".env" in sent.out, "what stays here is named"
        assert not (self.pod(pod).project / "configs" / ".env").exists()

    def launches(self, run: str, config: str) -> None:
        """By the hash of the plan that was shown."""
        words = ("launch", config, "--pod", "alpha", "--run", run, "--trainer", TRAINER)
        words += ("--output-dir", f"outputs/{run}")
        plan = self.told(*words, "--plan")
        assert plan["resume"] is None
        assert plan["moves"] == []
        done = self.does(*words, "--plan", plan["plan_hash"])
        assert f"{run} trains: step " in done.out

    def steps(self, pod: PracticePod, run: str) -> int:
        """The newest step that the trainer itself says it has done, -1 before the first one."""
        found = witness.steps(pod.project / "outputs" / run, GENERATION)
        return max((step for _, step in found), default=-1)

    def trains_to(self, pod: PracticePod, run: str, step: int) -> None:
        until(lambda: self.steps(pod, run) >= step, LONG_S, f"step {step} of {run}")

    def state(self, pod: str, run: str) -> str:
        runs = self.told("runs", "list", "--pod", pod)["runs"]
        return str(next(one["state"] for one in runs if one["name"] == run))


@contextlib.contextmanager
def week() -> Iterator[Week]:
    # A short directory: below pytest's own there is no room for the name of a unix socket.
    with (
        tempfile.TemporaryDirectory(prefix="bs4-") as short,
        B2Server((root := Path(short)) / "b2") as server,
    ):
        server.bucket(BUCKET)
        settings = {"step_seconds": 0.7, "pace": 0.3, "env": {"BS4_B2_REALM": server.url}}
        metal = PracticePods(root / "m", GENERATION, **settings)
        with running(metal=metal) as cloud:
            names = ("vast", "runpod")
            urls = {f"BS4_{name.upper()}_URL": cloud.url(name) for name in names}
            console = Console(root / "c", {**urls, "BS4_B2_REALM": server.url})
            console.root.mkdir()
            made = Week(cloud, metal, server, console, keys.private_key(root / "id_week"))
            for name in names:
                key = f"{cloud.KEY}\n".encode()
                made.does("provision", "key", name, "--file", stdin=key)
            yield made


# -- Monday: a machine, its credentials, a start that cannot work, and one that does


def monday(week: Week, person: Person) -> None:
    offers = week.told("provision", "search", *H100)["offers"]
    assert {offer["provider"] for offer in offers} == {"vast", "runpod"}
    assert week.rents("alpha") == "vast"
    opened(week.console, person.terminal)
    person.sees("alpha", "No run is known here", seconds=LONG_S)
    week.gives_credentials("alpha")
    notes = week.console.root / "notes.md"
    notes.write_text(DOCUMENT)
    assert week.told("runs", "import", str(notes))["added"] == ["parrot-v1"]

    good = week.pod("alpha").config_path.read_text()
    bad = good.replace("max_tokens = 24", "max_tokens = 4096")
    bad += "\n[inference.model]\nmax_model_len = 4096\n"
    assert bad != good
    week.writes_configs(v1=good, bad=bad)
    a_start_that_cannot_work(week)

    looked = week.console("preflight", *of_alpha("configs/v1.toml", "v1"), "--json")
    assert looked.json["blocking"] == []
    week.launches("v1", "configs/v1.toml")
    (attempt,) = week.told("runs", "show", "v1")["run"]["attempts"]
    assert attempt["config_digest"]
    assert attempt["pod"] == "alpha"
    assert "H100" in attempt["hardware"]["gpus"]
    person.terminal.type(":run v1\r")
    person.sees("v1 on alpha", "attempt 1")


def of_alpha(config: str, run: str) -> tuple[str, ...]:
    where = ("--pod", "alpha", "--trainer", TRAINER, "--run", run)
    return (*where, "--config", config, "--output-dir", f"outputs/{run}")


def a_start_that_cannot_work(week: Week) -> None:
    """Answers as long as the context: said by lint and preflight, and not launched. A start that
    hangs is stopped by another command while the launch waits.
    """
    local = str(week.console.root / "configs" / "bad.toml")
    week.does("config", "lint", local, "--trainer", TRAINER, code=1)
    assert week.told("preflight", *of_alpha("configs/bad.toml", "bad"), code=2)["blocking"]
    words = ("--pod", "alpha", "--run", "bad", "--trainer", TRAINER)
    words += ("--output-dir", "outputs/bad", "--yes")
    refused = week.does("launch", "configs/bad.toml", *words, code=4)
    assert "Nothing was started" in refused.err
    with begun(week, "launch", "configs/v1.toml", *words) as (process, said):
        orchestrator = faults.wait_for(week.pod("alpha"), "orchestrator", timeout=LONG_S)
        faults.pause(asyncio.run(orchestrator)[0])
        until(lambda: "2. Wait for the first step" in said.read_text(), LONG_S, "the wait")
        assert process.poll() is None, "the launch still waits"
        stopped = week.does("stop", "--pod", "alpha", "--run", "bad", "--confirm", "bad")
        assert "would end the launch by tester" in stopped.out
        assert "would end pid" in stopped.out
        assert process.wait(LONG_S) == 1
        assert "was ended early: cancelled by tester" in said.read_text()
    assert week.state("alpha", "bad") == "stopped"
    (stay,) = week.told("runs", "cost", "bad")["stays"]
    assert stay["cost"] is not None, "a start that never trained has cost something too"


@contextlib.contextmanager
def begun(week: Week, *words: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A command in another terminal: its process, and the file with all that it says."""
    said = week.console.root / "elsewhere.txt"
    with said.open("wb") as out:
        process = week.console.start(*words, stdout=out, stderr=out)
        try:
            yield process, said
        finally:
            if process.poll() is None:
                process.kill()
            process.wait(30)


# -- Tuesday: the run is read, changed, and held against the one before


def tuesday(week: Week, person: Person) -> None:
    alpha = week.pod("alpha")
    week.trains_to(alpha, "v1", 8)
    assert "Step 8 |" in week.does("logs", "v1", "--pod", "alpha", "-n", "0").out
    person.terminal.type("K")
    person.sees("Stop v1 on alpha?", "ends processes", "To confirm, type v1")
    person.terminal.type("v1")
    person.terminal.press("Enter")
    until(lambda: week.state("alpha", "v1") == "stopped", LONG_S, "the end of v1")

    text = (week.console.root / "configs" / "v1.toml").read_text()
    week.writes_configs(v2=text.replace("lr = 3e-6", "lr = 5e-6"))
    week.launches("v2", "configs/v2.toml")
    week.trains_to(alpha, "v2", 8)
    rows = week.told("runs", "compare", "v1", "v2")["rows"]
    changed = [(row["key"], row["values"]) for row in rows if row["part"] == "settings"]
    assert ("trainer.optim.lr", [3e-06, 5e-06]) in changed
    (reward,) = [row for row in rows if row["key"].startswith("reward at step")]
    assert None not in reward["values"], "the reward of both at one step"
    # What it writes: this generation keeps no text of it, and that is said with what to do instead.
    untold = week.does("runs", "rollouts", "v2", "--pod", "alpha", "--step", "8", code=2)
    assert "token ids and no text" in untold.err
    assert "orchestrator.wandb.log_extras" in untold.err
    person.terminal.type(":run v2\r")
    person.sees("v2 on alpha")
    person.terminal.type(":compare v1\r")
    person.sees("compared", "v1")

    # The change is taken back: what would be lost is shown, and nothing is written over unasked.
    output = week.console.root / "back.toml"
    output.write_text("# by hand\n")
    back = ("runs", "rollback", "v1", "--to", "1", "--output", str(output))
    shown = week.does(*back, code=4).out
    assert "-# by hand" in shown
    assert output.read_text() == "# by hand\n"
    week.does(*back, "--force")
    assert output.read_text() == text


# -- Wednesday: checkpoints go to the store, the best one stays, and a crash is mended


def wednesday(week: Week, person: Person) -> None:
    alpha = week.pod("alpha")
    of_run = ("--pod", "alpha", "--run", "v2")
    week.does("checkpoints", "sync", *of_run, "--to", STORE, "--milestones", "20")
    keep = ("checkpoints", "keep", *of_run, "--last", "2", "--best", "reward")
    assert "--confirm v2" in week.does(*keep, code=4).err, "nothing is freed unasked"
    ordered = week.does(*keep, "--confirm", "v2")
    assert "older ones" in ordered.out, "what goes for good, now and from now on"
    assert "is the best now and stays" in ordered.out
    until(lambda: freed(alpha), LONG_S, "a checkpoint that is freed")
    listed = week.told("checkpoints", "list", *of_run)
    whole = [one["step"] for one in listed["checkpoints"] if one["complete"]]
    assert listed["order"]["best"] == "reward"
    assert max(freed(alpha)) < max(whole)
    assert len(whole) >= 2
    until(
        lambda: week.told("checkpoints", "sync", *of_run, "--status")["pointer"], LONG_S, "a copy"
    )

    asyncio.run(kill_the_engine(alpha))
    playbook = until(lambda: what_died(week), LONG_S, "what died")
    shown = week.does("playbook", "plan", playbook, *of_run).out
    assert "$ uv run rl @ configs/v2.toml" in shown
    files = witness.Snapshot.take([alpha.project])
    confirmed = mended(person, playbook)
    assert [path for path in moved(alpha) if path not in confirmed_plan(alpha, confirmed)] == []
    gone = witness.lost_files(files, [alpha.project])
    own = [f"/step_{step}/" for step in freed(alpha)]
    assert [path for path in gone if not any(part in path for part in own)] == []
    assert len(week.told("runs", "show", "v2")["run"]["attempts"]) == 2


async def kill_the_engine(pod: PracticePod) -> None:
    await faults.kill_generating(pod)


def what_died(week: Week) -> str:
    """The playbook of what is critical on v2, "" while nothing is."""
    told = week.console("check", "--pod", "alpha", "--json").json["pods"][0]["incidents"]
    mine = [one for one in told if (one["run"], one["severity"]) == ("v2", "critical")]
    return next((str(one["playbook"]) for one in mine if one["playbook"]), "")


def moved(pod: PracticePod) -> list[str]:
    """Where what lies in a trash of the pod was before."""
    tickets = [path for path in below(pod.project) if path.match(".*.bs4-moved.json")]
    return [str(json.loads(ticket.read_text())["original"]) for ticket in tickets]


def confirmed_plan(pod: PracticePod, begins: str) -> str:
    """All that the plan says whose hash begins so, from the pod's journal."""
    told = [json.dumps(record) for record in journals.records(pod.home)]
    return "".join(text for text in told if '"plan_hash": "' + begins in text)


def mended(person: Person, playbook: str) -> str:
    """By the keys of the screen: evidence, plan, confirmation, proof. The beginning of the plan's
    hash, as the question shows it.
    """
    person.terminal.type("i")
    # The plan that the command has shown is there already.
    person.sees(f"PLAN {playbook}", "runs exactly this plan", seconds=LONG_S)
    person.terminal.type("r")
    asked = person.sees(f"Run {playbook} on alpha?", "expires in")
    shown = re.search(r"plan ([0-9a-f]{16})", asked)
    assert shown is not None
    if "To confirm, type" in asked:
        person.terminal.type("v2")
        person.terminal.press("Enter")
    else:
        person.terminal.type("y")
    person.sees("RECOVERED", seconds=LONG_S)
    person.terminal.press("Escape")
    person.sees("v2 on alpha", "attempt 2")
    return shown[1]


def freed(pod: PracticePod) -> set[int]:
    """The steps that the agent has freed on this pod, by its journal."""
    told = [record for record in journals.records(pod.home) if record["type"] == "action"]
    done = {record["action"] for record in told if record["event"] == "done"}
    found: set[int] = set()
    for record in told:
        if record.get("kind") == "rotate" and record["action"] in done:
            found.update(record.get("body", {}).get("steps", ()))
    return found


# -- Thursday: the machine is taken back, and the run goes on at another provider


def thursday(week: Week, person: Person) -> None:
    lost = week.told("pods", "show", "alpha")["instance"]
    before = week.steps(week.pod("alpha"), "v2")
    week.cloud.market.outbid(lost)
    assert week.does("check", "--pod", "alpha", code=3)
    person.terminal.type(":fleet\r")
    person.sees("alpha", "reclaimed", seconds=LONG_S)
    (machine,) = week.told("provision", "list")["machines"]
    assert (machine["pod"], machine["state"]) == ("alpha", "stopped")

    # What its provider has left is gone before it is rented: the next offer is another's.
    week.cloud.fault("vast", "create", "refuse", times=2)
    assert week.rents("beta", "--another") == "runpod"
    person.sees("beta", seconds=LONG_S)
    week.gives_credentials("beta")
    whole = week.server.key()
    lines = f"B2_APPLICATION_KEY_ID={whole.id}\nB2_APPLICATION_KEY={whole.secret}\n".encode()
    remote = ("checkpoints", "remote", "--from", STORE, "--run", "v2", "--credentials", "-")
    saved = week.does(*remote, "--json", stdin=lines).json["pointer"]
    restore = ("checkpoints", "restore", "--pod", "beta", "--run", "v2", "--from", STORE)
    restore += ("--output-dir", "outputs/v2", "--launch")
    plan = week.does(*restore, "--plan").out
    assert f"step {saved}" in plan.lower()
    assert f"then ordered as on alpha: sync: to {STORE}" in plan
    assert "then ordered as on alpha: keep: last 2" in plan
    done = week.does(*restore, "--yes")
    assert "v2 trains: step " in done.out
    beta = week.pod("beta")
    assert saved <= before
    week.trains_to(beta, "v2", before)

    # Its orders, its history and what it has cost go with it.
    assert (
        week.told("checkpoints", "sync", "--pod", "beta", "--run", "v2", "--status")["to"] == STORE
    )
    listed = week.told("checkpoints", "list", "--pod", "beta", "--run", "v2")
    assert (listed["order"]["last"], listed["order"]["best"]) == (2, "reward")
    run = week.told("runs", "show", "v2")["run"]
    assert [one["pod"] for one in run["attempts"]] == ["alpha", "alpha", "beta"]
    spent = week.told("runs", "cost", "v2")
    assert [one["pod"] for one in spent["stays"]] == ["alpha", "beta"]
    assert spent["total"] == pytest.approx(sum(one["cost"] for one in spent["stays"]))
    assert spent["unpriced"] == []
    assert week.told("runs", "eta", "v2")["cost_so_far"] >= spent["total"]

    # What the first machine costs ends with it. Its disk goes too, after its name was typed again.
    assert "its disk goes with it" in week.does("provision", "terminate", "alpha", code=4).err
    assert week.was_shown(machine["label"])
    ended = week.does("provision", "terminate", "alpha", "--confirm", machine["label"])
    assert "The pod alpha has left the inventory" in ended.out
    assert [one["name"] for one in week.told("pods", "list")["pods"]] == ["beta"]
    assert [one.provider for one in week.cloud.market.living()] == ["runpod"]
    assert len(week.told("runs", "show", "v2")["run"]["attempts"]) == 3, "its record stays"


# -- Friday: a checkpoint is evaluated, the runs are judged, and the weekend is prepared


def friday(week: Week, person: Person) -> None:
    # The screen looks into the inventory every few seconds; until then v2 is a run of two pods.
    person.sees("1 pod ", seconds=LONG_S)
    person.terminal.type(":run v2\r")
    person.sees("v2 on beta")
    person.terminal.type(":note Sync before you sleep\r")
    until(lambda: "Sync before you sleep" in week.does("runs", "show", "v2").out, LONG_S, "a note")
    week.does("stop", "--pod", "beta", "--run", "v2", "--confirm", "v2")
    step = an_evaluation(week)
    store_is_pruned(week)

    week.does("runs", "note", "v1", "learning rate too low", "--status", "abandoned")
    week.does("runs", "note", "v2", "the machine was taken back", "--status", "postmortem")
    week.does("runs", "note", "v2", "Rent where nobody outbids", "--lesson")
    shown = week.does("runs", "show", "v2").out
    assert "v2: postmortem (the machine was taken back)" in shown
    assert "Rent where nobody outbids" in shown
    assert "v1: abandoned (learning rate too low)" in week.does("runs", "show", "v1").out
    assert f"v2-at-{step}" in week.does("runs", "list").out
    a_colleague(week)
    a_run_in_two_phases(week, person)
    person.terminal.type(":q\r")
    person.sees("left with 0")
    a_verl_machine_gets_its_credentials(week, person)


#: So called because the practice program does by the config's name what becomes of it.
EVAL = """
num_examples = 8
[model]
name = "PrimeIntellect/Qwen3-0.6B-Reverse-Text-SFT"
[[env]]
id = "reverse-text"
"""


def an_evaluation(week: Week) -> int:
    """The newest checkpoint with weights, by the trainer's own program on a server of its own. Its
    step.
    """
    beta = week.pod("beta")
    furnish(beta, TRAINER)
    week.writes_configs(pod="beta", good=EVAL)
    rows = week.told("checkpoints", "list", "--pod", "beta", "--run", "v2")["checkpoints"]
    step = max(
        int(one["step"]) for one in rows if any(part["name"] == "weights" for part in one["parts"])
    )
    of_beta = ("--pod", "beta", "--trainer", TRAINER)
    server = ("launch", "configs/infer.toml", "--component", "inference", "--run", "server")
    week.does(*server, *of_beta, "--output-dir", "outputs/server", "--yes")
    milestone = ("runs", "milestones", "v2", "--pod", "beta", "--at", str(step))
    (due,) = week.told(*milestone, code=1)["milestones"]
    assert due["state"] == "due"
    url = f"http://localhost:{beta.inference_port}/v1"
    done = week.does(*milestone, "--config", "configs/good.toml", "--server", url, "--yes")
    assert f"--steps {step}" in done.out
    read = ("logs", f"v2-at-{step}", "--pod", "beta", "--source", "eval", "-n", "0")
    assert "Avg@4=0.3100" in week.does(*read).out
    week.does("stop", "--pod", "beta", "--run", "server", "--confirm", "server")
    return step


def store_is_pruned(week: Week) -> None:
    """Just what the plan has shown goes from the store."""
    whole = week.server.key()
    lines = f"B2_APPLICATION_KEY_ID={whole.id}\nB2_APPLICATION_KEY={whole.secret}\n".encode()
    prune = ("checkpoints", "prune", "--from", STORE, "--run", "v2", "--keep", "2")
    prune += ("--milestones", "20", "--credentials", "-")
    plan = week.does(*prune, "--plan", "--json", stdin=lines).json
    shown = [one["step"] for one in plan["remove"]]
    assert shown, "the week has left more there than two"
    gone = week.does(*prune, "--plan", plan["plan_hash"], "--json", stdin=lines).json
    assert gone["removed"] == shown


def a_colleague(week: Week) -> None:
    """Has neither pods nor keys: the document of all runs, and a page about one."""
    page = week.console.root / "week.md"
    week.does("runs", "export", str(page))
    text = page.read_text()
    for wanted in ("ABANDONED", "POSTMORTEM", "Rent where nobody outbids", "parrot-v1", "beta"):
        assert wanted in text, wanted
    report = week.console.root / "v2.html"
    week.does("runs", "report", "v2", "--output", str(report))
    for wanted in ("<svg", "alpha", "beta", "in all", "Rent where nobody outbids"):
        assert wanted in report.read_text(), wanted
    other = Console(week.console.root / "colleague")
    other.root.mkdir()
    assert other("runs", "import", str(page)).code == 0
    again = other.root / "again.md"
    assert other("runs", "export", str(again)).code == 0
    assert again.read_bytes() == page.read_bytes(), "no byte is lost on the way"
    assert "postmortem" in other("runs", "show", "v2").out


def a_run_in_two_phases(week: Week, person: Person) -> None:
    """The run of the weekend goes from one config to the next, under one name."""
    phases = week.console.root / "phases.toml"
    phases.write_text(PHASES.format(trainer=TRAINER))
    week.does("launch", "--phases", str(phases), "--pod", "beta", "--yes")
    person.terminal.type(":run v3\r")
    person.sees("v3 on beta", "attempt 1", "phase near")
    of_beta = (str(phases), "--pod", "beta")
    switched = week.does("phases", "advance", *of_beta, "--wait", "--yes").out
    assert "v3 goes from near to far" in switched
    now = week.told("phases", "status", *of_beta)
    assert (now["phase"], now["due"], now["live"]) == ("far", False, True)
    person.sees("v3 on beta", "attempt 2", "phase far")
    first, second = week.told("runs", "show", "v3")["run"]["attempts"]
    assert (first["phase"], second["phase"]) == ("near", "far")
    assert second["resume"] >= 5
    assert week.told("runs", "compare", "v2", "v3")["rows"]
    week.does("stop", "--pod", "beta", "--run", "v3", "--confirm", "v3")


PHASES = """
run = "v3"
trainer = "{trainer}"
output_dir = "outputs/v3"
[[phases]]
name = "near"
config = "configs/v1.toml"
until = {{ step = 5 }}
[[phases]]
name = "far"
config = "configs/v2.toml"
"""


def a_verl_machine_gets_its_credentials(week: Week, person: Person) -> None:
    """By the command that the preflight of verl advises, in a terminal where they are typed
    unseen.
    """
    with practising("verl", "gamma") as lent:
        pod = lent.pod
        at = ("--user", pod.user, "--port", str(pod.port), "--identity", str(pod.key_path))
        print_ = fingerprint(pod.known_host_key)
        week.does("pods", "add", "gamma", pod.host, *at, "--may-act", "--fingerprint", print_)
        week.does("deploy", "--pod", "gamma")
        looked = ("preflight", "--pod", "gamma", "--trainer", "verl")
        before = week.does(*looked, code=2).out
        advised = re.search(r"W&B key .*\n +-> `bs4-console (pods setup [^`]+)`", before)
        assert advised is not None
        typed(week.console, person.terminal, *shlex.split(advised[1]))
        person.sees("WANDB_API_KEY (empty: none)", seconds=LONG_S)
        person.terminal.type("wandb-key-of-the-week\r")
        for name in ("HF_TOKEN", "B2_APPLICATION_KEY_ID", "B2_APPLICATION_KEY"):
            person.sees(f"{name} (empty: none)")
            person.terminal.press("Enter")
        person.sees("Store credentials on the pod", "Type yes", seconds=LONG_S)
        person.terminal.type("yes\r")
        shown = person.sees("left with 0", seconds=LONG_S)
        assert "wandb-key-of-the-week" not in shown
        kept = pod.home / ".netrc"
        assert "wandb-key-of-the-week" in kept.read_text()
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        after = week.console(*looked).out
        assert "WANDB_API_KEY nor an entry" not in after
        week.does("pods", "remove", "gamma")


@pytest.mark.rounds
@pytest.mark.timeout(600)
def test_what_the_model_writes_and_a_page_about_it() -> None:
    """An hour of Tuesday with the current prime-rl, whose rollouts are text."""
    with practising("prime-rl", "tuesday") as on:
        assert on.launch("demo").code == 0
        read = on("runs", "rollouts", "demo", "--pod", "tuesday", "-n", "2", "--json")
        assert read.code == 0, read
        assert len(read.json["rollouts"]) == 2
        for one in read.json["rollouts"]:
            roles = [message["role"] for message in one["messages"]]
            assert roles == ["user", "assistant"]
            assert one["messages"][0]["text"].startswith("Reverse the text")
            assert one["environment"] == "reverse-text"
            assert 0.0 <= one["reward"] <= 1.0
        page = on.console.root / "demo.html"
        assert on("runs", "report", "demo", "--output", str(page)).code == 0
        assert "Attempt 1: " in page.read_text()


@pytest.mark.rounds
@pytest.mark.timeout(1800)
@pytest.mark.skipif(shutil.which("tmux") is None, reason="the screen is walked in tmux")
def test_the_week(terminal: Terminal, tmp_path: Path) -> None:  # noqa: F811
    person = Person(terminal, tmp_path)
    with week() as walked:
        try:
            for day in (monday, tuesday, wednesday, thursday, friday):
                day(walked, person)
                person.keeps(day.__name__)
        except BaseException:
            person.keeps("failed")
            raise
