"""What the agent leaves out to stay small."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pynvml

from bs4_agent.heap import one_arena


def test_the_allocator_takes_one_arena() -> None:
    assert one_arena() is (sys.platform == "linux")


def test_pynvml_never_calls_what_is_kept_from_it() -> None:
    assert inspect.getsource(pynvml).count("find_library") == 1, (
        "pynvml looks for libraries by name now: heap.no_library_search must go"
    )


def test_the_daemon_is_without_libraries_that_it_never_uses() -> None:
    program = (
        "import sys, bs4_agent.daemon; from bs4_agent.heap import no_library_search; "
        "no_library_search(); import bs4_agent.telemetry.nvml\n"
        "print(sorted({'shutil', 'tempfile', 'random', 'lzma', 'ssl', 'http', 'email', "
        "'asyncio', 'tomlkit'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=20
    )
    assert done.stdout.strip() == "[]", done.stdout
