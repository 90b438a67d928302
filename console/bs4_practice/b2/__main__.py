"""`python -m bs4_practice.b2 --bucket NAME [--directory DIR]`: prints one JSON line with the
realm and a key, serves until stdin ends.

Lines on stdin are faults as JSON ({"kind": "busy", "call": "b2_upload_file", "times": 3}); {} takes
all of them back.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from bs4_practice.b2.faults import Fault
from bs4_practice.b2.server import MINIMUM_PART, B2Server


def main() -> int:
    """Serve a practice store (an imitation of Backblaze B2) with one bucket until standard input
    ends, and return the exit code 0. Each line of standard input is a fault to play, as JSON with
    the keys of `Fault`; `{}` takes all of them back. The store's address and key are printed as one
    JSON line.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bucket", required=True)
    parser.add_argument(
        "--directory", type=Path, help="where the files lie (default: a temporary place)"
    )
    parser.add_argument("--part-size", type=int, default=MINIMUM_PART)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bs4-b2-") as spare:
        with B2Server(options.directory or Path(spare), part_size=options.part_size) as server:
            server.bucket(options.bucket)
            key = server.key()
            print(
                json.dumps(
                    {
                        "realm": server.url,
                        "bucket": options.bucket,
                        "key_id": key.id,
                        "key": key.secret,
                    }
                ),
                flush=True,
            )
            for line in sys.stdin:
                asked = json.loads(line)
                if asked:
                    server.faults.add(Fault.of(asked))
                else:
                    server.faults.clear()
    return 0


if __name__ == "__main__":
    sys.exit(main())
