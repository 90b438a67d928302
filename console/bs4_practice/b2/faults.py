"""What goes wrong, and when: rules that the server asks before and while it answers. It knows
mechanisms only, as a network has them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

FaultKind = Literal[
    "busy",
    "many",
    "drop",
    "lost",
    "hang",
    "corrupt",
    "rot",
    "expire",
    "slow",
    "full",
    "transactions",
    "stop",
]
KINDS: tuple[FaultKind, ...] = get_args(FaultKind)


@dataclass
class Fault:
    """One rule by which the store fails. `kind` is how it fails:

      busy      answers 503 with Retry-After 0
      many      answers 429
      drop      the connection ends after `after` bytes of the body (or of a download) were taken
      lost      the call is carried out, but the connection ends without an answer
      hang      no answer for `seconds`, then the connection ends
      corrupt   a byte changes on the way: an upload has another hash than the client announced, and
                is refused; a download has wrong bytes
      rot       a byte changes after an upload: the store keeps other bytes than it acknowledged,
                and lists their hash
      expire    all tokens and upload URLs expire
      slow      the bytes come or go at `rate` bytes per second
      full, transactions   answers 403, because a limit of the account is reached
      stop      `on` is called when `after` bytes were taken, and the connection ends; with `after`
                0 `on` is called at the beginning, and the call is then carried out

    `call` is the API call that fails, such as "b2_upload_file", or "" for all. `name` limits the
    rule to files whose names contain this text. Of the calls that fit, the first `skip` are let
    through and the next `times` fail, or all later ones if `times` is None.
    """

    kind: FaultKind
    call: str = ""
    name: str = ""
    skip: int = 0
    times: int | None = 1
    after: int = 0
    seconds: float = 5.0
    rate: int = 1_000_000
    on: Callable[[], None] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"there is no fault {self.kind!r}; choose {', '.join(KINDS)}")

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Fault:
        """Return the rule that the dictionary `raw` describes, which has the names of Fault's
        fields as keys. Other keys, and "on", are ignored. Raises ValueError if the kind is not
        known.
        """
        known = {one.name for one in fields(cls)} - {"on"}
        return cls(**{key: value for key, value in raw.items() if key in known})


class Faults:
    """The rules (see Fault) by which the server fails. They can be used from several threads. At
    most one rule applies to a call: the first that fits the call, has let its `skip` calls through,
    and has not yet failed `times` calls.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rules: list[Fault] = []

    def add(self, *faults: Fault) -> None:
        """Add rules (see Fault) at the end of the list of rules."""
        with self._lock:
            self._rules += faults

    def clear(self) -> None:
        """Remove all rules, so that no call fails any more."""
        with self._lock:
            self._rules = []

    def take(self, call: str, name: str) -> Fault | None:
        """Return the first rule that applies to the API call `call` (such as "b2_upload_file") for
        the file `name`, or None if no rule applies. Of the returned rule `times` becomes one less.
        A rule that fits but must first let calls through is passed over, and its `skip` becomes one
        less.
        """
        with self._lock:
            for rule in self._rules:
                if (rule.call and rule.call != call) or rule.name not in name or rule.times == 0:
                    continue
                if rule.skip:
                    rule.skip -= 1
                    continue
                if rule.times is not None:
                    rule.times -= 1
                return rule
        return None
