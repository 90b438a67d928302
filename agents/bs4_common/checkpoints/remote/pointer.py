"""latest.json: the one file that names the step from which a new pod starts. It is written last,
after that step was verified in the store.

The fields that older scripts wrote are kept, so that their readers still work: `step` ("step_N"),
`run_id`, `wandb_run_id` and `timestamp` (UTC). Our own fields are `schema`, `step_number`,
`manifest` (its full name in the bucket), `manifest_sha256`, `bytes`, `trainer`, `wandb`
({"trainer", "orchestrator"}) and `config_version` (hash of the config's bytes, "" if none is
known).
"""

from __future__ import annotations

import builtins
import calendar
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from bs4_common.checkpoints.remote.errors import StoreDamaged
from bs4_common.checkpoints.remote.layout import step_number
from bs4_common.foreign_json import loads

SCHEMA = "bs4.pointer/1"
MOST = 64 * 1024


@dataclass(frozen=True, kw_only=True)
class Pointer:
    """The content of latest.json, the file that names the newest verified step of a run in the
    object store.

    `t` is the time that the file's `timestamp` says, as a Unix time in seconds. `manifest` is the
    name in the bucket of the step's manifest (the list of its files), and `manifest_sha256` its
    digest in hex. `bytes` is the size of the step, and `wandb` maps "trainer" and "orchestrator" to
    their W&B run ids. `config_version` is a hash of the run's config file, "" if none is known. If
    an older upload script wrote the file, `manifest` is "", and only `step`, `run`, `t` and `wandb`
    are known.
    """

    step: int
    run: str
    t: float
    manifest: str = ""
    manifest_sha256: str = ""
    bytes: int = 0
    trainer: str = ""
    wandb: Mapping[str, str] = field(default_factory=dict)
    config_version: str = ""

    def encode(self) -> builtins.bytes:
        """Return the bytes that latest.json has to contain for this pointer."""
        return (
            b"%s\n"
            % json.dumps(
                {
                    "step": f"step_{self.step}",
                    "run_id": self.run,
                    "wandb_run_id": self.wandb.get("trainer", ""),
                    "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.t)),
                    "schema": SCHEMA,
                    "step_number": self.step,
                    "manifest": self.manifest,
                    "manifest_sha256": self.manifest_sha256,
                    "bytes": self.bytes,
                    "trainer": self.trainer,
                    "wandb": dict(self.wandb),
                    "config_version": self.config_version,
                },
                indent=1,
                ensure_ascii=False,
            ).encode()
        )

    @classmethod
    def decode(cls, data: builtins.bytes, what: str = "latest.json") -> Pointer:
        """Return the pointer in the content `data` of latest.json, which the agent or an older
        upload script wrote. `what` is the name of the file in error messages. Raises StoreDamaged
        if the content is anything else.
        """
        try:
            raw = loads(data)
            step = step_number(str(raw["step"]))
            if step is None or ("step_number" in raw and raw["step_number"] != step):
                raise ValueError(f"step {str(raw['step'])[:40]!r}")
            given = (raw.get("wandb") or {}).items()
            wandb = {str(name): str(value) for name, value in given if value}
            if not wandb and raw.get("wandb_run_id"):
                # The scripts had one id for both components. It is the trainer's; they lost the
                # orchestrator's.
                wandb = {"trainer": str(raw["wandb_run_id"])}
            t = _seconds(str(raw.get("timestamp") or ""))
            if "schema" not in raw:
                return cls(step=step, run=str(raw.get("run_id") or ""), t=t, wandb=wandb)
            return cls(
                step=step,
                run=str(raw["run_id"]),
                t=t,
                manifest=str(raw["manifest"]),
                manifest_sha256=str(raw["manifest_sha256"]),
                bytes=int(raw["bytes"]),
                trainer=str(raw["trainer"]),
                wandb=wandb,
                config_version=str(raw.get("config_version") or ""),
            )
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise StoreDamaged(
                f"{what} cannot be read ({type(error).__name__}: {str(error)[:120]}); look "
                "at the steps themselves."
            ) from error


def _seconds(text: str) -> float:
    """Return the wall-clock time of a timestamp, 0.0 if it is malformed."""
    try:
        return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ")))
    except ValueError:
        return 0.0
