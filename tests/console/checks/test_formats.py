"""The formats of check, each read back by a reader of its own."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from bs4_console.checks.formats import github, junit, prom, text
from bs4_console.checks.verdict import CRITICAL, OK, UNKNOWN, WARNING, Verdict, judge, unreachable
from tests.console.checks import prom as strict
from tests.console.checks.test_verdict import FAILED, GPU, STARTED, disk, incident, pod

NASTY = 'a"b\\c\nd::error::x%\x07\ud800'


def all_kinds() -> list[Verdict]:
    well = judge(pod(STARTED))
    ill = judge(
        pod(
            STARTED,
            FAILED,
            incident("warning"),
            disks=[disk(96), {**disk(1), "path": '/odd "\\\n'}],
            gpus=None,
        )
    )
    bad = judge(pod(STARTED, incident("critical"), coverage={"kernel_log": "hidden"}))
    renamed = [replace(ill, pod="b"), replace(bad, pod="c")]
    return [well, *renamed, unreachable("gone", NASTY)]


def test_prom_holds_every_number_once_and_nothing_that_is_unknown() -> None:
    read = strict.parse(prom(all_kinds()))
    at = {(name, *sorted(labels)): value for (name, labels), value in read.items()}
    assert [at["bs4_check_status", ("pod", name)] for name in ("pod-a", "b", "c", "gone")] == [
        OK,
        CRITICAL,
        CRITICAL,
        UNKNOWN,
    ]
    assert at["bs4_gpu_utilization_ratio", ("gpu", "0"), ("pod", "pod-a")] == pytest.approx(0.934)
    assert at["bs4_disk_used_bytes", ("path", '/odd "\\\n'), ("pod", "b")] == 1
    assert (
        at[
            "bs4_incident_open",
            ("failure", "f"),
            ("id", "critical"),
            ("pod", "c"),
            ("run", "r"),
            ("severity", "critical"),
        ]
        == 1
    )
    assert at["bs4_run_max_steps", ("pod", "pod-a"), ("run", "r")] == 100
    assert not any(name == "bs4_run_step" for name, *_ in at)
    assert not any(("pod", "gone") in key[1:] and key[0] != "bs4_check_status" for key in at)


def test_prom_of_nothing_is_nothing() -> None:
    assert prom([]) == ""


@pytest.mark.parametrize(
    "wrong",
    [
        "bs4 1\n",
        "# HELP a b\n# TYPE a gauge\na 1",
        "# HELP a b\n# TYPE a gauge\na 1\na 1\n",
        '# HELP a b\n# TYPE a gauge\na{x="1\n"} 1\n',
        "# HELP a b\n# TYPE a gauge\n# HELP c d\n# TYPE c gauge\na 1\nc 1\na{} 2\n",
    ],
)
def test_the_strict_reader_is_strict(wrong: str) -> None:
    with pytest.raises(ValueError):
        strict.parse(wrong)


def test_github_is_one_command_a_line_whatever_a_pod_says() -> None:
    lines = github(all_kinds()).splitlines()
    for line in lines:
        assert re.fullmatch(r"::(error|warning|notice) title=[^,:]*::.*", line), line
    kinds = [line.split(" ")[0][2:] for line in lines]
    assert kinds == ["notice", "error", "warning", "error", "error"]
    assert lines[-1].endswith('UNKNOWN - a"b\\c%0Ad::error::x%25\x07\ud800')
    assert lines[1].startswith("::error title=b%3A disk /data::CRITICAL - /data is 96 %25 full")
    assert github([]).startswith("::error ")


def test_junit_counts_what_it_holds() -> None:
    root = ElementTree.fromstring(junit(all_kinds()))  # noqa: S314 (ours)
    assert root.tag == "testsuites"
    assert [suite.get("name") for suite in root] == ["pod-a", "b", "c", "gone"]
    for suite in root:
        cases = suite.findall("testcase")
        assert len(cases) == int(suite.get("tests", "-1"))
        assert sum(case.find("failure") is not None for case in cases) == int(
            suite.get("failures", "-1")
        )
        assert sum(case.find("error") is not None for case in cases) == int(
            suite.get("errors", "-1")
        )
        assert all(case.get("name") and case.get("classname") for case in cases)
        assert len({case.get("name") for case in cases}) == len(cases)
    totals = [
        sum(int(suite.get(key, "0")) for suite in root) for key in ("tests", "failures", "errors")
    ]
    assert [int(root.get(key, "-1")) for key in ("tests", "failures", "errors")] == totals
    assert root.find("testsuite[@name='pod-a']/testcase/failure") is None
    failure = root.find("testsuite[@name='b']/testcase[@name='disk /data']/failure")
    assert failure is not None
    assert failure.get("type") == "CRITICAL"
    error = root.find("testsuite[@name='gone']/testcase/error")
    assert error is not None
    assert error.text == 'a"b\\c\nd::error::x%\ufffd\ufffd'
    assert "kernel log: hidden" in (root.findtext("testsuite[@name='c']/system-out") or "")


def test_junit_and_text_without_a_pod_say_so() -> None:
    assert ElementTree.fromstring(junit([])).get("errors") == "1"  # noqa: S314 (ours)
    assert text([]).startswith("UNKNOWN - no pod is in the inventory")


def test_what_is_well_is_looked_at_too() -> None:
    subjects = {
        f.subject: f.level
        for f in judge(pod(STARTED, disks=[disk(1)], gpus={"state": "ok", "devices": [GPU]})).found
    }
    assert subjects == {"run r": OK, "GPUs": OK, "disks": OK}
    assert judge(pod(disks=[disk(86)])).found[0].level == WARNING
