"""The config of an earlier launch is written again, from what this machine has kept."""

from __future__ import annotations

import time
import tomllib
from pathlib import Path

import pytest

from bs4_console.run_log.config_texts import ConfigTexts, digest_of
from tests.console.cli.planted import plant
from tests.console.cli.test_run_log import Console

CONFIG = 'api_key = "rl"\nmax_steps = 5\n[orchestrator]\nname = "rl-run"\n'


@pytest.fixture
def console(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Console:
    for name in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"BS4_{name}_DIR", str(tmp_path / name.lower()))
    return Console(tmp_path, capsys)


def launched(console: Console, pod: str, began_ago: float, text: str, version: str) -> None:
    """Write the mirror of a pod on which demo was launched with a config, and keep its text."""
    plant(
        console.root / "data" / "pods" / pod,
        time.time() - began_ago,
        0.01,
        1.0,
        config=(digest_of(text), version),
    )
    assert ConfigTexts(pod).keep(digest_of(text), text)


def test_a_config_with_a_secret_is_written_and_what_to_fill_in_is_named(console: Console) -> None:
    launched(console, "one", 1000, CONFIG, "v1")
    file = console.root / "back.toml"
    told = console("runs", "rollback", "demo", "--to", "v1", "--output", str(file))
    assert "fill them in: api_key." in told
    written = tomllib.loads(file.read_text())
    assert written["orchestrator"] == {"name": "rl-run"}
    assert written["max_steps"] == 5


def test_a_kept_text_that_is_damaged_is_not_written(console: Console) -> None:
    launched(console, "one", 1000, CONFIG, "v1")
    (kept,) = ConfigTexts("one").directory.iterdir()
    kept.write_text('api_key = "[redacted]"\n[orchest[redacted]ator]\n')
    file = console.root / "back.toml"
    console("runs", "rollback", "demo", "--to", "v1", "--output", str(file), code=2)
    assert "is no TOML, so it was not written" in " ".join(console.err.split())
    assert not file.exists()


def test_a_name_that_means_other_configs_on_other_pods_is_refused(console: Console) -> None:
    launched(console, "one", 1000, "max_steps = 100\n", "v3")
    launched(console, "two", 500, "max_steps = 900\n", "v3")
    file = console.root / "back.toml"
    for name in ("v3", "1"):
        console("runs", "rollback", "demo", "--to", name, "--output", str(file), code=2)
        told = " ".join(console.err.split())
        assert "attempt 1 on one v3" in told
        assert "attempt 1 on two v3" in told
        assert "--to POD/NUMBER, such as two/1" in told
    assert not file.exists()
    rollback = ("runs", "rollback", "demo", "--force", "--output", str(file), "--to")
    for name, steps in (("one/1", 100), ("two/v3", 900), (digest_of("max_steps = 100\n"), 100)):
        told = console(*rollback, name)
        assert tomllib.loads(file.read_text()) == {"max_steps": steps}
    assert "has the config of demo, attempt 1 on one" in told
    assert console.json(*rollback, "two/1")["pod"] == "two"
    console(*rollback, "three/1", code=2)
    # The same config on both is no question.
    launched(console, "three", 200, "max_steps = 900\n", "v4")
    console(*rollback, "v4")
