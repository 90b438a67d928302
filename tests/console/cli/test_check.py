"""check as monitoring sees it: one line, one code, and never a deploy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.console.cli.conftest import Console, Practice

_PERF = re.compile(r"('[^'=]+'|[^ '=]+)=[0-9.]+(s|%|B)?(;[0-9.]*){0,4}")


def test_a_run_that_trains_is_ok_with_perfdata(trained: Practice) -> None:
    done = trained("check", "--pod", "pod-a")
    assert (done.code, done.err) == (0, "")
    (line,) = done.out.splitlines()
    text, _, perf = line.partition(" | ")
    assert re.fullmatch(r"OK - pod-a: demo running, step \d+ of 10000", text)
    assert all(_PERF.fullmatch(word) for word in perf.split(" ")), perf
    labels = [word.split("=")[0] for word in perf.split(" ")]
    assert labels[:2] == ["demo_step", "demo_step_seconds"]
    assert {"gpu0_util", "gpu0_mem", "gpu1_util", "age"} <= set(labels)


def test_the_same_as_json(trained: Practice) -> None:
    done = trained("check", "--json")
    assert done.code == 0
    told = done.json
    assert (told["schema"], told["status"], told["code"]) == ("bs4.check/1", "OK", 0)
    (pod,) = told["pods"]
    assert (pod["pod"], pod["status"], pod["code"], pod["incidents"]) == ("pod-a", "OK", 0, [])
    assert pod["perfdata"]["demo_step"].endswith(";;;0;10000")
    assert isinstance(pod["coverage"], list)
    assert trained("check", "--format", "json").json["status"] == "OK"


def test_several_pods_unknown_outranks_ok_and_comes_first(trained: Practice, console: Console) -> None:
    pod = trained.pod
    console.add("pod-a", pod.host, pod.port, pod.user, pod.key_path, pod.known_host_key)
    console.add("gone", "127.0.0.1", 1, "root", pod.key_path)
    done = console("check")
    assert done.code == 3
    first, second = done.out.splitlines()
    assert first.startswith("UNKNOWN - gone: ")
    assert "refuses connections" in first
    assert second.startswith("OK - pod-a: ")
    told = console("check", "--json").json
    assert (told["status"], [p["status"] for p in told["pods"]]) == ("UNKNOWN", ["OK", "UNKNOWN"])


@pytest.mark.parametrize("words", [("--bogus",), ("--timeout", "soon"), ("extra",), ("--format", "xml"), ("--pod", "nope")])
def test_usage_errors_are_unknown(console: Console, words: tuple[str, ...]) -> None:
    done = console("check", *words)
    assert done.code == 3
    assert done.sentence


def test_without_a_pod_nothing_is_known(console: Console) -> None:
    done = console("check")
    assert (done.code, done.out) == (3, "UNKNOWN - no pod is in the inventory; add one with `bs4-console pods add`\n")
    assert console("check", "--json").json["status"] == "UNKNOWN"


def test_a_config_file_that_is_broken_is_unknown(console: Console) -> None:
    console.config.mkdir()
    (console.config / "pods.toml").write_text("[pods.x\nhost = 1")
    done = console("check")
    assert done.code == 3
    assert "is not valid TOML" in done.sentence
    assert console("pods", "list").code == 2


def test_a_defect_of_ours_is_unknown_and_shows_itself(console: Console, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(
        "import bs4_console.cli.check as c\ndef judge(*a): raise ZeroDivisionError('ours')\nc.pods = judge\n"
    )
    console.extra["PYTHONPATH"] = str(tmp_path / "site")
    done = console("check")
    assert done.code == 3
    assert "ZeroDivisionError: ours" in done.err
    assert "This is a defect of bs4-console" in done.err
