"""Fuzz one target: `python -m tests.fuzz.engine TARGET SECONDS DIRECTORY SEED [INPUTS]`. It ends
after SECONDS, or after INPUTS inputs if that is earlier.

atheris guides the search by what code an input reaches, if it is installed. Otherwise hypothesis
makes the inputs, with the same seeds and the same changes. The last line of standard output is
JSON: `{"engine", "inputs"}`. An input that breaks the contract is written to `DIRECTORY/found/`,
its traceback is on standard error, and the exit code is 77. Inputs that reach new code are kept in
`DIRECTORY/reached/` for the next time.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.fuzz import targets
from tests.fuzz.mutation import mutate
from tests.fuzz.trial import LONGEST, tried

#: The exit code for a broken contract, which is libFuzzer's own.
FOUND = 77
#: Seconds of wall time after which libFuzzer gives an input up that Python cannot interrupt.
_STUCK_S = 60
#: The packages whose code guides the search.
_GUIDES = ["bs4_agent", "bs4_common", "bs4_console"]
#: Inputs that hypothesis makes before the time is looked at.
_BATCH = 200

Feed = Callable[[bytes], None]


def main() -> int:
    name, seconds, place, seed = sys.argv[1:5]
    limit = Limit(float(seconds), int(sys.argv[5]) if len(sys.argv) > 5 else None)
    directory = Path(place)
    (directory / "found").mkdir(parents=True, exist_ok=True)
    (directory / "reached").mkdir(exist_ok=True)
    if importlib.util.find_spec("atheris") is None:
        return _with_hypothesis(name, limit, directory, int(seed))
    return _with_atheris(name, limit, directory, int(seed))


class Limit:
    """When to end: `seconds` from now, or after `inputs` inputs (None: any number)."""

    def __init__(self, seconds: float, inputs: int | None) -> None:
        self._end = time.monotonic() + seconds
        self._inputs = inputs

    def reached(self, inputs: int) -> bool:
        """Return True if it is time to end. `inputs` is how many inputs have been tried."""
        if self._inputs is not None and inputs >= self._inputs:
            return True
        return time.monotonic() > self._end


class Counted:
    """A target that counts its inputs, writes down one that breaks the contract, and ends then."""

    def __init__(self, feed: Feed, directory: Path, engine: str) -> None:
        self.inputs = 0
        self._feed = feed
        self._found = directory / "found"
        self._engine = engine

    def __call__(self, data: bytes) -> None:
        self.inputs += 1
        self._feed(data)

    def tell(self) -> None:
        """Print what was done, as the last line of standard output."""
        print(json.dumps({"engine": self._engine, "inputs": self.inputs}), flush=True)

    def keep(self, data: bytes, error: BaseException) -> None:
        """Write an input down, and why it is one."""
        name = hashlib.sha256(data).hexdigest()[:16]
        (self._found / name).write_bytes(data)
        traceback.print_exception(error)
        print(f"found: {self._found / name}", file=sys.stderr, flush=True)


def _with_atheris(name: str, limit: Limit, directory: Path, seed: int) -> int:
    import atheris

    with atheris.instrument_imports(include=_GUIDES):
        target = targets.load(name)
    counted = Counted(tried(target), directory, "atheris")
    seeds = directory / "seeds"
    seeds.mkdir(exist_ok=True)
    for number, data in enumerate(target.SEEDS):
        (seeds / str(number)).write_bytes(data)

    def one(data: bytes) -> None:
        # libFuzzer looks at its own time only between inputs that reach something new.
        if limit.reached(counted.inputs):
            counted.tell()
            _leave(0)
        try:
            counted(data)
        # Whatever it is, it is what was looked for.
        except BaseException as error:  # noqa: BLE001
            counted.keep(data, error)
            counted.tell()
            _leave(FOUND)

    def change(data: bytes, most: int, number: int) -> bytes:
        if number % 2:
            return mutate(data, most, number)
        changed: bytes = atheris.Mutate(data, most)
        return changed

    arguments = [
        sys.argv[0],
        f"-timeout={_STUCK_S}",
        f"-max_len={LONGEST}",
        f"-seed={seed % (1 << 31) or 1}",
        "-rss_limit_mb=0",
        "-verbosity=0",
        "-len_control=0",
        f"-artifact_prefix={directory / 'found'}/stuck-",
        str(directory / "reached"),
        str(seeds),
    ]
    atheris.Setup(arguments, one, custom_mutator=change)
    atheris.Fuzz()
    return 0


def _leave(code: int) -> None:
    """End the process at once: libFuzzer's own ending takes seconds."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _with_hypothesis(name: str, limit: Limit, directory: Path, seed: int) -> int:
    import hypothesis
    from hypothesis import strategies as st

    target = targets.load(name)
    counted = Counted(tried(target), directory, "hypothesis")
    changed = st.builds(
        mutate, st.sampled_from(target.SEEDS), st.just(LONGEST), st.integers(0, 1 << 31)
    )
    again = st.builds(mutate, changed, st.just(LONGEST), st.integers(0, 1 << 31))
    last = b""

    @hypothesis.settings(
        max_examples=_BATCH,
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(st.one_of(changed, again, st.binary(max_size=2_000)))
    def batch(data: bytes) -> None:
        nonlocal last
        if limit.reached(counted.inputs):
            return
        last = data
        # If the input ends the process, this is what is left of it.
        (directory / "current").write_bytes(data)
        counted(data)

    number = seed
    while not limit.reached(counted.inputs):
        try:
            hypothesis.seed(number)(batch)()
        # Whatever it is, it is what was looked for.
        except BaseException as error:  # noqa: BLE001
            (directory / "current").unlink(missing_ok=True)
            counted.keep(last, error)
            counted.tell()
            return FOUND
        number += 1
    (directory / "current").unlink(missing_ok=True)
    counted.tell()
    return 0


if __name__ == "__main__":
    sys.exit(main())
