"""Completions: written from the parsers, and tried in the shells that are here."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from bs4_console.cli import completions, main

NODES = list(completions.nodes(main.build()))


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main.main(["completions", shell]) == 0
    return capsys.readouterr().out


def complete(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What bash offers for the last word of `text`."""
    *_, last = words = text.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    (tmp_path / "bs4-console").write_text("#!/bin/sh\nprintf 'h100-a\\nspot-9\\n'\n")
    (tmp_path / "bs4-console").chmod(0o755)
    program = (
        script("bash", capsys)
        + f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _bs4_console; printf '%s\\n' "
        f'"${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
    )
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line.startswith(last)]


def test_the_first_word_is_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    offered = complete("bs4-console ", tmp_path, capsys)
    assert set(main.COMMANDS) <= set(offered)
    assert "--read-only" in offered
    assert complete("bs4-console dia", tmp_path, capsys) == ["diagnose"]


def test_verbs_options_choices_and_pods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert complete("bs4-console --read-only playbook ru", tmp_path, capsys) == ["run"]
    assert "--confirm" in complete("bs4-console stop --c", tmp_path, capsys)
    assert complete("bs4-console launch x.toml --trainer prime-rl-", tmp_path, capsys) == [
        "prime-rl-2026-01"
    ]
    assert complete("bs4-console stop --pod ", tmp_path, capsys) == ["h100-a", "spot-9"]
    assert complete("bs4-console completions f", tmp_path, capsys) == ["fish"]


@pytest.mark.parametrize("shell", completions.SHELLS)
def test_every_word_and_option_is_there_and_the_shell_reads_it(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = script(shell, capsys)
    for node in NODES:
        for word in [*(w for w, _ in node.words), *(o[0].lstrip("-") for o in node.options)]:
            assert word in text, node.path
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed; its script was not read by it")
    file = tmp_path / "script"
    file.write_text(text)
    done = subprocess.run([shell, "-n", str(file)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_names_of_the_pods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BS4_CONFIG_DIR", str(tmp_path))
    (tmp_path / "pods.toml").write_text('[pods.b]\nhost = "x"\n[pods.a]\nhost = "y"\n')
    assert script("pods", capsys) == "b\na\n"
