"""deploy, launch, runs, logs and stop on a practice pod, each as the command that a person
types.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.console.cli.conftest import Console, Practice, practising

#: Each test launches or reads real runs through a command of its own, which costs seconds.
pytestmark = [pytest.mark.long, pytest.mark.beside]


@pytest.fixture(scope="module")
def bench() -> Iterator[Practice]:
    """A pod for the tests that change it: nothing runs on it until they start it."""
    with practising("prime-rl-2026-01", "bench") as on:
        yield on


def until(condition: object, what: str, timeout: float = 60.0) -> None:
    deadline = time.monotonic() + timeout
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_deploy_says_what_is_there(trained: Practice) -> None:
    text = trained("deploy", "--pod", "pod-a")
    assert text.code == 0
    assert text.out.startswith("pod-a: agent ")
    assert "kernel log: " in text.out
    told = trained("deploy", "--pod", "pod-a", "--json").json
    assert (told["schema"], told["pod"]) == ("bs4.deploy/1", "pod-a")
    assert told["bundle"] in text.out
    assert "kernel_log" in told["coverage"]


def test_runs_list(trained: Practice) -> None:
    text = trained("runs", "list", "--pod", "pod-a")
    assert text.code == 0
    assert text.out.splitlines()[0].split() == [
        "POD",
        "RUN",
        "TRAINER",
        "STATE",
        "STEP",
        "ATTEMPTS",
        "OUTPUT",
    ]
    assert "demo  prime-rl-2026-01  running" in text.out
    told = trained("runs", "list", "--json").json
    (run,) = told["runs"]
    assert (run["pod"], run["name"], run["state"], run["trainer"]) == (
        "pod-a",
        "demo",
        "running",
        "prime-rl-2026-01",
    )
    assert run["step"] >= 0
    assert run["output_dir"] == str(trained.pod.output_dir)
    assert [attempt["number"] for attempt in run["attempts"]] == [1]


def test_a_run_that_no_screen_has_seen_has_its_record(trained: Practice, tmp_path: Path) -> None:
    """Commands and cron alone: what `runs list` names is known to every other verb, and stays known
    without its pod.
    """
    fresh = Console(tmp_path, {"BS4_CONFIG_DIR": str(trained.console.config)})
    fresh.data.mkdir()
    (fresh.data / "known_hosts").write_bytes((trained.console.data / "known_hosts").read_bytes())
    shown = fresh("runs", "show", "demo", "--json")
    assert (shown.code, shown.json["run"]["name"], shown.json["run"]["pod"]) == (
        0,
        "demo",
        trained.pod.name,
    ), shown.err
    assert len(shown.json["run"]["attempts"]) >= 1
    before = shown.json["run"]["step"]
    for words in (
        ("eta", "demo"),
        ("status", "demo"),
        ("note", "demo", "a lesson"),
        ("export",),
    ):
        done = fresh("runs", *words, "--json")
        assert (done.code, done.err) == (0, ""), words
    until(
        lambda: fresh("runs", "show", "demo", "--json").json["run"]["step"] > before,
        "a newer step in the record",
    )
    away = Console(tmp_path, {"BS4_CONFIG_DIR": str(tmp_path / "empty")})
    kept = away("runs", "show", "demo", "--json")
    assert (kept.code, kept.json["run"]["name"]) == (0, "demo")
    assert kept.json["run"]["step"] > before
    assert "a lesson" in away("runs", "show", "demo").out
    unknown = fresh("runs", "show", "nobody")
    assert (unknown.code, unknown.sentence) == (
        2,
        "bs4-console: No run nobody is known. `bs4-console runs list` names them all.",
    )


def test_what_commands_keep_is_records_and_no_telemetry(trained: Practice) -> None:
    assert trained("check", "--json").code in (0, 1)
    (home,) = [
        path
        for path in (trained.console.data / "pods" / trained.pod.name).iterdir()
        if path.is_dir()
    ]
    assert {path.name for path in home.iterdir()} <= {"journal", "steps"}


def test_adopting_finds_nothing_that_is_not_known(trained: Practice) -> None:
    done = trained("runs", "adopt", "--pod", "pod-a")
    assert done.code == 1
    assert "no run was found" in done.out


def test_the_last_lines_of_a_log_byte_for_byte(trained: Practice) -> None:
    path = trained.pod.output_dir / "logs" / "inference.stdout"
    whole = trained("logs", "demo", "--pod", "pod-a", "--source", "inference", "-n", "0")
    assert whole.code == 0
    assert path.read_bytes().startswith(whole.out.encode())
    assert whole.out.count("\n") > 3
    growing = trained.pod.output_dir / "logs" / "trainer.stdout"
    before = growing.read_bytes()
    last = trained("logs", "--pod", "pod-a", "-n", "3")
    after = growing.read_bytes()
    # The run goes on: what was third from the end when the command looked is between these two.
    assert last.code == 0
    assert third_last(before) <= after.find(last.out.encode()) <= third_last(after)
    assert after.find(last.out.encode()) + len(last.out.encode()) >= len(before)


def third_last(log: bytes) -> int:
    """Return the offset at which the third line from the end begins."""
    return len(log) - sum(map(len, log.splitlines(keepends=True)[-3:]))


def test_a_log_as_json_has_a_line_an_object_with_its_place(trained: Practice) -> None:
    lines = trained("logs", "--pod", "pod-a", "--source", "inference", "-n", "0", "--json").lines
    data = (trained.pod.output_dir / "logs" / "inference.stdout").read_bytes()
    for told in lines:
        assert (told["schema"], told["stream"], told["whole"]) == (
            "bs4.log/1",
            "log/demo/inference",
            True,
        )
        at = int(told["cursor"].split(":")[1])
        assert data[at : at + len(told["text"].encode()) + 1] == told["text"].encode() + b"\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ("demo", "--source", "nope"),
            "demo has no log 'nope'. It has inference, launcher, orchestrator, trainer",
        ),
        (("other",), "pod-a has no run 'other' with logs. Runs with logs: demo."),
        (("-n", "-4"), "is no number of lines"),
    ],
)
def test_a_stream_that_is_not_there(trained: Practice, words: tuple[str, ...], says: str) -> None:
    done = trained("logs", "--pod", "pod-a", *words)
    assert done.code == 2
    assert says in done.sentence


def test_any_file_of_the_pod(trained: Practice, tmp_path: Path) -> None:
    config = trained.pod.output_dir / "logs" / "trainer.stdout"
    done = trained("logs", "--pod", "pod-a", "--file", str(config), "-n", "0")
    assert done.code == 0
    assert config.read_bytes().startswith(done.out.encode())
    assert done.out.count("\n") > 3
    (tmp_path / ".netrc").write_text("machine api.example.org password xyzzy\n")
    refused = trained("logs", "--pod", "pod-a", "--file", str(tmp_path / ".netrc"))
    assert (refused.code, refused.out) == (4, "")
    assert "may hold credentials and is never shown" in refused.sentence
    assert "xyzzy" not in refused.sentence
    kept = [
        path
        for path in trained.console.root.rglob("*")
        if path.is_file() and b"file//" in path.read_bytes()
    ]
    assert not kept, "what was read of a file stays on its pod"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--file", "logs/trainer.log"), 2, "is no whole path of the pod"),
        (("demo", "--file", "/etc/hostname"), 2, "A file belongs to no run"),
        (("--file", "/proc/self/environ"), 4, "belongs to the system"),
        (("--file", "/nowhere/at/all"), 2, "cannot be opened (No such file or directory)"),
    ],
)
def test_a_file_that_is_not_shown(
    trained: Practice, words: tuple[str, ...], code: int, says: str
) -> None:
    done = trained("logs", "--pod", "pod-a", *words)
    assert (done.code, says in done.sentence) == (code, True), done.sentence


def test_following_goes_on_and_ends_with_ctrl_c(trained: Practice) -> None:
    process = trained.console.start("logs", "--pod", "pod-a", "-f", "-n", "1")
    assert process.stdout is not None
    got = b"".join(process.stdout.readline() for _ in range(4))
    process.send_signal(signal.SIGINT)
    rest, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, b"")
    data = (trained.pod.output_dir / "logs" / "trainer.stdout").read_bytes()
    assert got + rest in data


def test_a_reader_that_has_enough_is_no_error(trained: Practice) -> None:
    process = trained.console.start("logs", "--pod", "pod-a", "-f", "-n", "0")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(60) == 0
    assert process.stderr.read() == b""
    process.stderr.close()


def test_stop_wants_the_name_again(trained: Practice) -> None:
    for words in ((), ("--confirm", "dmeo"), ("--json",)):
        done = trained("stop", "--pod", "pod-a", "--run", "demo", *words)
        assert done.code == 4
        assert "Confirm with --confirm demo." in done.sentence
    assert trained("stop", "--pod", "pod-a", "--run", "nope", "--confirm", "nope").code == 2
    assert trained.pod.processes()


def test_launch_to_the_first_step_an_unfinished_line_and_stop(bench: Practice) -> None:
    """One run through its life, since each launch costs seconds."""
    done = bench.launch("demo", "--json", "--", "--max-steps", "5000")
    assert done.code == 0
    assert {line["schema"] for line in done.lines} == {"bs4.action/1"}
    last = done.lines[-1]
    assert (last["state"], last["result"]["attempt"]) == ("done", 1)
    assert [step["state"] for step in last["steps"]] == ["done", "done"]
    assert bench("runs", "list", "--json").json["runs"][0]["max_steps"] == 5000

    again = bench.launch("second")
    assert again.code == 4
    assert "Nothing was started: " in again.sentence

    # One checkpoint, from which the plans below go on.
    until(lambda: bench("runs", "list", "--json").json["runs"][0]["step"] >= 6, "step 6")
    stopped = bench("stop", "--pod", "bench", "--run", "demo", "--confirm", "demo")
    assert stopped.code == 0
    assert "done: demo has ended and nothing of it is left" in stopped.out
    assert not [process for process in bench.pod.processes() if "bs4_agent" not in process.title]
    assert bench("runs", "list", "--json").json["runs"][0]["state"] == "stopped"
    assert bench("check", "--pod", "bench").code == 0

    confirmations(bench)
    unfinished(bench)


def confirmations(bench: Practice) -> None:
    """A plan is carried out by its hash; where checkpoints are moved aside only by the run's
    name.
    """
    words = (
        "launch",
        "configs/rl.toml",
        "--pod",
        "bench",
        "--run",
        "demo",
        "--trainer",
        bench.trainer,
        "--no-preflight",
    )
    plan = bench(*words, "--plan", "--json", "--", "--max-steps", "5000").json
    assert plan["resume"] is not None
    assert plan["steps"][-1]["kind"] == "first_step"
    other = bench(*words, "--plan", plan["plan_hash"])  # without the arguments it is another plan
    assert (other.code, "not " + plan["plan_hash"] in other.sentence) == (4, True)
    unconfirmed = bench(*words)
    assert (unconfirmed.code, "confirm the plan with --yes" in unconfirmed.sentence) == (4, True)
    assert "The attempt before had --max-steps 5000; this one has not." in unconfirmed.out
    afresh = bench(*words, "--fresh", "--yes")
    assert (afresh.code, afresh.sentence.endswith("Confirm with --confirm demo.")) == (4, True)
    assert bench("runs", "list", "--json").json["runs"][0]["state"] == "stopped"


def unfinished(bench: Practice) -> None:
    """A line without its end is printed as it grows, and nothing of it twice."""
    path = bench.pod.output_dir / "logs" / "trainer.stdout"
    before = path.read_bytes()
    assert before.endswith(b"\n")
    process = bench.console.start(
        "logs", "--pod", "bench", "-f", "-n", "0", stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    got = bytearray()

    def arrived(wanted: bytes) -> None:
        def look() -> bool:
            got.extend((process.stdout.read() if process.stdout else b"") or b"")
            return len(got) >= len(wanted)

        until(look, f"{wanted[-60:]!r} to be printed; got {bytes(got[-60:])!r}")
        assert bytes(got) == wanted

    try:
        arrived(before)
        for piece in (b"loading 10%", b" 50%", b" done\nnext line\n"):
            with path.open("ab") as handle:
                handle.write(piece)
            before += piece
            arrived(before)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


@pytest.mark.parametrize(
    ("config", "text", "says"),
    [
        ("configs/none.toml", None, "Name a file that exists on the pod"),
        ("configs/bad.toml", "[[[ not toml", "This is not valid TOML"),
    ],
)
def test_a_config_that_cannot_be_used_starts_nothing(
    bench: Practice, config: str, text: str | None, says: str
) -> None:
    if text is not None:
        (bench.pod.project / config).write_text(text)
    done = bench(
        "launch",
        config,
        "--pod",
        "bench",
        "--run",
        "bad",
        "--trainer",
        bench.trainer,
        "--output-dir",
        "out-bad",
        "--yes",
    )
    assert done.code == 4
    assert says in done.sentence
    assert not (bench.pod.project / "out-bad").exists()
    assert "bad" not in [run["name"] for run in bench("runs", "list", "--json").json["runs"]]
    assert not list((Path(bench.pod.home) / ".bs4" / "runs").glob("bad*"))


def test_words_after_two_dashes_belong_to_launch_alone(bench: Practice) -> None:
    done = bench("check", "--", "x")
    assert done.code == 3
    assert "only launch" in done.sentence
