"""Why an attempt ended: a root cause that was open when the run ended by itself stays open as the
reason of the end.

Many detectors judge running runs only, so their findings vanish with the run. That the run is over
does not mean that its failure is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from bs4_agent.detect.facts import Facts, Finding
from bs4_agent.playbooks.compiled import Playbook


class EndReasons:
    """Remembers which open incidents are the reason why their attempt ended."""

    def __init__(self, playbooks: Sequence[Playbook]) -> None:
        critical = [p for p in playbooks if p.severity == "critical"]
        symptoms = {p.id for p in critical if p.role != "root"}
        self._fatal = frozenset(
            p.id for p in critical if p.role == "root" and p.explains & symptoms
        )
        self._ended: dict[str, int] = {}
        self._kept: set[str] = set()
        self._seen: frozenset[str] = frozenset()

    def of(self, opened: Mapping[str, Finding], found: Collection[str], facts: Facts) -> list[str]:
        """Return the incidents among `opened` that stay open although nothing finds them any more.

        `opened` are the findings of all open incidents, and `found` are the incidents that were
        found in this scan. While the ended attempt is the newest one, a detector that judges ended
        runs may still say that a failure is over: its incident is found after the end, and then not
        any more. Once another attempt has begun, nothing scans the earlier attempt.
        """
        self._kept &= opened.keys()
        for run in facts.runs:
            if not run.over:
                continue
            own, fatal = set(), set()
            for key, item in opened.items():
                if (item.run, item.attempt) == (run.name, run.attempt):
                    own.add(key)
                    if item.role == "root" and item.failure in self._fatal:
                        fatal.add(key)
            if run.good_end or run.stop_requested or run.with_pod:
                self._kept -= own
            elif self._ended.get(run.name) != run.attempt:
                self._kept |= fatal
            else:
                self._kept |= fatal.intersection(found)
                self._kept -= (own & self._seen).difference(found)
            self._ended[run.name] = run.attempt
        self._seen = frozenset(found)
        return [key for key in self._kept if key not in found]
