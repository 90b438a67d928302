"""What both sides share runs nothing by itself: it starts no thread and asks no server. That it
imports nothing with which it could listen or connect is a contract in pyproject.toml.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

COMMON = Path(__file__).resolve().parents[2] / "agents" / "bs4_common"
STARTERS = {
    "Thread",
    "Timer",
    "start_new_thread",
    "ThreadPoolExecutor",
    "ProcessPoolExecutor",
    "urlopen",
    "build_opener",
}


def starters(source: str) -> set[str]:
    """The names in this code with which a thread is started or an address opened."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.alias):
            found.add(node.name)
    return found & STARTERS


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import threading\nthreading.Thread(target=print).start()", {"Thread"}),
        ("from threading import Timer as Clock", {"Timer"}),
        ("import urllib.request as web\nweb.urlopen('http://x')", {"urlopen"}),
        ("import threading\nlock = threading.Lock()", set()),
    ],
)
def test_what_starts_something_is_seen(source: str, found: set[str]) -> None:
    assert starters(source) == found


def test_what_both_sides_share_starts_no_thread_and_opens_no_address() -> None:
    modules = sorted(COMMON.rglob("*.py"))
    assert modules
    found = {str(path.relative_to(COMMON)): starters(path.read_text()) for path in modules}
    assert {name: names for name, names in found.items() if names} == {}
