"""Adopting runs that somebody started by hand."""

from __future__ import annotations

from bs4_agent.actions.executor import ActionExecutor
from bs4_agent.actions.submission import Submission
from bs4_agent.pod import Pod


class Adoptions:
    """Accepts adoptions, by which the agent begins to watch a run that somebody started by hand,
    and carries them out. There is one such object for a pod.
    """

    def __init__(self, executor: ActionExecutor, pod: Pod) -> None:
        self._executor, self._pod = executor, pod

    def adopt(self, asked: Submission) -> None:
        """Accept an adoption, and carry it out on a thread of its own: runs that were started by
        hand are watched from then on. `asked.body` may have `pid`, a process of the one run to
        adopt; without it, every run that is found is adopted. It may also have `run`, the name that
        the run gets. If nothing new is found, the action fails, which the journal then says.
        """
        self._executor.accept(asked, str(asked.body.get("run", "")))
        self._executor.start("", asked.key, lambda: self._do_adopt(asked))

    def _do_adopt(self, asked: Submission) -> None:
        """Adopt runs and journal which ones."""
        found = self._pod.adopt(asked.body.get("pid"), str(asked.body.get("run") or ""))
        adopted = [c for c in found if c["adopted"]]
        detail = (
            ", ".join(f"adopted pid {c['pid']} as {c['run']}" for c in adopted)
            or "no run was found that is not known already"
        )
        run, event = (adopted[0]["run"], "done") if adopted else ("", "failed")
        self._executor.event(asked.key, run, event, detail=detail, result={"candidates": found})
