"""diagnose on single logs: where the line is, to the byte, and what to say when it is not clear
what a log is.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.console.cli.conftest import Console

pytestmark = [pytest.mark.long, pytest.mark.beside]

LINE = "12:00:03    ERROR Error: Inference failed with exit code 1"
#: A carriage return, bytes that are no UTF-8 and an ANSI colour lie before the line: offsets count
#: raw bytes, lines LF alone.
DATA = (
    b"12:00:01     INFO Starting \xff\xfe caf\xc3\xa9\nprogress 1%\rprogress 2%\n"
    b"\x1b[31m12:00:02\x1b[0m     INFO x\n" + LINE.encode() + b"\n12:00:04 INFO y\n"
)
OFFSET = DATA.index(LINE.encode())


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "launcher.log"
    path.write_bytes(DATA)
    return path


def test_the_place_of_a_line_is_exact(console: Console, log: Path) -> None:
    done = console("diagnose", str(log), "--json")
    assert done.code == 1
    (finding,) = done.json["findings"]
    assert (finding["id"], finding["source"], finding["severity"]) == (
        "inference-exited",
        "launcher",
        "critical",
    )
    (evidence,) = finding["evidence"]
    assert (evidence["file"], evidence["offset"], evidence["line"]) == (str(log), OFFSET, 4)
    assert "launcher.log:4: " in console("diagnose", str(log)).out


def test_the_name_of_a_file_as_it_was_given(console: Console, log: Path) -> None:
    (finding,) = console("diagnose", log.name, "--json").json["findings"]
    assert finding["evidence"][0]["file"] == "launcher.log"


def test_standard_input_is_a_dash_and_is_answered_without_a_source(console: Console) -> None:
    (finding,) = console("diagnose", "-", "--source", "launcher", "--json", stdin=DATA).json[
        "findings"
    ]
    assert (finding["evidence"][0]["file"], finding["evidence"][0]["offset"]) == ("-", OFFSET)
    guessed = console("diagnose", "-", "--json", stdin=DATA).json
    assert guessed["assumed"] == {"-": "launcher"}
    assert guessed["findings"][0]["evidence"] == finding["evidence"]


def test_the_same_line_elsewhere_is_no_finding(console: Console, log: Path) -> None:
    """A signature counts in its own source only: a model may well write such a line."""
    done = console("diagnose", str(log), "--source", "orchestrator", "--json")
    assert (done.code, done.json["findings"]) == (0, [])
    text = console("diagnose", str(log), "--source", "trainer")
    assert text.code == 0
    assert text.out.startswith("Nothing known is wrong here.\nnot looked at: ")


ENDED = b"""12:00:00    INFO Starting training loop
12:00:02   ERROR An error has been caught in function 'train', process 'MainProcess' (12):
Traceback (most recent call last):
  File "/root/prime-rl/src/prime_rl/trainer/rl/train.py", line 300, in train
    adv = batch["advantages"]
KeyError: 'advantages'
"""


def test_a_log_that_ends_with_an_exception_that_nobody_knows_is_not_well(
    console: Console, log: Path
) -> None:
    log.write_bytes(ENDED)
    for words in ((), ("--source", "trainer")):
        done = console("diagnose", str(log), *words)
        assert done.code == 3
        ended = "It ended with KeyError: 'advantages' (prime_rl/trainer/rl/train.py:300 in train)"
        assert done.out.startswith(f"{ended}, which is no known failure.\n"), done.out
    told = console("diagnose", str(log), "--source", "trainer", "--json").json
    assert (told["unjudged"], len(told["unnamed"])) == ([str(log)], 1)
    # An exception after which the program works on has ended nothing.
    steps = [b"12:00:%02d SUCCESS Step %d | Loss 0.1\n" % (n, n) for n in range(3, 40)]
    log.write_bytes(ENDED + b"".join(steps))
    assert console("diagnose", str(log), "--source", "trainer").code == 0


def test_a_log_that_was_perhaps_read_wrongly_is_named(
    console: Console, log: Path, tmp_path: Path
) -> None:
    log.write_bytes(b"(EngineCore pid=1) INFO 01-02 12:00:00 core.py:1 started\n" * 3)
    wrong = console("diagnose", str(log), "--source", "trainer")
    assert (
        f"not looked at: {log} as a log of the inference, which it looks like: give " in wrong.out
    )
    (tmp_path / "bin.log").write_bytes(bytes(range(256)) * 40)
    binary = console("diagnose", str(tmp_path / "bin.log"), "--source", "trainer")
    assert f"not looked at: {tmp_path / 'bin.log'}, which is no text: give the log" in binary.out
    assert (wrong.code, binary.code) == (3, 3)
    right = console("diagnose", str(log), "--source", "inference")
    assert "which it looks like" not in right.out


def test_several_at_once(console: Console, log: Path, tmp_path: Path) -> None:
    (tmp_path / "trainer.log").write_bytes(DATA)
    done = console("diagnose", str(tmp_path / "trainer.log"), str(log), "--json")
    assert [f["evidence"][0]["file"] for f in done.json["findings"]] == [str(log)]


def test_what_cannot_be_read(console: Console, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "odd.txt").write_bytes(b"\0\xff" * 100_000)
    (tmp_path / "plain.txt").write_bytes(b"\0" * 9000 + b"all is well\n" * 9)
    for words, says in (
        ((str(tmp_path / "none"), "--source", "trainer"), "cannot be read: No such file"),
        ((str(tmp_path / "empty"),), "does not look like a run's output directory"),
        ((str(tmp_path / "odd.txt"),), "begins with bytes that are no text. Give the log itself"),
        ((), "the following arguments are required"),
        ((str(tmp_path / "odd.txt"), "--source", "guess"), "invalid choice"),
    ):
        done = console("diagnose", *words)
        assert done.code == 2
        assert says in done.sentence
    answer = console("diagnose", str(tmp_path / "plain.txt"))
    assert answer.code == 3
    assert "plain.txt (what wrote it is not clear)" in answer.out
    assert "Nothing known is wrong" not in answer.out
    for words in (
        (str(tmp_path / "odd.txt"), "--source", "trainer"),
        (str(tmp_path / "empty"), "--trainer", "prime-rl"),
    ):
        done = console("diagnose", *words, "--json")
        assert (done.code, done.json["findings"], done.json["unjudged"]) == (3, [], [words[0]])


def test_one_log_that_cannot_be_judged_makes_the_answer_unknown(
    console: Console, log: Path, tmp_path: Path
) -> None:
    """A script that asks for 0 must not take what nobody has judged for well; a note beside the
    logs is no log.
    """
    (tmp_path / "trainer.log").write_bytes(b"12:00:00    INFO all is well\n")
    log.unlink()
    (tmp_path / "notes.txt").write_bytes(b"what I did today\n")
    done = console("diagnose", str(tmp_path))
    assert (done.code, done.out.splitlines()[0]) == (0, "Nothing known is wrong here.")
    odd = tmp_path / "odd.log"
    odd.write_bytes(b"what I did today\n")
    for paths in ((str(tmp_path),), (str(tmp_path / "trainer.log"), str(odd))):
        done = console("diagnose", *paths, "--json")
        assert (done.code, done.json["unjudged"]) == (3, [str(odd)])
        assert console("check", *paths).code == 3


def test_a_directory_of_loose_logs_is_one_incident(console: Console, tmp_path: Path) -> None:
    """The kernel log has the cause of what the launcher reports; names or contents tell what wrote
    them; the rest is named.
    """
    (tmp_path / "rl.log").write_bytes(
        b"12:00:09    ERROR Error: Trainer failed with exit code -9\n"
    )
    (tmp_path / "a.txt").write_bytes(
        b"[ 10.000001] eth0: up\n[ 12.000001] Out of memory: Killed process 7 (python) "
        b"total-vm:1kB, anon-rss:1kB\n"
    )
    (tmp_path / "notes.txt").write_bytes(b"what I did today\n")
    done = console("diagnose", str(tmp_path), "--json")
    assert done.json["findings"][0]["id"] == "host-oom-kill"
    assert done.json["findings"][0]["evidence"][0]["file"] == "a.txt"
    assert "trainer-exited" not in [finding["id"] for finding in done.json["findings"]]
    assert "notes.txt (what wrote it is not clear)" in done.json["coverage"]
    assert "kernel log" not in done.json["coverage"]
    assert "trainer log (never seen)" in done.json["coverage"]


def test_every_attempt_that_left_logs_is_looked_at(console: Console, tmp_path: Path) -> None:
    failed = (
        b"Traceback (most recent call last):\ntorch.OutOfMemoryError: CUDA out of memory. Tried "
        b"to allocate 2.00 GiB. GPU 0 has a total\n"
    )
    for number, text in (
        (1, failed),
        (2, b"12:00:00    INFO Starting training loop (max_steps=5)\n"),
    ):
        logs = tmp_path / "run" / "logs" / f"attempt_{number}"
        logs.mkdir(parents=True)
        (logs / "trainer.log").write_bytes(text)
    (finding,) = console("diagnose", str(tmp_path / "run"), "--json").json["findings"]
    assert (finding["id"], finding["attempt"]) == ("cuda-oom", 1)
    assert finding["evidence"][0]["file"] == "logs/attempt_1/trainer.log"


def test_what_the_content_proves_need_not_be_said(console: Console) -> None:
    (finding,) = console(
        "diagnose",
        "-",
        "--json",
        stdin=b"12:00:01    INFO Starting RL run\n" + LINE.encode() + b"\n",
    ).json["findings"]
    assert (finding["id"], finding["source"]) == ("inference-exited", "launcher")


OUT_OF_MEMORY = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"


def test_without_a_source_it_says_what_it_assumed(console: Console, tmp_path: Path) -> None:
    """A clear log is answered although neither its name nor its beginning tells what wrote it."""
    log = tmp_path / "a.log"
    log.write_bytes(OUT_OF_MEMORY)
    done = console("diagnose", str(log))
    assert done.code == 1
    assert f"assumed: {log} was written by the trainer; say it with --source if not" in done.out
    found = console("diagnose", str(log), "--json").json
    assert found["assumed"] == {str(log): "trainer"}
    assert [finding["id"] for finding in found["findings"]] == ["cuda-oom"]
    given = console("diagnose", str(log), "--source", "trainer", "--json").json
    assert given["assumed"] == {}


def test_a_directory_says_what_it_assumed_and_not_that_it_left_it_out(
    console: Console, tmp_path: Path
) -> None:
    (tmp_path / "a.log").write_bytes(OUT_OF_MEMORY)
    (tmp_path / "b.log").write_bytes(OUT_OF_MEMORY)
    (tmp_path / "notes.txt").write_bytes(b"what I did today\n")
    lines = console("diagnose", str(tmp_path)).out.splitlines()
    assert lines[-2] == (
        f"assumed: {tmp_path}/a.log, {tmp_path}/b.log were written by the trainer; say it with "
        "--source if not"
    )
    assert "notes.txt (what wrote it is not clear)" in lines[-1]
    assert "a.log" not in lines[-1]
    assert console("diagnose", str(tmp_path), "--json").json["assumed"] == {
        str(tmp_path / "a.log"): "trainer",
        str(tmp_path / "b.log"): "trainer",
    }


def test_the_answer_is_for_a_person(console: Console, tmp_path: Path) -> None:
    """Title, first step, evidence once, and one line of what was not looked at."""
    log = tmp_path / "trainer.log"
    log.write_bytes(OUT_OF_MEMORY)
    lines = console("diagnose", str(log), "--source", "trainer").out.splitlines()
    assert lines[0] == "CRITICAL cuda-oom (root cause): A GPU ran out of memory"
    assert lines[1].startswith("    first: Look at the other processes")
    assert lines[2].startswith(f"    seen:  {log}:1: torch.OutOfMemoryError")
    assert lines[3].startswith("not looked at: kernel log, ")
    assert lines[3].endswith(", logs that were not given (launcher, orchestrator, inference)")
    assert len(lines) == 4


def test_a_line_that_shows_a_failure_twice_over_is_told_once(
    console: Console, tmp_path: Path
) -> None:
    log = tmp_path / "kernel.log"
    log.write_bytes(
        b"[ 9.000001] Memory cgroup out of memory: Killed process 7 (python3) total-vm:76324kB, "
        b"anon-rss:27800kB, file-rss:10760kB, shmem-rss:0kB, UID:0 pgtables:128kB oom_score_adj:0\n"
    )
    found = console("diagnose", str(log), "--source", "kernel", "--json").json["findings"]
    assert [(one["id"], len(one["evidence"])) for one in found] == [("host-oom-kill", 1)]


OOM = (
    b"Traceback (most recent call last):\ntorch.OutOfMemoryError: CUDA out of memory. Tried to "
    b"allocate 2.00 GiB. GPU 0 has a total\n"
)


def test_an_unclear_log_hides_no_finding_of_another(console: Console, tmp_path: Path) -> None:
    (tmp_path / "job.log").write_bytes(OOM)
    (tmp_path / "odd.log").write_bytes(b"what I did today\n")
    both = [str(tmp_path / "job.log"), str(tmp_path / "odd.log")]
    for words in (both, [str(tmp_path)]):
        done = console("diagnose", *words, "--json")
        assert [f["id"] for f in done.json["findings"]] == ["cuda-oom"]
        assert done.code == 1
        assert any("odd.log (what wrote it is not clear)" in c for c in done.json["coverage"])


def test_an_empty_log_is_not_healthy(console: Console, tmp_path: Path) -> None:
    (tmp_path / "empty.log").touch()
    done = console("diagnose", str(tmp_path / "empty.log"), "--source", "trainer")
    assert done.code == 2
    assert "empty.log is empty" in done.sentence
