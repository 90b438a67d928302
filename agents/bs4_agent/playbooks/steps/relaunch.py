"""The steps that start the next attempt with the same command: relaunch starts the run's, from the
step that was decided when the plan was made, and relaunch_companion that of the inference server
that was started apart from the run and has ended.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable, Sequence

from bs4_agent.playbooks.pod_actions import Context, Planned, Target, living, shown_processes
from bs4_common.errors import NotApplicable, PlanChanged
from bs4_common.failures.compiled import StepSettings
from bs4_common.trainers.base import LaunchSpec


class Relaunch:
    """The step of a playbook that starts the next attempt of the run. Its parameter `resume` says
    from which checkpoint the attempt resumes:

    * "resumable": from the newest complete one. If there is none, the playbook does not apply.
    * "previous": from the newest complete one below the training step from which the failed attempt
      was started.
    * "same": from the newest complete one. If the run has no checkpoint at all, the attempt starts
      where the failed one was started. If it has only incomplete ones, the playbook does not apply.
    * "none": from none. The run starts afresh, after everything was moved to the trash.
    """

    def plan(self, context: Context, parameters: StepSettings) -> Planned:
        """Return the planned launch. `parameters["resume"]` says from which checkpoint the attempt
        starts: "resumable", "previous", "same" or "none", which the class describes. Raises
        NotApplicable if the run has no such checkpoint, or if another run that is alive holds a
        port or a GPU that this one needs.
        """
        _refuse_what_another_run_holds(context)
        facts = context.facts()
        spec = _spec(facts.spec, parameters["resume"], context.resume, bool(facts.checkpoints))
        command = shlex.join(context.pod_actions.command(spec))
        where = "afresh" if spec.resume is None else f"from step {spec.resume}"
        return Planned(
            "relaunch",
            f"Start {context.run} {where}",
            command,
            {
                "resume": spec.resume,
                "command": command,
                "cwd": str(spec.cwd),
                "overrides": list(spec.overrides),
            },
            [],
            {"cwd": str(spec.cwd)},
        )

    def done(self, context: Context, planned: Planned) -> bool:
        """Return True if this action has started an attempt of the run already. `planned` is the
        step.
        """
        return context.pod_actions.launched(context.run, context.action) is not None

    def check(self, context: Context, planned: Planned) -> Sequence[Target]:
        """Called right before the step `planned` is carried out: check that the run may still be
        started as planned. Return an empty list, because a start has no targets (processes or files
        that exist and on which a step acts). Raises PlanChanged if the run is running again, and
        NotApplicable if another run that is alive holds a port or a GPU that this one needs.
        """
        _refuse_what_another_run_holds(context)
        if living(context.facts()):
            raise PlanChanged(
                f"{context.run} is running again already; nothing more was done. Make a new "
                "plan if it still fails."
            )
        return []

    def act(
        self,
        context: Context,
        planned: Planned,
        targets: Sequence[Target],
        say: Callable[[str], None],
    ) -> str:
        """Start the attempt that `planned`, this step of the plan, describes, and return a sentence
        with the number of the attempt. `targets` is empty, and `say` is not called. Raises an
        AgentError if the attempt cannot be started.
        """
        spec = dataclasses.replace(
            context.facts().spec,
            resume=planned.parameters["resume"],
            overrides=tuple(planned.parameters["overrides"]),
        )
        return f"attempt {context.pod_actions.launch(spec, context.action)} is starting"


def _refuse_what_another_run_holds(context: Context) -> None:
    """Raise NotApplicable if another run that is alive holds a port that this run needs, or memory
    of a GPU that it needs.
    """
    _refuse_a_port_of_another_run(context)
    for holder in context.pod_actions.gpu_rivals(context.run):
        raise NotApplicable(
            f"{context.run} cannot start: the run {holder.run} is alive and holds memory of its "
            f"GPU {holder.gpu}. Stop {holder.run} first, or give {context.run} other GPUs in its "
            "config."
        )


def _refuse_a_port_of_another_run(context: Context) -> None:
    """Raise NotApplicable if another run that is alive holds a port on which this run's own
    inference server would listen. The server could not start, and this run would reach the other
    run's server, generate with its policy and put its own weights into it.
    """
    if not context.facts().ever("inference"):
        return  # its server is started apart, and is a run of its own
    for holder in context.pod_actions.port_holders(context.run):
        if holder.run is not None and holder.run != context.run:
            raise NotApplicable(
                f"{context.run} cannot start: the run {holder.run} is alive and holds its port "
                f"{holder.port}. Stop {holder.run} first, or give {context.run} another port in "
                "its config."
            )


def _spec(spec: LaunchSpec, how: str, resumable: int | None, wrote: bool) -> LaunchSpec:
    """Return the spec of the next attempt. `resumable` is the newest complete step or None, `wrote`
    is True if the failed attempt has written a checkpoint. Raises NotApplicable if the run cannot
    be resumed.
    """
    overrides = tuple(_without_resume(spec.overrides))
    if how == "none":
        return dataclasses.replace(spec, resume=None, overrides=overrides)
    if resumable is not None:
        return dataclasses.replace(spec, resume=resumable, overrides=overrides)
    if how == "same" and not wrote:
        return dataclasses.replace(spec, overrides=overrides)
    raise NotApplicable(
        f"No step of {spec.run} is complete on every side, so it cannot be resumed. "
        "The playbook start-afresh moves everything aside and starts again."
    )


def _without_resume(overrides: Sequence[str]) -> list[str]:
    """Return the overrides without their resume options. A bare `--resume` takes the largest
    directory, which is how the run came to fail; the explicit step replaces it.
    """
    kept: list[str] = []
    words = iter(overrides)
    for word in words:
        if word in ("--resume.step", "--resume.dir", "--ckpt.resume-step"):
            next(words, None)
        elif word != "--resume":
            kept.append(word)
    return kept


class RelaunchCompanion:
    """The step of a playbook that starts the run's inference server again, with the same command as
    before. It is for a server that was started separately from the run; for the agent, such a
    server is a run of its own. This step comes before the start of the training run, which waits
    for the server.
    """

    def plan(self, context: Context, parameters: StepSettings) -> Planned | None:
        """Return the planned launch of the separate inference server. Return None if the server is
        alive or the run has no separate server. `parameters` is not used. Raises NotApplicable if
        the run used a server that the agent has never seen.
        """
        server = context.pod_actions.companion(context.run)
        if server is None and not context.facts().ever("inference"):
            raise NotApplicable(
                f"{context.run} used an inference server that was started apart and that the "
                "agent has never seen, so it cannot start it again. Start it by hand; the run "
                "goes on, or can be resumed then."
            )
        if server is None or server.alive("inference"):
            return None
        command, left = shlex.join(context.pod_actions.command(server.spec)), living(server)
        title = f"Start the inference server {server.name} again"
        if left:
            title += f", after ending the {len(left)} left of it"
        return Planned(
            "relaunch_companion",
            title,
            command,
            {
                "run": server.name,
                "attempt": server.attempt,
                "command": command,
                "cwd": str(server.spec.cwd),
            },
            [],
            {"processes": shown_processes(left)},
        )

    def done(self, context: Context, planned: Planned) -> bool:
        """Return True if this action has already started an attempt of the inference server.
        `planned` is the step.
        """
        return context.pod_actions.launched(planned.parameters["run"], context.action) is not None

    def check(self, context: Context, planned: Planned) -> Sequence[Target]:
        """Called right before the step `planned` is carried out: check that the inference server
        may still be started as planned. Return an empty list, because a start has no targets
        (processes or files that exist and on which a step acts). Raises PlanChanged if the
        inference server is alive again, or has had another attempt since the plan was made.
        """
        server = context.pod_actions.companion(context.run)
        if (
            server is None
            or server.attempt != planned.parameters["attempt"]
            or server.alive("inference")
        ):
            raise PlanChanged(
                f"{planned.parameters['run']} is not as it was when the plan was made; make "
                "a new plan."
            )
        return []

    def act(
        self,
        context: Context,
        planned: Planned,
        targets: Sequence[Target],
        say: Callable[[str], None],
    ) -> str:
        """End the processes that the inference server has left behind, start the server as the step
        `planned` describes, and return a sentence with the number of its attempt. `targets` is
        empty, and `say` is called with progress messages. Raises an AgentError if the server cannot
        be started.
        """
        name = planned.parameters["run"]
        if living(context.pod_actions.run_facts(name)):
            # an orphaned router or engine holds the port and the memory
            context.pod_actions.stop(name, say)
        spec = context.pod_actions.run_facts(name).spec
        return f"{spec.run} attempt {context.pod_actions.launch(spec, context.action)} is starting"
