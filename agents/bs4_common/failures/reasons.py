"""Why an attempt ended: a root cause that was open when the run ended by itself stays open as the
reason of the end.

Many detectors judge running runs only, so their findings vanish with the run. That the run is over
does not mean that its failure is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from bs4_common.failures.compiled import Playbook
from bs4_common.failures.facts import Facts, Finding

#: What the launcher says before it ends its children.
_ENDING = ("child-failed", "terminating")


class EndReasons:
    """Remembers which incidents explain why their attempt ended, so that they stay open although
    their run is over.
    """

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
        """Return the ids of those incidents in `opened` that are to stay open although this scan
        did not find them: root causes that were open when their attempt ended by itself, or when
        its launcher began to end it.

        `opened` has the findings of all open incidents by incident id, `found` the ids of the
        incidents that this scan found, and `facts` what the scan saw of the runs. An incident that
        was still found by a scan after its attempt's end, and is not found now, is over. No
        incident stays for an attempt that ended well or was stopped.
        """
        self._kept &= opened.keys()
        for run in facts.runs:
            # The launcher takes up to a minute to end the others, and no scan finds much in it.
            ending = any(run.last_event(kind, "launcher") for kind in _ENDING)
            if not (run.over or ending):
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
            if run.over:
                self._ended[run.name] = run.attempt
        self._seen = frozenset(found)
        return [key for key in self._kept if key not in found]
