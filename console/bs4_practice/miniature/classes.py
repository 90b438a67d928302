"""The config classes under the names by which the real ones are imported, as far as the miniature
knows keys (install.py).

`parse_argv` is 2026-01's (it reads sys.argv), `cli` the current generation's (it raises what it
cannot use when its arguments are given). Both say what is wrong as pydantic does: an error with
`errors()`, each with `loc`, `type` and `msg`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from .config import Config, ConfigError, parse, unknown_keys
from .current.settings import KNOWN as CURRENT
from .v2026_01.settings import KNOWN as V2026_01


class ValidationError(ValueError):
    """Raised when a config is not valid. It stands for pydantic's error of this name."""

    def __init__(self, entries: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(f"{len(entries)} validation errors")
        self._entries = entries

    def errors(self) -> list[Mapping[str, Any]]:
        """Return what is wrong with the config, one mapping for each error: `loc` is the key as a
        tuple of its parts, `type` pydantic's word for the kind of error, and `msg` a sentence.
        """
        return list(self._entries)


class _Checked:
    """A config class: which keys it has."""

    KNOWN: ClassVar[Mapping[str, frozenset[str]]]

    def __init__(self, config: Config) -> None:
        entries = [
            {
                "loc": tuple(name.split(".")),
                "type": "extra_forbidden",
                "msg": "Extra inputs are not permitted",
            }
            for name in unknown_keys(config, self.KNOWN)
        ]
        trainer, orchestrator = (
            config.get("trainer.model.seq_len", 2048),
            config.get("orchestrator.seq_len", 2048),
        )
        shared = config.get("seq_len")
        if (
            not entries
            and "orchestrator" in self.KNOWN
            and shared is None
            and trainer < orchestrator
        ):
            said = (
                f"Value error, Trainer model seq_len ({trainer}) must be >= orchestrator seq_len "
                f"({orchestrator})."
            )
            entries = [{"loc": (), "type": "value_error", "msg": said}]
        if entries:
            raise ValidationError(entries)


class RLConfig2026(_Checked):
    """An imitation of the class with which prime-rl's version of January 2026 reads the config of a
    run. The constructor raises ValidationError if the config is not valid.
    """

    KNOWN = V2026_01


class OrchestratorConfig2026(_Checked):
    """An imitation of the class with which prime-rl's version of January 2026 reads the config of
    the orchestrator alone. The constructor raises ValidationError if the config is not valid.
    """

    KNOWN: ClassVar = {"": V2026_01["orchestrator"]}


class RLConfig(_Checked):
    """An imitation of the class with which current prime-rl reads the config of a run. The
    constructor raises ValidationError if the config is not valid.
    """

    KNOWN = CURRENT


class OrchestratorConfig(_Checked):
    """An imitation of the class with which current prime-rl reads the config of the orchestrator
    alone. The constructor raises ValidationError if the config is not valid.
    """

    KNOWN: ClassVar = {"": CURRENT["orchestrator"]}


def parse_argv(cls: type[_Checked], allow_extras: bool = False) -> _Checked:
    """Return the config that the command line of this process gives, as an object of the class
    `cls`. It imitates the function of this name in January's prime-rl. Raises ConfigError if the
    command line or a config file cannot be read, and ValidationError if the config is not valid.
    `allow_extras` is not used.
    """
    return cls(parse(sys.argv[1:]))


def cli(cls: type[_Checked], *, args: Sequence[str]) -> _Checked:
    """Return the config that the words `args` of a command line give, as an object of the class
    `cls`. It imitates the function of this name in current prime-rl. Raises ConfigError if the
    words or a config file cannot be read or the config is not valid.
    """
    try:
        return cls(parse(args))
    except ValidationError as error:
        raise ConfigError(str(error)) from error
