"""Keeps groups of rollouts under way, and the inference server's weights as new as the trainer's
broadcasts.
"""

from __future__ import annotations

import threading
import uuid
from pathlib import Path
from typing import Any

from .. import pace, rollouts
from ..client import APIConnectionError, APIStatusError, Connection
from ..config import Config
from ..lines import Message
from ..log import Bar, Logger
from ..steps import latest_stable, step_path, wait_for


class Scheduler:
    """Has groups of rollouts generated through `groups`, and loads the trainer's newest weights
    into the inference server through `admin`. `step` is the step of the batch that is being
    collected, and `ckpt_step` the step of the weights that the server has. `update_error` is the
    error if loading weights has failed, otherwise None. `examples` is how many groups were begun.
    """

    def __init__(
        self, config: Config, groups: rollouts.Groups, admin: Connection, log: Logger
    ) -> None:
        self._group_size = config.get("rollouts_per_example", 1)
        self._batch_size = config.get("batch_size", 128)
        self._max_async = config.get("max_async_level", 1)
        self._max_off_policy = config.get("max_off_policy_steps", 8)
        self._broadcasts = Path(config.get("output_dir")) / "broadcasts"
        self._groups = groups
        self._admin = admin
        self._log = log
        self._timeout = pace.paced(config.get("client.timeout", 1200))
        self._inflight: dict[str, int] = {}
        # The real scheduler is one asyncio loop. Here two threads share what is under way.
        self._lock = threading.Lock()
        self._may_go_on = threading.Event()
        self._may_go_on.set()
        self.step = 0
        self.ckpt_step = 0
        self.examples = 0
        self.update_error: Exception | None = None

    def start(self) -> None:
        """Begin to load new weights into the inference server, in a thread."""
        threading.Thread(target=self._update_loop, daemon=True).start()

    def _update_loop(self) -> None:
        """An error ends this loop. The orchestrator looks at that only between batches, and a batch
        that cannot fill never ends.
        """
        try:
            while True:
                self._update_policy()
                pace.poll()
        except (APIConnectionError, APIStatusError) as error:
            self.update_error = error

    def _update_policy(self) -> None:
        barrier = max(self.step - self._max_async, 0)
        wanted = max(barrier, latest_stable(self._broadcasts) or 0)
        if wanted <= self.ckpt_step:
            return
        directory = step_path(self._broadcasts, wanted)
        if wanted == barrier:
            self._log.info(
                f"Hit async barrier because we are >{self._max_async} step(s) async. Waiting "
                f"for checkpoint {wanted}",
                "scheduler.py::177",
            )
            self._may_go_on.clear()
            wait_for(directory / "STABLE", self._log.debug)
        self.update_weights(directory)
        self._may_go_on.set()
        self._cancel_old()
        self.ckpt_step = wanted

    def update_weights(self, directory: Path) -> None:
        """Load the weights in `directory`, which the trainer has written, into the inference
        server. If the server does not have the route for that, only a warning is logged and it
        keeps its weights. Raises APIConnectionError or APIStatusError for other errors.
        """
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "NCCL_READY").touch()
        try:
            self._admin.request(
                "POST", "/update_weights", {"weight_dir": directory.as_posix()}, self._timeout
            )
        except APIStatusError as error:
            if error.status != 404:
                raise
            self._log.warning("The route /update_weights does not exist. Skipping weight update.")

    def reload_weights(self) -> None:
        """Load the weights of the base model into the inference server. If the server does not have
        the route for that, only a warning is logged. Raises APIConnectionError or APIStatusError
        for other errors.
        """
        try:
            self._admin.request("POST", "/reload_weights", {}, self._timeout)
        except APIStatusError as error:
            if error.status != 404:
                raise
            self._log.warning("The route /reload_weights does not exist. Skipping weight reload.")

    def _cancel_old(self) -> None:
        with self._lock:
            ages = self._inflight
            kept = {name: age + 1 for name, age in ages.items() if age <= self._max_off_policy}
            cancelled = len(ages) - len(kept)
            self._inflight = kept
        if cancelled:
            self._log.warning(
                f"Cancelled {cancelled} old rollout requests (will refill naturally). "
                "Consider increasing max_off_policy_steps to avoid this.",
                "scheduler.py::237",
            )

    def generate_batch(self, step: int) -> list[Message]:
        """Collect the rollouts of one batch, for the training step `step`, and return them, each
        with its advantage under "advantage". A failed rollout counts too, with a reward of 0.0 and
        no tokens.
        """
        self.step = step
        while len(self._inflight) < self._batch_size // self._group_size:
            self._submit()
        batch: list[Message] = []
        bar = Bar("Generating rollouts (train)", self._batch_size)
        while len(batch) < self._batch_size:
            identity, group = self._groups.results.get()
            self._may_go_on.wait()
            with self._lock:
                if self._inflight.pop(identity, None) is None:
                    continue  # cancelled meanwhile
            rewards = rollouts.advantages([rollout["reward"] for rollout in group])
            batch += [
                {**rollout, "advantage": advantage}
                for rollout, advantage in zip(group, rewards, strict=True)
            ]
            bar.update(len(group))
            self._submit()
        bar.close()
        return batch[: self._batch_size]

    def _submit(self) -> None:
        identity = uuid.uuid4().hex
        with self._lock:
            self._inflight[identity] = 0
        self._groups.submit(identity, self.examples, self._group_size)
        self.examples += 1

    @property
    def async_level(self) -> int:
        """Return by how many steps the batch that is being collected is ahead of the weights that
        the inference server has.
        """
        return self.step - self.ckpt_step

    @property
    def max_off_policy_level(self) -> int:
        """Return how many times the weights were updated since the oldest group under way was
        begun. Returns 0 if none is under way.
        """
        with self._lock:
            return max(self._inflight.values(), default=0)

    def state(self) -> dict[str, Any]:
        """Return the part of the orchestrator's checkpoint that says how far the data set was used,
        as {"examples": number}. The number counts the groups that were begun; a group is the
        rollouts of one example.
        """
        return {"examples": self.examples}
