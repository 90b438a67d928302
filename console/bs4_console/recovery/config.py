"""Reads `recover.toml`: which runs may be moved to another machine, and for how much money.

[runs.demo]
pod = "alpha"                      # where the run is now, by its name in pods.toml
store = "b2://BUCKET/PREFIX"       # where its checkpoints are synced to
mode = "ask"                       # or "auto"
trainer = "prime-rl"
gpu = "H100"
max_price = 6.0                    # US dollars an hour for the whole machine
per_day = 60.0
per_run = 400.0
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

from bs4_common.checkpoints.remote.layout import Layout, Place
from bs4_common.errors import BadRequest
from bs4_console import locations
from bs4_console.errors import UsageError
from bs4_console.providers.base import Want
from bs4_console.recovery.recovery_types import Limits
from bs4_console.setup.recipe import Recipe, trainers
from bs4_console.suggest import did_you_mean

MODES = ("ask", "auto")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """The settings of one run in recover.toml, by which the recovery controller moves the run to
    another machine if its own is lost. `pod` is the pod on which the run is, and `store` the object
    store of its checkpoints, an address like b2://BUCKET/PREFIX. `mode` is "ask" (a person confirms
    the plan) or "auto". `gpu`, `count` (of GPUs), `disk_gb`, `region`, `interruptible` and `image`
    describe a new machine, and `max_price` is the most that it may cost. `per_day` and `per_run`
    are budgets in US dollars. `repository`, `revision`, `uv` and `environments` say what is
    installed on it, as in Recipe. `identity_file` and `credentials` are paths on this machine;
    `cwd` and `output_dir` are paths on the pod.
    """

    run: str
    pod: str
    store: str
    trainer: str
    gpu: str
    max_price: float
    """US dollars an hour for the whole machine."""
    per_day: float
    per_run: float
    mode: str = "ask"
    count: int = 1
    disk_gb: int = 200
    region: str = ""
    interruptible: bool = False
    image: str = ""
    providers: tuple[str, ...] = ()
    """The providers at which a machine may be rented. Empty means all for which there is a key."""
    recoveries: int = 2
    """How many recoveries in a row may go by without a new training step of the run."""
    ready_minutes: float = 60.0
    """How many minutes a recovery may take, from renting the machine to the first new training
    step.
    """
    cwd: str = "prime-rl"
    output_dir: str = "outputs"
    repository: str = ""
    revision: str = ""
    uv: str = ""
    environments: tuple[str, ...] = ()
    identity_file: str = ""
    """The private SSH key that opens the new machine."""
    credentials: str = ""
    """A file, readable only by its owner, with lines NAME=value: the key of the object store, and
    the keys that the new machine gets (W&B, Hugging Face).
    """
    trust_first_key: bool = False
    """True if the host key that a new machine shows first is trusted without a person who compares
    it, in case the provider's API does not show the key.
    """

    @property
    def layout(self) -> Layout:
        """Return the Layout, which knows the names of the run's files in the object store. Raises
        BadRequest if `store` is not an address like b2://BUCKET/PREFIX.
        """
        return Layout(Place.parse(self.store).prefix, self.run)

    @property
    def limits(self) -> Limits:
        """Return the prices, the budgets and the number of recoveries within which the recovery
        controller may act for this run.
        """
        return Limits(
            self.max_price, self.per_day, self.per_run, self.recoveries, self.ready_minutes * 60.0
        )

    def want(self, most: float) -> Want:
        """Return a description of the machine to search for when the run needs a new one. It may
        cost at most `most` US dollars an hour.
        """
        return Want(
            gpu=self.gpu,
            count=self.count,
            max_price=most,
            disk_gb=self.disk_gb,
            region=self.region or None,
            interruptible=self.interruptible,
            image=self.image or None,
        )

    @property
    def recipe(self) -> Recipe:
        """Return the recipe by which a new machine for this run is set up: trainer, repository,
        revision and environments.
        """
        return Recipe(
            trainer=self.trainer,
            directory=self.cwd,
            repository=self.repository,
            revision=self.revision,
            environments=self.environments,
            uv=self.uv,
        )


def read(path: Path | None = None) -> dict[str, RunConfig]:
    """Return the settings of all runs in the TOML file `path`, as {name of the run: settings}. None
    means the file recover.toml in this machine's directory of configuration. Raises UsageError,
    which names the wrong setting, if the file is missing or has a mistake.
    """
    path = path or locations.config_dir() / "recover.toml"
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(
            f"{path} is not there.",
            "Write it as `bs4-console docs recover` shows: one [runs.NAME] for each run.",
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not valid TOML: {error}.", "Correct that line.") from error
    runs = document.get("runs")
    if set(document) != {"runs"} or not isinstance(runs, dict) or not runs:
        raise UsageError(
            f"{path} holds no [runs.NAME].", "Write one for each run, and nothing beside them."
        )
    return {name: _run(path, name, table) for name, table in runs.items()}


def _run(path: Path, name: str, table: Any) -> RunConfig:
    where = f"{path}: runs.{name}"
    if not isinstance(table, Mapping):
        raise UsageError(f"{where} is no table.", f"Write [runs.{name}].")
    hints = get_type_hints(RunConfig)
    known = {field.name: field for field in fields(RunConfig)}
    del known["run"]
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in known:
            raise UsageError(f"{where} has an unknown setting {key!r}.", did_you_mean(key, known))
        values[key] = _typed(f"{where}.{key}", value, hints[key])
    if lacking := [
        key for key, field in known.items() if field.default is MISSING and key not in values
    ]:
        raise UsageError(
            f"{where} lacks {', '.join(lacking)}.", "Say it: nothing is rented on a guess."
        )
    config = RunConfig(run=name, **values)
    try:
        _ = config.layout
    except BadRequest as error:
        raise UsageError(f"{where}: {error.message}") from None
    if config.mode not in MODES or config.trainer not in trainers():
        raise UsageError(
            f"{where}: mode is ask or auto, and trainer one of {', '.join(trainers())}.",
            "Correct it.",
        )
    least = min(
        config.max_price,
        config.per_day,
        config.per_run,
        config.recoveries,
        config.ready_minutes,
        config.count,
    )
    if least <= 0:
        raise UsageError(f"{where}: prices, budgets, counts and times are above 0.", "Correct it.")
    return config


def _typed(where: str, value: Any, hint: Any) -> Any:
    if get_args(hint):
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise UsageError(f"{where} is no list of words.", 'Write it as ["one", "two"].')
        return tuple(value)
    if hint is float and type(value) is int:
        return float(value)
    if type(value) is not hint:
        raise UsageError(
            f"{where} = {value!r} is not of type {hint.__name__}.", "Correct that line."
        )
    return value
