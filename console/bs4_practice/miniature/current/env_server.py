"""`env-server`: environment workers behind one address; the orchestrator connects to it."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence

from .. import environment, processes, rollouts
from ..config import parse_or_exit
from ..log import Logger


def main(arguments: Sequence[str]) -> int:
    """Run an imitation of prime-rl's environment server (which generates and scores rollouts) until
    one of its workers ends. `arguments` are the words of its command line. Always returns the exit
    code 1, also if the server's address is taken, which it says on standard error.
    """
    processes.set_title("PRIME-RL::EnvServer")
    config = parse_or_exit(arguments, {})
    log = Logger(
        config.get("log.vf_level", "info"), json_lines=bool(config.get("log.json_logging"))
    )
    address = str(config.get("serve.address", "tcp://127.0.0.1:5000"))
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    try:
        listener = socket.create_server((host, int(port)))
    except OSError as error:
        sys.stderr.write(f"zmq.error.ZMQError: {error.strerror} (addr='{address}')\n")
        return 1
    score = environment.load(config.get("env.taskset.id", "default"), log.error)
    workers = config.get("serve.pool.num_workers", 1)
    for number in range(workers):
        if os.fork() == 0:
            rollouts.serve(listener, number, score)
    listener.close()
    log.info(
        f"Serving {config.get('env.taskset.id', 'environment')} at {address} with {workers} "
        "worker(s)"
    )
    pid, status = os.wait()
    log.error(f"Env worker {pid} exited with code {os.waitstatus_to_exitcode(status)}")
    return 1
