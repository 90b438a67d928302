"""Logs are kept before a trainer can delete them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bs4_agent.launch.start import launch
from bs4_agent.runs import archive
from bs4_agent.runs.archive import archive_logs
from bs4_agent.runs.registry import Runs
from bs4_common.errors import StepFailed
from tests.agent.runs.practice import Pod, ended

LOGS = ("logs/trainer.stdout", "logs/orchestrator.stdout", "logs/trainer/rank_0.log")


@pytest.fixture
def runs(pod: Pod) -> Runs:
    """A run whose first attempt has ended and left logs."""
    names = " ".join(name.removeprefix("logs/") for name in LOGS)
    pod.trainer.program = (
        f'mkdir -p "$1/logs/trainer"; for f in {names}; do echo "$f" > "$1/logs/$f"; done'
    )
    runs = pod.runs()
    launch(runs, pod.spec(), key="k1")
    ended(runs)
    return runs


def test_every_log_is_linked_and_survives_the_trainers_clean(pod: Pod, runs: Runs) -> None:
    result = archive_logs(runs, "alpha")
    assert (result.linked, result.copied, result.directory) == (
        3,
        0,
        pod.root / "work/.bs4/alpha/logs/attempt-1",
    )
    for name in LOGS:
        assert (pod.root / "work/alpha" / name).stat().st_ino == (
            result.directory / name
        ).stat().st_ino
        (pod.root / "work/alpha" / name).unlink()
        assert (result.directory / name).read_text() == name.removeprefix("logs/") + "\n"
    assert oct((pod.root / "work/.bs4").stat().st_mode & 0o777) in ("0o700", "0o755")


def test_it_can_be_done_again(pod: Pod, runs: Runs) -> None:
    first = archive_logs(runs, "alpha")
    again = archive_logs(runs, "alpha")
    assert (again.linked, again.copied, again.kept) == (0, 0, 3)
    log = pod.root / "work/alpha/logs/trainer.stdout"
    log.unlink()
    log.write_text("begun again within the attempt\n")
    assert archive_logs(runs, "alpha").linked == 1
    assert (first.directory / LOGS[0]).read_text() == "trainer.stdout\n"
    assert (
        first.directory / "logs/trainer.stdout.2"
    ).read_text() == "begun again within the attempt\n"


def test_without_links_logs_are_copied_and_compared(
    pod: Pod, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other filesystems refuse links with EXDEV or EPERM."""

    def refuse(*args: object, **more: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(archive.os, "link", refuse)
    result = archive_logs(runs, "alpha")
    assert (result.linked, result.copied, result.copied_bytes) == (
        0,
        3,
        sum(len(n) - 4 for n in LOGS),
    )
    for name in LOGS:
        assert (result.directory / name).read_bytes() == (
            pod.root / "work/alpha" / name
        ).read_bytes()
    assert archive_logs(runs, "alpha").kept == 3
    assert not list(result.directory.rglob(".*.half"))


def test_links_in_the_log_directory_are_not_followed(pod: Pod, runs: Runs) -> None:
    secret = pod.root / "secret.log"
    secret.write_text("not a log of this run")
    (pod.root / "work/alpha/logs/evil.log").symlink_to(secret)
    result = archive_logs(runs, "alpha")
    assert {path.name for path in result.directory.rglob("*") if path.is_file()} == {
        "orchestrator.stdout",
        "rank_0.log",
        "trainer.stdout",
    }


def test_a_full_disk_is_said_and_stops_the_relaunch(pod: Pod, runs: Runs, other_disk: Path) -> None:
    """The run's parent directory is a filesystem of its own, full to the brim; its output directory
    another one, so logs must be copied.
    """
    out = other_disk / "alpha"
    (out / "logs").mkdir(parents=True)
    (out / "logs/trainer.stdout").write_bytes(b"x" * 400_000)
    runs.register(pod.spec(output_dir=out))
    (other_disk / "ballast").write_bytes(b"y" * 500_000)
    original = archive.os.link
    try:
        archive.os.link = _no_links
        with pytest.raises(StepFailed, match="could not be archived"):
            archive_logs(runs, "alpha")
    finally:
        archive.os.link = original
    assert (out / "logs/trainer.stdout").stat().st_size == 400_000


def _no_links(*args: object, **more: object) -> None:
    raise OSError(1, "Operation not permitted")
