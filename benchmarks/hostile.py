"""Two honest pods beside one hostile pod of each kind: keys, memory, directory, rows.

    .venv/bin/python benchmarks/hostile.py [--seconds 60] [--kinds KIND,...] [--json FILE]

The real console in a real terminal (tmux, 200x60) on two practice pods that train. The same keys
are pressed before it meets the hostile pods, each a real sshd with a program that lies in one way
(tests/hostile/liar.py), and for `seconds` beside them. Claimed: 95 of 100 keys are answered within
100 ms (on a busy machine, within twice of what they take alone), the console stays under 300 MB,
its directory under 2 GiB a pod, no record of the honest pods is lost, and the row of each hostile
pod says what is wrong with it. With `--json benchmarks/results/hostile.json` the figures are kept.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.hostile import beside, liar  # noqa: E402 (the checkout's root must be importable)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long keys are pressed")
    parser.add_argument("--kinds", default=",".join(liar.KINDS), help="which lies (default: all)")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    load = round(os.getloadavg()[0], 2)
    with beside.world(options.kinds.split(",")) as here:
        result = beside.measure(here, options.seconds)
        print(here.terminal.shown(), file=sys.stderr)
    about = {"schema": "bs4.bench-hostile/1", "cores": os.cpu_count(), "load_before": load}
    kept = beside.claims(result)
    text = json.dumps({**about, **result, "kept": kept}, indent=2)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")
    return 0 if all(kept.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
