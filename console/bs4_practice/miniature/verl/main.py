"""The entry behind `python -m verl.trainer.main_ppo` and behind each of Ray's processes; gives the
exit code.
"""

from __future__ import annotations

import importlib
import os
import sys

from .. import gpu


def run(role: str) -> None:
    """Run the imitation of one of verl's or Ray's processes, with the command line of this process,
    and exit with its code. `role` says which, such as "driver" or "worker". Never returns.
    """
    code = 1
    try:
        code = importlib.import_module(f".{role}", __package__).main(sys.argv[1:])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except KeyboardInterrupt:
        code = 130
    except (OSError, ValueError, RuntimeError, AttributeError):
        sys.excepthook(*sys.exc_info())
    finally:
        gpu.forget_own_entries()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    run(sys.argv.pop(1))
