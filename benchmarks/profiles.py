"""Where the time of a command of the console goes, for the rows of docs/performance.md that miss
their goal. A profile is a list of lines; it is taken once more behind the measured runs, so that it
costs them nothing.
"""

from __future__ import annotations

import os
import pstats
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

#: Lines of a profile.
MOST = 8
_PROFILED = """
import cProfile, sys
profile = cProfile.Profile()
target = sys.argv.pop(1)
profile.enable()
try:
    from bs4_console.cli.main import main
    main()
finally:
    profile.disable()
    profile.dump_stats(target)
"""
_IMPORTED = re.compile(r"import time:\s+(\d+) \|\s+\d+ \|\s*(\S+)")


def compiled(environment: Mapping[str, str] | None) -> dict[str, str]:
    """Return an environment (ours if None) in which modules are compiled once, as those of an
    installed console are.
    """
    found = dict(os.environ if environment is None else environment)
    found.pop("PYTHONDONTWRITEBYTECODE", None)
    return found


def calls(words: Sequence[str], environment: Mapping[str, str] | None = None) -> list[str]:
    """Run `bs4-console` with these words under cProfile, and return the functions that took most of
    the time by themselves, as lines "0.123 s  function (file)". Its output is thrown away, and a
    `poll` is the time in which it waited. Under the profiler everything takes up to twice as long.
    """
    with tempfile.TemporaryDirectory() as directory:
        target = Path(directory) / "profile"
        argv = [sys.executable, "-c", _PROFILED, str(target), *words]
        subprocess.run(
            argv,
            env=compiled(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            check=False,
        )
        stats = pstats.Stats(str(target))
    seconds: dict[tuple[str, str], float] = {}
    for (file, _, function), numbers in stats.stats.items():  # type: ignore[attr-defined]
        seconds[function, file] = seconds.get((function, file), 0.0) + numbers[2]
    lines = []
    for function, file in sorted(seconds, key=seconds.__getitem__, reverse=True)[:MOST]:
        where = "" if file == "~" else f" ({short(file)})"
        lines.append(f"{seconds[function, file]:6.3f} s  {function}{where}")
    return lines


def short(file: str) -> str:
    """Return the last three parts of a path: enough to know the module, and nothing of the machine
    that it lies on.
    """
    return "/".join(Path(file).parts[-3:])


def imports(code: str, environment: Mapping[str, str] | None = None) -> list[str]:
    """Run Python code and return how long its imports took, as lines "0.123 s  package", each
    package with its own modules and without what they import from others.
    """
    argv = [sys.executable, "-X", "importtime", "-c", code]
    done = subprocess.run(
        argv,
        env=compiled(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    seconds: Counter[str] = Counter()
    for microseconds, module in _IMPORTED.findall(done.stderr):
        seconds[module.partition(".")[0]] += int(microseconds)
    lines = [f"{sum(seconds.values()) / 1e6:6.3f} s  all imports"]
    for package, took in seconds.most_common(MOST):
        lines.append(f"{took / 1e6:6.3f} s  {package}")
    return lines
