"""The typed steps on real files, sockets and processes: what they confirm and refuse, and that
doing them twice does nothing twice.
"""

from __future__ import annotations

import dataclasses
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bs4_agent.book import Book
from bs4_agent.playbooks import plan as plans
from bs4_agent.playbooks import ports, sharedmemory
from bs4_agent.playbooks.pod_actions import Context
from bs4_agent.playbooks.steps import STEPS, waits
from bs4_agent.playbooks.verify import VERIFIERS
from bs4_common.errors import NotApplicable, PlanChanged, Refused, StepFailed
from bs4_common.failures.compiled import Library, Playbook
from bs4_common.failures.facts import GpuFacts, Holder, RunFacts, Side
from bs4_common.journal import Journal
from bs4_common.runs.model import Member
from bs4_common.streams.segments import SegmentStream
from bs4_common.trainers.base import Checkpoint
from bs4_console.failures.playbooks import compile_all, lint
from tests.agent.facts import healthy, identity, layout, member, spec, trained
from tests.agent.playbooks.dying import Died, dying
from tests.agent.playbooks.running import runner

KEY = "01J00000000000000000000000"
CONFIG = """# what we train
max_steps = 100

[ckpt] # often
interval = 5
keep_interval = 50
"""


class PodActions:
    """One run on real files; what steps do to it is written down."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.layout = layout(root / "outputs")
        self.spec = spec(config=Path("rl.toml"), cwd=root, output_dir=root / "outputs")
        (root / "outputs").mkdir()
        (root / "rl.toml").write_text(CONFIG)
        self.checkpoints: list[Checkpoint] = []
        self.state, self.steps, self.attempt = "ended", 0, 1
        self.holders: list[ports.PortHolder] = []
        self.rivals: list[Holder] = []
        self.left: list[Member] = []
        self.ended: list[object] = []
        self.moved: list[tuple[str, bool]] = []
        self.notes: list[tuple[str, str]] = []
        self.soft, self.hard = 1024, 65536
        self.healthy = False
        self.shm = root / "shm"
        self.shm.mkdir()

    def run_facts(self, run: str) -> RunFacts:
        known = dataclasses.replace(
            healthy(layout=self.layout, spec=self.spec, attempt=self.attempt),
            state=self.state,
            trainer_side=Side(),
            checkpoints=self.checkpoints,
        )
        return trained(known, 1, self.steps) if self.steps else known

    def gpu_facts(self) -> GpuFacts:
        return GpuFacts()

    def port_holders(self, run):
        return self.holders

    def gpu_rivals(self, run):
        return self.rivals

    def leftovers(self, run):
        return self.left

    def end(self, targets, say):
        self.ended += targets
        return "ended"

    def trash(self, run, path, key, *, everything=False):
        target = self.root / "trash" / path.parent.parent.name / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        self.moved.append((path.name, everything))
        return path.rename(target)

    def server_answers(self, run):
        return self.healthy

    def shared_memory(self):
        return self.shm

    def nofile(self, run):
        return self.soft

    def hard_nofile(self):
        return self.hard

    def set_nofile(self, run, limit):
        self.soft = limit

    def note(self, run, text, key):
        self.notes.append((text, key))

    def noted(self, run, text, key):
        return (text, key) in self.notes

    def stop_command(self, run):
        return "kill"

    def command(self, spec):
        return ["rl"]


@pytest.fixture
def pod_actions(tmp_path: Path) -> PodActions:
    return PodActions(tmp_path)


def context(pod_actions: PodActions) -> Context:
    return Context(pod_actions, "demo", KEY, None)


def carry_out(pod_actions: PodActions, kind: str, parameters: dict) -> str:
    step, where = STEPS[kind], context(pod_actions)
    planned = step.plan(where, parameters)
    assert planned is not None
    assert not step.done(where, planned)
    said = step.act(where, planned, step.check(where, planned), lambda text: None)
    assert step.done(where, planned), "doing it once is enough"
    return said


# edit_config


def test_a_config_keeps_its_comments_and_its_old_bytes_go_to_the_trash(
    pod_actions: PodActions,
) -> None:
    carry_out(
        pod_actions,
        "edit_config",
        {"set": {"ckpt.keep_last": 3, "log.level": "info"}, "unset": ["ckpt.keep_interval"]},
    )
    text = (pod_actions.root / "rl.toml").read_text()
    assert "# what we train" in text
    assert "[ckpt] # often" in text
    assert "keep_last = 3" in text
    assert "keep_interval" not in text
    assert 'level = "info"' in text
    kept = pod_actions.root / ".bs4" / "demo" / "trash" / KEY / "config" / "rl.toml"
    assert kept.read_text() == CONFIG


def test_a_config_that_somebody_touched_since_is_left_alone(pod_actions: PodActions) -> None:
    step, where = STEPS["edit_config"], context(pod_actions)
    planned = step.plan(where, {"set": {"ckpt.keep_last": 3}})
    (pod_actions.root / "rl.toml").write_text(CONFIG + "seed = 1\n")
    with pytest.raises(PlanChanged, match="was changed since"):
        step.check(where, planned)


def test_what_a_config_says_already_needs_no_step(pod_actions: PodActions) -> None:
    assert (
        STEPS["edit_config"].plan(
            context(pod_actions), {"set": {"ckpt.interval": 5}, "unset": ["ckpt.keep_last"]}
        )
        is None
    )
    assert (
        STEPS["edit_config"].plan(
            context(pod_actions), {"set": {"ckpt.interval": 9}, "for": ["verl"]}
        )
        is None
    )


def test_an_edit_that_the_command_line_hides_is_refused(pod_actions: PodActions) -> None:
    pod_actions.spec = dataclasses.replace(pod_actions.spec, overrides=("--ckpt.keep-last", "9"))
    with pytest.raises(NotApplicable, match="command line sets ckpt"):
        STEPS["edit_config"].plan(context(pod_actions), {"set": {"ckpt.keep_last": 3}})


@pytest.mark.parametrize("text", ["max_steps = \n", "ckpt = 5\n"])
def test_what_is_no_toml_or_no_table_is_a_persons(pod_actions: PodActions, text: str) -> None:
    (pod_actions.root / "rl.toml").write_text(text)
    with pytest.raises(NotApplicable, match="by hand"):
        STEPS["edit_config"].plan(context(pod_actions), {"set": {"ckpt.keep_last": 3}})


def test_a_linked_config_is_not_replaced(pod_actions: PodActions) -> None:
    (pod_actions.root / "rl.toml").rename(pod_actions.root / "real.toml")
    (pod_actions.root / "rl.toml").symlink_to("real.toml")
    with pytest.raises(Refused):
        carry_out(pod_actions, "edit_config", {"set": {"ckpt.keep_last": 3}})


def test_an_edit_killed_between_keeping_and_replacing_is_done_by_the_next_life(
    pod_actions: PodActions, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, where = STEPS["edit_config"], context(pod_actions)
    planned = step.plan(where, {"set": {"ckpt.keep_last": 3}})

    def die(*words, **where):
        raise Died

    monkeypatch.setattr(os, "replace", die)
    with pytest.raises(Died):
        step.act(where, planned, step.check(where, planned), lambda text: None)
    monkeypatch.undo()
    assert (pod_actions.root / "rl.toml").read_text() == CONFIG, "whole at every instant"
    assert not step.done(where, planned)
    step.act(where, planned, step.check(where, planned), lambda text: None)
    assert "keep_last = 3" in (pod_actions.root / "rl.toml").read_text()


# what lies on a disk of its own


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("move_steps", {}),
        ("move_files", {"select": "torn-checkpoint"}),
        ("move_run", {}),
    ],
)
def test_what_no_rename_moves_is_said_when_the_plan_is_made(
    pod_actions: PodActions, other_disk: Path, kind: str, parameters: dict
) -> None:
    pod_actions.checkpoints = [
        set_of(pod_actions, 5),
        set_of(pod_actions, 10, complete=False),
    ]
    where = dataclasses.replace(context(pod_actions), resume=5)
    assert STEPS[kind].plan(where, parameters) is not None
    mounted = pod_actions.layout.trainer_checkpoints / "step_10"
    if kind == "move_run":
        mounted = pod_actions.layout.run_dir
    subprocess.run(["mount", "--bind", str(other_disk), str(mounted)], check=True)
    try:
        with pytest.raises(Refused, match=f"{mounted} is mounted there"):
            STEPS[kind].plan(where, parameters)
    finally:
        subprocess.run(["umount", str(mounted)], check=True)


# move_files


def set_of(pod_actions: PodActions, step: int, complete: bool = True) -> Checkpoint:
    directories = {"trainer": pod_actions.layout.trainer_checkpoints / f"step_{step}"}
    directories["orchestrator"] = pod_actions.layout.orchestrator_checkpoints / f"step_{step}"
    for path in directories.values():
        path.mkdir(parents=True)
        (path / "data").write_text("x")
    return Checkpoint(
        step=step,
        parts=directories,
        missing=() if complete else ("trainer",),
        complete=complete,
        bytes=2,
        newest_mtime=0.0,
        directories=directories,
    )


def test_the_step_that_could_not_be_loaded_goes_aside_and_an_older_one_is_resumed(
    pod_actions: PodActions,
) -> None:
    pod_actions.checkpoints = [set_of(pod_actions, 5), set_of(pod_actions, 10)]
    pod_actions.spec = dataclasses.replace(pod_actions.spec, resume=10)
    assert plans.previous(pod_actions.run_facts("demo")) == 5
    carry_out(pod_actions, "move_files", {"select": "corrupt-checkpoint"})
    assert pod_actions.moved == [("step_10", True), ("step_10", True)]
    assert (pod_actions.layout.trainer_checkpoints / "step_5").is_dir()


@pytest.mark.parametrize("change", ["made-steps", "no-resume", "runs", "only-one"])
def test_a_checkpoint_is_corrupt_only_by_the_runs_own_proof(
    pod_actions: PodActions, change: str
) -> None:
    pod_actions.checkpoints = (
        [set_of(pod_actions, 5), set_of(pod_actions, 10)]
        if change != "only-one"
        else [set_of(pod_actions, 10)]
    )
    pod_actions.spec = dataclasses.replace(
        pod_actions.spec, resume=None if change == "no-resume" else 10
    )
    pod_actions.steps, pod_actions.state = (
        (3 if change == "made-steps" else 0),
        ("running" if change == "runs" else "ended"),
    )
    with pytest.raises(NotApplicable):
        STEPS["move_files"].plan(context(pod_actions), {"select": "corrupt-checkpoint"})
    assert pod_actions.moved == []


def test_torn_steps_move_and_complete_ones_below_stay(pod_actions: PodActions) -> None:
    pod_actions.checkpoints = [
        set_of(pod_actions, 5, complete=False),
        set_of(pod_actions, 10),
        set_of(pod_actions, 15, complete=False),
    ]
    step, where = STEPS["move_files"], context(pod_actions)
    planned = step.plan(where, {"select": "torn-checkpoint"})
    assert {Path(t["path"]).name for t in step.check(where, planned)} == {"step_15"}
    with pytest.raises(PlanChanged, match="more than 1"):
        step.plan(where, {"select": "torn-checkpoint", "limit": 1})


def test_broadcasts_without_their_marker_move(pod_actions: PodActions) -> None:
    for number, marked in ((4, True), (6, False)):
        directory = pod_actions.layout.broadcasts / f"step_{number}"
        directory.mkdir(parents=True)
        if marked:
            (directory / "STABLE").touch()
    carry_out(pod_actions, "move_files", {"select": "partial-broadcast"})
    assert pod_actions.moved == [("step_6", False)]


def test_a_rejection_note_moves_and_without_one_there_is_no_step(pod_actions: PodActions) -> None:
    assert STEPS["move_files"].plan(context(pod_actions), {"select": "rejection-note"}) is None
    note = pod_actions.layout.run_dir / "configs" / "error.txt"
    note.parent.mkdir(parents=True)
    note.write_text("no")
    carry_out(pod_actions, "move_files", {"select": "rejection-note"})
    assert not note.exists()


def test_shared_memory_that_nobody_has_open_goes_to_disk_and_what_is_used_stays(
    pod_actions: PodActions,
) -> None:
    dead, used = pod_actions.shm / "psm_dead", pod_actions.shm / "psm_used"
    dead.write_bytes(b"dead" * 100)
    used.write_bytes(b"used")
    with used.open("rb"):
        assert sharedmemory.stale(pod_actions.shm) == [dead]
        carry_out(pod_actions, "move_files", {"select": "stale-shm"})
    assert used.exists()
    assert not dead.exists()
    kept = pod_actions.root / ".bs4" / "demo" / "trash" / KEY / "shm" / "psm_dead"
    assert kept.read_bytes() == b"dead" * 100


def test_where_a_process_cannot_be_looked_at_nothing_counts_as_unused(
    pod_actions: PodActions, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pod_actions.shm / "psm_dead").write_bytes(b"x")
    monkeypatch.setattr(sharedmemory, "_in_use", lambda root: None)
    assert sharedmemory.stale(pod_actions.shm) == []


# end_port_holder


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def test_a_listener_is_found_with_its_process(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    found = ports.listening({port})
    assert list(found.values()) == [port]
    assert ports.openers(found, [os.getpid(), 1])[next(iter(found))][0] in (1, os.getpid())
    listener.close()
    assert ports.listening({port}) == {}


def holder(pid: int, dead_run: str | None, run: str | None = None) -> ports.PortHolder:
    return ports.PortHolder(8000, identity(pid), ("vllm-router",), run, dead_run, same_user=True)


def test_what_a_dead_run_left_on_the_port_is_named_by_identity(pod_actions: PodActions) -> None:
    pod_actions.holders, pod_actions.left = (
        [holder(50, "old")],
        [member(50, "router"), member(51, "engine")],
    )
    planned = STEPS["end_port_holder"].plan(context(pod_actions), {})
    assert [(t["pid"], t["dead_run"]) for t in planned.targets] == [(50, "old"), (51, "old")]
    assert "kill -TERM 50 51" in planned.command


def test_a_port_that_somebody_else_holds_is_left_to_a_person(pod_actions: PodActions) -> None:
    pod_actions.holders = [holder(50, None)]
    with pytest.raises(NotApplicable, match="pid 50 vllm-router"):
        STEPS["end_port_holder"].plan(context(pod_actions), {})
    pod_actions.holders = [ports.PortHolder(8000, None)]
    with pytest.raises(NotApplicable, match="cannot be seen"):
        STEPS["end_port_holder"].plan(context(pod_actions), {})


def test_a_free_port_or_the_runs_own_server_needs_no_step(pod_actions: PodActions) -> None:
    assert STEPS["end_port_holder"].plan(context(pod_actions), {}) is None
    pod_actions.holders = [holder(50, None, run="demo")]
    assert STEPS["end_port_holder"].plan(context(pod_actions), {}) is None


def test_a_holder_that_is_no_leftover_any_more_ends_the_plan(pod_actions: PodActions) -> None:
    import bs4_common.identity as identities

    own = identities.Identity.of(os.getpid())
    pod_actions.holders = [ports.PortHolder(8000, own, ("x",), None, "old", same_user=True)]
    pod_actions.left = [dataclasses.replace(member(1, "router"), identity=own)]
    planned = STEPS["end_port_holder"].plan(context(pod_actions), {})
    pod_actions.left = []
    with pytest.raises(PlanChanged, match="no leftover of old any more"):
        STEPS["end_port_holder"].check(context(pod_actions), planned)
    assert pod_actions.ended == []


# set_limit, wait_until, probe, notify


def test_a_limit_is_raised_once_and_never_above_the_hard_one(pod_actions: PodActions) -> None:
    carry_out(pod_actions, "set_limit", {"nofile": 65536})
    assert pod_actions.soft == 65536
    assert STEPS["set_limit"].plan(context(pod_actions), {"nofile": 65536}) is None
    assert STEPS["set_limit"].plan(context(pod_actions), {"nofile": 131072}) is None, (
        "as high as it can be"
    )
    pod_actions.soft = pod_actions.hard = 1024
    with pytest.raises(NotApplicable, match="hard limit of open files is 1024"):
        STEPS["set_limit"].plan(context(pod_actions), {"nofile": 65536})


def test_waiting_ends_with_the_condition_or_says_what_to_do(pod_actions: PodActions) -> None:
    step, where = STEPS["wait_until"], context(pod_actions)
    pod_actions.holders = [holder(50, None)]
    planned = step.plan(where, {"condition": "port-free", "within": "0.1s"})
    with pytest.raises(StepFailed, match="ss -ltnp"):
        step.act(where, planned, [], lambda text: None)
    pod_actions.holders = []
    assert step.done(where, planned)
    disk = step.plan(where, {"condition": "disk-free", "percent": 99, "within": "1m"})
    assert disk.parameters == {"condition": "disk-free", "percent": 99, "within": 60.0}
    assert step.done(where, disk)


def test_waiting_for_a_disk_looks_at_each_that_the_run_writes_to(
    pod_actions: PodActions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoints lie on a full disk of their own; that of the output has room."""
    elsewhere = Path("/dev/shm")
    if elsewhere.stat().st_dev == pod_actions.root.stat().st_dev:
        pytest.skip("/dev/shm is no file system of its own here")
    pod_actions.layout = dataclasses.replace(
        pod_actions.layout, trainer_checkpoints=elsewhere / "checkpoints"
    )
    real = waits.used_percent

    def used(path: Path) -> float:
        return 97.0 if path == elsewhere else min(50.0, real(path))

    monkeypatch.setattr(waits, "used_percent", used)
    step, where = STEPS["wait_until"], context(pod_actions)
    planned = step.plan(where, {"condition": "disk-free", "percent": 90, "within": "0.1s"})
    assert "/dev/shm is used (at most 0 s)" in planned.title
    said: list[str] = []
    with pytest.raises(StepFailed, match=r"(?s)must be freed.*checkpoints list") as failed:
        step.act(where, planned, [], said.append)
    assert said[0].startswith("/dev/shm is 97 % full: ")
    assert said[0] in str(failed.value)


def test_a_probe_asks_and_a_dead_server_ends_the_plan(pod_actions: PodActions) -> None:
    step, where = STEPS["probe"], context(pod_actions)
    planned = step.plan(where, {"what": "server", "within": "0.1s"})
    with pytest.raises(StepFailed, match="read its log"):
        step.act(where, planned, [], lambda text: None)
    pod_actions.healthy = True
    assert step.act(where, planned, [], lambda text: None) == "it answers"


def test_a_note_is_written_once(pod_actions: PodActions) -> None:
    carry_out(pod_actions, "notify", {"text": "look at the disk"})
    assert pod_actions.notes == [("look at the disk", KEY)]


# verify


def test_continuing_counts_new_steps_only(pod_actions: PodActions) -> None:
    pod_actions.state, pod_actions.steps = "running", 40
    verdict = VERIFIERS["steps_continue"](
        pod_actions, "demo", 1, {"count": 2, "within": 0.3}, lambda text: None
    )
    assert not verdict.recovered
    looks = iter(range(40, 60))
    facts = pod_actions.run_facts
    pod_actions.run_facts = lambda run: (setattr(pod_actions, "steps", next(looks)), facts(run))[1]
    assert VERIFIERS["steps_continue"](
        pod_actions, "demo", 1, {"count": 2, "within": 5}, lambda text: None
    ).recovered


def test_room_without_progress_is_no_recovery_and_neither_is_the_other(
    pod_actions: PodActions,
) -> None:
    pod_actions.state = "running"
    stuck = VERIFIERS["disk_below"](
        pod_actions, "demo", 1, {"percent": 99, "count": 1, "within": 0.3}, lambda text: None
    )
    assert not stuck.recovered
    looks = iter(range(100))
    facts = pod_actions.run_facts
    pod_actions.run_facts = lambda run: (setattr(pod_actions, "steps", next(looks)), facts(run))[1]
    full = VERIFIERS["disk_below"](
        pod_actions, "demo", 1, {"percent": 1, "count": 1, "within": 5}, lambda text: None
    )
    assert not full.recovered
    assert "still" in full.detail


# the rule for every playbook


def test_a_run_does_not_start_on_the_port_of_another_that_is_alive(pod_actions: PodActions) -> None:
    """It would reach the other run's server, and put its own weights into it."""
    step, where = STEPS["relaunch"], context(pod_actions)
    pod_actions.holders = [holder(7, None, "other")]
    with pytest.raises(NotApplicable, match="the run other is alive and holds its port 8000"):
        step.plan(where, {"resume": "none"})
    pod_actions.holders = [holder(7, None, "demo"), holder(8, "dead")]
    planned = step.plan(where, {"resume": "none"})
    assert planned is not None
    pod_actions.holders = [holder(7, None, "other")]
    with pytest.raises(NotApplicable, match="Stop other first"):
        step.check(where, planned)


def test_a_run_does_not_start_on_the_gpu_of_another_that_is_alive(pod_actions: PodActions) -> None:
    step, where = STEPS["relaunch"], context(pod_actions)
    planned = step.plan(where, {"resume": "none"})
    assert planned is not None
    pod_actions.rivals = [
        Holder(
            identity=identity(7),
            gpu=1,
            mem=40 << 30,
            cmdline=("python",),
            run="other",
            component="rank",
            dead_run=None,
            same_user=True,
        )
    ]
    alive = r"the run other is alive .* its GPU 1\. Stop other"
    with pytest.raises(NotApplicable, match=alive):
        step.plan(where, {"resume": "none"})
    with pytest.raises(NotApplicable, match=alive):
        step.check(where, planned)


def test_every_relaunch_archives_and_moves_before_it(tmp_path: Path) -> None:
    source = next(Path(lint.__code__.co_filename).parents[3].glob("playbooks/*/step-desync.yaml"))
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    text = source.read_text()
    (folder / "step-desync.yaml").write_text(text)
    assert lint(tmp_path)[1] == []
    for line in ("  - stop_run:\n", "  - archive_logs:\n", "  - move_steps:\n"):
        (folder / "step-desync.yaml").write_text(text.replace(line, ""))
        (problem,) = lint(tmp_path)[1]
        assert line.strip(" -:\n") in problem.message


def test_every_step_of_the_schema_is_one_of_the_agents() -> None:
    from bs4_console.failures.playbooks import schema

    assert set(schema()["properties"]["fix"]["items"]["properties"]) == set(STEPS)
    assert set(schema()["properties"]["verify"]["properties"]) == set(VERIFIERS)
    used = {kind for playbook in Library(compile_all()) for kind, _ in playbook.fix}
    assert used <= set(STEPS)


# all of them under a kill at every instant that is journalled


def test_a_death_at_every_record_does_nothing_twice(tmp_path: Path) -> None:
    compiled = {
        "id": "sick",
        "title": "t",
        "family": "f",
        "role": "root",
        "severity": "info",
        "danger": "move",
        "where": "pod",
        "applies": ["any"],
        "fix": [
            {"edit_config": {"set": {"ckpt.keep_last": 3}}},
            {"move_files": {"select": "corrupt-checkpoint"}},
            {"set_limit": {"nofile": 4096}},
            {"notify": {"text": "done so far"}},
        ],
        "verify": {"steps_continue": {"count": 0, "within": 1}},
    }
    deaths = 0
    while True:
        root = tmp_path / str(deaths)
        root.mkdir()
        pod_actions = PodActions(root)
        pod_actions.checkpoints = [set_of(pod_actions, 5), set_of(pod_actions, 10)]
        pod_actions.spec = dataclasses.replace(pod_actions.spec, resume=10)
        made = plans.make(pod_actions, Playbook.from_dict(compiled), "demo", KEY)
        diary = Book(Journal(SegmentStream(root / "journal", 1 << 20)))
        try:
            runner(pod_actions, dying(diary, deaths), KEY, made).run()
            break
        except Died:
            pass
        again = Book(Journal(SegmentStream(root / "journal", 1 << 20)))
        assert runner(pod_actions, again, KEY, made).run(again.ledger.actions.get(KEY)), (
            f"after a death at record {deaths}"
        )
        assert pod_actions.moved == [("step_10", True), ("step_10", True)], (
            f"after a death at record {deaths}"
        )
        assert pod_actions.notes == [("done so far", KEY)]
        assert "keep_last = 3" in (root / "rl.toml").read_text()
        assert (root / ".bs4" / "demo" / "trash" / KEY / "config" / "rl.toml").read_text() == CONFIG
        deaths += 1
    assert deaths >= 9


def test_a_move_of_nothing_says_so_and_a_move_of_one_is_singular(pod_actions: PodActions) -> None:
    pod_actions.checkpoints = [set_of(pod_actions, 5)]
    where = dataclasses.replace(context(pod_actions), resume=5)
    planned = STEPS["move_steps"].plan(where, {})
    assert planned is not None
    assert planned.title == "Move nothing: nothing is there that step 5 does not need"
    (pod_actions.layout.trainer_checkpoints / "step_9").mkdir(parents=True)
    planned = STEPS["move_steps"].plan(where, {})
    assert planned is not None
    assert planned.title.startswith("Move 1 directory that step 5 does not need")
