"""A small trainer of our own, and what is believed of it: one belief of each kind."""

from __future__ import annotations

from pathlib import Path

from bs4_console.trainers.belief import (
    Believed,
    Calls,
    Constants,
    Entry,
    Fields,
    Known,
    Logged,
    Place,
    Printed,
    Raised,
    Texts,
    Words,
    belief,
    line,
)

FEATURE = "what acme is good for"
FILES = {
    "pyproject.toml": '[project.scripts]\nacme = "acme.run:main"\n',
    "src/acme/run.py": '''
"""Runs acme."""

import signal
import subprocess
import sys


def main(config):
    set_proc_title("Acme")
    try:
        launch(config)
    except Failure:
        logger.error("Stopping everything at once")
        sys.exit(4)


def launch(config):
    command = ["acme-engine", "--port", str(config.port), "@", config.path]
    process = subprocess.Popen(command)
    logger.info(f"Started the engine with {config.gpus or 'all'} GPUs")
    message = f"Round {config.round} | Loss: {config.loss:.4f}"
    if config.norm:
        message += f" | Norm: {config.norm:.4f}"
    logger.success(message)
    logger.success("Everything is done here")
    logger.info(f"Saved round {config.round} to the disk")
    logger.info(f"Saved weights of round {config.round} to the disk")
    return process


def stop(process):
    process.terminate()
    process.wait(timeout=30)
    process.kill()
    print("Engine ended with", process.returncode)
''',
    "src/acme/side/run.py": '''
"""Runs beside acme."""


def watch():
    logger.success("Everything is done here")
''',
    "src/acme/paths.py": '''
"""Where acme writes."""

HEADER = "{time} | <level>"


class Store:
    keep: int = 3
    folder: str

    def place(self, step):
        return self.root / "saves" / f"round_{step}"

    def load(self, path):
        if not path.exists():
            raise FileNotFoundError(f"No save at {path}")
''',
}
BELIEVED = Believed(
    id="acme",
    title="acme",
    code=("src/acme",),
    known=(Known(commit="0" * 9, version="1", date="2026-01-01", read=True),),
    beliefs=(
        line(
            "round",
            Place("src/acme/run.py", "launch"),
            Logged("SUCCESS", "Round <step:i> | Loss: <loss>{ | Norm: <norm>}"),
            FEATURE,
        ),
        line(
            "started",
            Place("src/acme/run.py", "launch"),
            Logged("INFO", "Started the engine with", whole=False),
            FEATURE,
        ),
        line(
            "done",
            Place("src/acme/run.py", "launch"),
            Logged("SUCCESS", "Everything is done here"),
            FEATURE,
        ),
        line(
            "side-done",
            Place("src/acme/side/run.py", "watch"),
            Logged("SUCCESS", "Everything is done here"),
            FEATURE,
        ),
        line(
            "saved",
            Place("src/acme/run.py", "launch"),
            Logged("INFO", "Saved round <step:i> to the disk"),
            FEATURE,
        ),
        line(
            "saved-weights",
            Place("src/acme/run.py", "launch"),
            Logged("INFO", "Saved weights of round <step:i> to the disk"),
            FEATURE,
        ),
        line(
            "stopping",
            Place("src/acme/run.py", "main"),
            Logged("ERROR", "Stopping everything at once"),
            FEATURE,
        ),
        line(
            "ended",
            Place("src/acme/run.py", "stop"),
            Printed("Engine ended with <code:i>"),
            FEATURE,
        ),
        line(
            "no-save",
            Place("src/acme/paths.py", "Store.load"),
            Raised("FileNotFoundError", "No save at <path>"),
            FEATURE,
        ),
        belief(
            "folders",
            "layout",
            "src/acme/paths.py",
            "Store.place",
            Texts(("saves", "round_<step>")),
            FEATURE,
        ),
        belief(
            "header", "line", "src/acme/paths.py", "", Constants(("{time} | <level>",)), FEATURE
        ),
        belief(
            "argv",
            "command",
            "src/acme/run.py",
            "launch",
            Words(("acme-engine", "--port", "@")),
            FEATURE,
        ),
        belief(
            "title",
            "title",
            "src/acme/run.py",
            "main",
            Calls(("set_proc_title",), ("set_proc_title Acme",)),
            FEATURE,
        ),
        belief("exit", "exit", "src/acme/run.py", "main", Calls(("exit",), ("exit 4",)), FEATURE),
        belief("no-handler", "shutdown", "src/acme/run.py", "", Calls(("signal",), ()), FEATURE),
        belief(
            "order",
            "shutdown",
            "src/acme/run.py",
            "stop",
            Calls(("terminate", "wait", "kill"), ("terminate", "wait 30", "kill")),
            FEATURE,
        ),
        belief(
            "fields",
            "config",
            "src/acme/paths.py",
            "Store",
            Fields((("keep", "3"), ("folder", ""))),
            FEATURE,
        ),
        belief(
            "script",
            "command",
            "pyproject.toml",
            "",
            Entry("project.scripts.acme", "acme.run:main"),
            FEATURE,
        ),
    ),
)


def write(root: Path, **changes: tuple[str, str]) -> Path:
    """Write the source of acme below `root` and return it. Each change is a text of a file and what
    replaces it, under the file's name in `src/acme` without its ending.
    """
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        change = changes.get(path.stem)
        if change is not None and path.parent.name == "acme":
            assert change[0] in text
            text = text.replace(*change)
        path.write_text(text)
    return root
