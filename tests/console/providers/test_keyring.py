"""Keys of providers in the keyring of the system, by the keyring library itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = [pytest.mark.long, pytest.mark.beside]

ROOT = Path(__file__).parents[3]
KEY = "canary-0123456789abcdef"
#: Stands for an installation without the extra.
WITHOUT = "import sys; sys.modules['keyring'] = None; "
MAIN = "import sys; from bs4_console.cli.main import main; sys.exit(main())"
FIND = "from bs4_console.providers import keys; print(keys.find('vast')[0].reveal())"


@dataclass
class Machine:
    root: Path
    backend: str = "tests.support.keyring_backend.Backend"

    @property
    def entries(self) -> Path:
        return self.root / "keyring.json"

    @property
    def file(self) -> Path:
        return self.root / "config" / "keys" / "vast"

    def __call__(self, code: str, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root),
            "BS4_CONFIG_DIR": str(self.root / "config"),
            "BS4_DATA_DIR": str(self.root / "data"),
            "BS4_STATE_DIR": str(self.root / "state"),
            "PYTHONPATH": str(ROOT),
            "PYTHON_KEYRING_BACKEND": self.backend,
            "TEST_KEYRING": str(self.entries),
        }
        return subprocess.run(
            [sys.executable, "-c", code, *words],
            input=stdin,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def store(self, *words: str, code: str = MAIN) -> str:
        done = self(code, "provision", "key", "vast", *words, stdin=f"{KEY}\n")
        assert done.returncode == 0, done.stderr
        assert KEY not in done.stdout + done.stderr
        return done.stdout

    def found(self) -> str:
        done = self(FIND)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_with_a_keyring_the_file_holds_only_a_reference(machine: Machine) -> None:
    assert machine.store() == "The key for vast is in the keyring of this system.\n"
    assert machine.file.read_text() == "keyring:bs4-console/vast\n"
    assert json.loads(machine.entries.read_text()) == {"bs4-console/vast": f"{KEY}\n"}
    assert machine.found() == KEY


def test_a_key_in_a_file_moves_to_the_keyring_and_back(machine: Machine) -> None:
    assert "readable for you alone" in machine.store("--file")
    assert machine.file.read_text() == f"{KEY}\n"
    assert not machine.entries.exists()
    assert machine.found() == KEY
    machine.store()
    assert KEY not in machine.file.read_text()
    assert machine.found() == KEY
    machine.store("--file")
    assert json.loads(machine.entries.read_text()) == {}
    assert machine.found() == KEY


def test_without_the_extra_one_sentence_says_so_and_the_file_is_used(machine: Machine) -> None:
    said = machine.store(code=WITHOUT + MAIN).splitlines()
    assert said[0] == f"The key for vast is in {machine.file}, readable for you alone."
    assert said[1] == (
        "It is in no keyring: the extra is not installed: `pip install 'bs4-console[keyring]'`."
    )
    assert machine.found() == KEY


@pytest.mark.parametrize(
    "backend", ["keyring.backends.fail.Keyring", "tests.support.keyring_backend.PlainFile"]
)
def test_a_keyring_that_does_not_protect_is_not_used(machine: Machine, backend: str) -> None:
    machine.backend = backend
    said = machine.store()
    assert "It is in no keyring: this machine has none" in said
    assert machine.file.stat().st_mode & 0o777 == 0o600
    assert not machine.entries.exists()


def test_a_locked_keyring_is_an_error_and_no_other_key_is_used(machine: Machine) -> None:
    machine.store()
    machine.entries.write_text("locked")
    done = machine(MAIN, "provision", "search", "--gpu", "H100", "--provider", "vast")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "The keyring did not give the key (KeyringLocked): vast. Unlock it" in line
    again = machine(MAIN, "provision", "key", "vast", stdin=f"{KEY}\n")
    assert again.returncode == 2
    assert "did not take the key" in again.stderr
    assert machine.file.read_text() == "keyring:bs4-console/vast\n"


def test_a_reference_without_its_entry_is_told(machine: Machine) -> None:
    machine.store()
    machine.entries.write_text("{}")
    done = machine(MAIN, "provision", "search", "--gpu", "H100", "--provider", "vast")
    assert done.returncode == 2
    assert "The keyring has no such key: vast." in done.stderr
    gone = machine(WITHOUT + MAIN, "provision", "search", "--gpu", "H100", "--provider", "vast")
    assert gone.returncode == 2
    assert "no keyring can be used here: the extra is not installed" in gone.stderr
