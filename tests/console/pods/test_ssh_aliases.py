"""Aliases of an ssh config: those a person could type after `ssh`, and nothing that is a
pattern.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bs4_console.errors import UsageError
from bs4_console.pods import ssh_aliases


def test_aliases_come_from_host_lines_and_includes(tmp_path: Path) -> None:
    (tmp_path / "config.d").mkdir()
    (tmp_path / "config.d" / "b.conf").write_text("Host inner\n  HostName 192.0.2.2\n")
    (tmp_path / "config").write_text(
        '# mine\nInclude config.d/*.conf\nHOST a100 "b200" *.example !bad pod?\nHost=eq\n  Port '
        "2\nhost = spaced # tail\n"
        "Match host x\n  User y\nHost a100\n  HostName 192.0.2.9\nHostName not-an-alias\n"
    )
    found = ssh_aliases.aliases(tmp_path / "config")
    assert [alias.name for alias in found] == ["inner", "a100", "b200", "eq", "spaced"]
    assert found[1].line == 3
    assert found[0].file.name == "b.conf"


def test_candidates_are_pods_whose_host_is_the_alias(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("Host good\nHost we@ird\n")
    result = ssh_aliases.candidates(tmp_path / "config")
    assert [(pod.name, pod.host, pod.ssh_config, pod.port, pod.user) for pod in result.pods] == [
        ("good", "good", True, None, None)
    ]
    assert [alias.name for alias, _ in result.skipped] == ["we@ird"]


@pytest.mark.parametrize(
    ("text", "says"), [('Host "open\n', "line 1"), ("Include config\n", "included more than")]
)
def test_a_wrong_config_is_named(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(UsageError, match=says):
        ssh_aliases.aliases(tmp_path / "config")


def test_a_missing_config_is_an_answer(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        ssh_aliases.candidates(tmp_path / "none")
