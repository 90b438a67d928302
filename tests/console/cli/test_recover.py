"""recover on the command line: what it refuses before anything is asked of anybody, and what it
prints for others to run.
"""

from __future__ import annotations

import argparse
import asyncio
import configparser
import contextlib
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest
import yaml

from bs4_console.cli import recover
from bs4_console.errors import RefusedError, UsageError
from bs4_console.recovery import config as controller_config
from bs4_console.recovery.recovery_types import Outcome
from tests.console.cli.conftest import Console

GOOD = """
[runs.demo]
pod = "alpha"
store = "b2://practice-bucket/saved"
trainer = "prime-rl"
gpu = "H100"
max_price = 5
per_day = 50.0
per_run = 100.0
"""


def written(place: Path, text: str) -> Path:
    path = place / "recover.toml"
    path.write_text(text)
    return path


def test_what_is_not_said_is_the_careful_choice(tmp_path):
    config = controller_config.read(written(tmp_path, GOOD))["demo"]
    assert (config.mode, config.trust_first_key, config.recoveries, config.max_price) == (
        "ask",
        False,
        2,
        5.0,
    )
    assert config.layout.lease == "saved/demo/lease.json"
    assert (config.limits.per_day, config.limits.ready_s) == (50.0, 3600.0)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("max_price = 5\n", "", "lacks max_price"),
        ("per_day = 50.0", 'per_day = "50"', "is not of type float"),
        ("per_day = 50.0", "per_day = 0", "above 0"),
        ("per_day = 50.0", "per_day = true", "is not of type float"),
        ('gpu = "H100"', 'gpu = "H100"\nmode = "always"', "mode is ask or auto"),
        ('gpu = "H100"', 'gpu = "H100"\nmax_prise = 3', "unknown setting 'max_prise'"),
        ("b2://practice-bucket/saved", "s3://bucket", "Write b2://BUCKET"),
        ("[runs.demo]", "[runs.'../demo']", "cannot name a run"),
        ("[runs.demo]", "[demo]", "no [runs.NAME]"),
        ("[runs.demo]", "[runs.demo", "not valid TOML"),
    ],
)
def test_what_is_wrong_with_the_file_is_said(tmp_path, old, new, said):
    assert old in GOOD
    with pytest.raises(UsageError) as caught:
        controller_config.read(written(tmp_path, GOOD.replace(old, new)))
    assert said in str(caught.value)


def test_without_a_file_it_says_where_it_belongs(tmp_path):
    done = Console(tmp_path)("recover", "--once")
    assert done.code == 2
    assert "recover.toml is not there" in done.sentence


def test_secrets_that_others_can_read_are_not_used(tmp_path):
    console = Console(tmp_path)
    console.config.mkdir()
    secrets = written(
        tmp_path, "B2_APPLICATION_KEY_ID=abcd1234\nB2_APPLICATION_KEY=efgh5678\n"
    ).rename(tmp_path / "secrets")
    secrets.chmod(0o644)
    (console.config / "recover.toml").write_text(GOOD + f'credentials = "{secrets}"\n')
    done = console("recover", "--once")
    assert done.code == 2
    assert "can be read by others" in done.sentence
    assert "efgh5678" not in done.err


def test_one_at_a_time_on_one_machine(tmp_path):
    console = Console(tmp_path)
    console.config.mkdir()
    (console.config / "recover.toml").write_text(GOOD)
    place = console.data / "recover" / "demo"
    place.mkdir(parents=True)
    holder = (
        "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); print(1, "
        "flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", holder, str(place / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        done = console("recover", "--once")
        assert other.stdin is not None
        other.stdin.close()
    assert done.code == 4
    assert "Another `recover` looks after demo" in done.sentence


def _configs(place: Path, *names: str) -> list[controller_config.RunConfig]:
    text = "".join(GOOD.replace("runs.demo", f"runs.{name}") for name in names)
    return list(controller_config.read(written(place, text)).values())


async def _watched(monkeypatch, configs, look) -> None:
    @contextlib.asynccontextmanager
    async def controller_of(options, config):
        yield types.SimpleNamespace(poll=lambda: look(config.run))

    monkeypatch.setattr(recover, "controller_of", controller_of)
    async with asyncio.timeout(30):
        await recover._watch(argparse.Namespace(every=0.001, quiet=True, json=False), configs)


@pytest.mark.parametrize(
    "error",
    [
        RefusedError("Its host key cannot be told.", "Allow it."),
        UsageError("There is no such pod.", "Add it."),
    ],
)
async def test_what_one_run_is_refused_is_said_once_and_the_others_go_on(
    tmp_path, monkeypatch, capsys, error
):
    looks = {"bad": 0, "good": 0}

    class Enough(Exception):
        pass

    async def look(run):
        looks[run] += 1
        if run == "bad":
            raise error
        if looks["bad"] >= 3 and looks["good"] >= 3:
            raise Enough
        return Outcome("watching", "All is well.", 0)

    with pytest.raises(Enough):
        await _watched(monkeypatch, _configs(tmp_path, "bad", "good"), look)
    assert capsys.readouterr().err.count(f"bad: {error}") == 1


async def test_a_watch_in_which_every_run_is_set_up_wrongly_ends(tmp_path, monkeypatch):
    """systemd does not start it again then (exit code 2)."""

    async def look(run):
        raise UsageError(f"{run} has no credentials.", "Name them.")

    with pytest.raises(UsageError):
        await _watched(monkeypatch, _configs(tmp_path, "one", "two"), look)


def test_read_only_and_a_plan_of_no_run(tmp_path):
    console = Console(tmp_path)
    assert console("--read-only", "recover").code == 4
    assert console("recover", "--plan", "0" * 16).code == 2


def test_the_systemd_unit_is_one():
    text = _printed("systemd")
    unit = configparser.ConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(text)
    assert unit["Service"]["ExecStart"].endswith("bs4-console recover --watch")
    assert unit["Service"]["RestartPreventExitStatus"] == "2"
    assert "@" not in text


def test_the_crontab_line_is_one():
    (line,) = [
        line
        for line in _printed("cron").splitlines()
        if line and not line.startswith(("#", "MAILTO"))
    ]
    assert line.split()[:5] == ["*/5", "*", "*", "*", "*"]
    assert line.endswith("bs4-console recover --once --quiet")


def test_the_workflow_is_one_and_its_shell_sees_no_expression():
    """What a person types into a dispatch, or a secret with a quote in it, must not become shell
    text.
    """
    workflow = yaml.safe_load(_printed("github"))
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["concurrency"]["cancel-in-progress"] is False
    steps = workflow["jobs"]["recover"]["steps"]
    assert not [step for step in steps if "${{" in step.get("run", "")]
    assert [step for step in steps if "recover --once" in step.get("run", "")]


def test_the_workflow_keeps_what_was_decided_from_job_to_job(tmp_path: Path) -> None:
    """Mode "ask" believes only its own journal, and each job has a new machine."""
    steps = yaml.safe_load(_printed("github"))["jobs"]["recover"]["steps"]
    (look,) = [n for n, step in enumerate(steps) if "recover --once" in step.get("run", "")]
    before, after = steps[look - 1], steps[look + 1]
    assert before["uses"].startswith("actions/cache/restore@")
    assert after["uses"].startswith("actions/cache/save@")
    assert after["if"] == "always()"
    key = after["with"]["key"]
    assert "github.run_id" in key
    assert "github.run_attempt" in key
    assert before["with"]["key"] == key
    assert key.startswith(before["with"]["restore-keys"])
    unset = ("BS4_DATA_DIR", "XDG_DATA_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    place = subprocess.run(
        [sys.executable, "-c", "from bs4_console.locations import data_dir; print(data_dir())"],
        env=environment | {"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    kept = {str(step["with"]["path"]).replace("~", str(tmp_path)) for step in (before, after)}
    assert kept == {f"{place}/recover"}


def test_the_workflows_shell_stores_the_key_of_every_provider(tmp_path: Path) -> None:
    """It passed only Vast's, and installed a package that is not published."""
    steps = yaml.safe_load(_printed("github"))["jobs"]["recover"]["steps"]
    (install,) = [step["run"] for step in steps if "pip install" in step.get("run", "")]
    assert "bs4_console-*.whl" in install
    (store,) = [step for step in steps if step.get("name") == "Keys, in private files"]
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    (tmp_path / ".github" / "recover").mkdir(parents=True)
    for name in ("recover.toml", "pods.toml"):
        (tmp_path / ".github" / "recover" / name).write_text("")
    program = home / "bin" / "bs4-console"
    program.symlink_to(Path(sys.executable).with_name("bs4-console"))
    (home / "bin" / "ssh-keygen").write_text("#!/bin/sh\necho public\n")
    (home / "bin" / "ssh-keygen").chmod(0o755)
    given = {name: f"canary-{name.lower()}" for name in store["env"]}
    given["LAMBDA_API_KEY"] = ""
    environment = {
        **os.environ,
        **given,
        "HOME": str(home),
        "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
        "BS4_CONFIG_DIR": str(home / ".config" / "bs4-console"),
    }
    argv = ["bash", "-e", "-c", store["run"]]
    subprocess.run(argv, cwd=tmp_path, env=environment, check=True, capture_output=True)
    keys = {path.name: path.read_text() for path in (home / ".config/bs4-console/keys").iterdir()}
    assert keys.pop("verda") == "canary-verda_client_id\ncanary-verda_client_secret\n"
    assert keys == {name: f"canary-{name}_api_key\n" for name in ("vast", "runpod", "prime")}
    credentials = home / ".config/bs4-console/credentials"
    assert "WANDB_API_KEY=canary-wandb_api_key\nHF_TOKEN=canary-hf_token\n" in (
        credentials.read_text()
    )
    assert credentials.stat().st_mode & 0o777 == 0o600


def _printed(what: str) -> str:
    argv = [
        sys.executable,
        "-c",
        "import sys; from bs4_console.cli.main import main; sys.exit(main())",
        "recover",
        "--print",
        what,
    ]
    return subprocess.run(
        argv, capture_output=True, text=True, check=True, env=dict(os.environ)
    ).stdout


async def test_a_machine_of_a_provider_that_the_file_no_longer_names_is_still_looked_after(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("VAST_API_KEY", "practice-key")
    monkeypatch.setenv("BS4_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("BS4_DATA_DIR", str(tmp_path))
    config = controller_config.read(written(tmp_path, GOOD + 'providers = ["runpod"]\n'))["demo"]
    async with recover._provisioner(config, "vast") as provisioner:
        assert list(provisioner.providers) == ["vast"]


def test_a_run_that_was_moved_is_named(console: Console, tmp_path: Path) -> None:
    done = console("recover", "--moved", "--config", str(written(tmp_path, GOOD)))
    assert (done.code, "--run" in done.err) == (2, True)
