"""The steps that end processes of dead runs of ours: end_port_holder those that hold a port that
the run needs, end_processes those that still hold GPU memory. Each process is ended by its
identity, and only while it still is a leftover.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bs4_agent.playbooks import words
from bs4_agent.playbooks.pod_actions import (
    Context,
    Planned,
    PodActions,
    Target,
    process_target,
    shown_processes,
)
from bs4_common.credentials.forms import shown_command
from bs4_common.errors import NotApplicable, PlanChanged
from bs4_common.failures.compiled import StepSettings
from bs4_common.failures.facts import Holder
from bs4_common.identity import Identity
from bs4_common.runs.model import Member


class EndLeftovers:
    """Base class of steps that end leftovers. A leftover is a process that is still alive although
    the attempt to which it belongs (one start of a run) has ended. Each target of such a step is
    the identity of one leftover, together with `dead_run`, the name of its run.
    """

    def done(self, context: Context, planned: Planned) -> bool:
        """Return True if all processes that are targets of the step `planned` have ended."""
        return not any(Identity.from_dict(t).alive() for t in planned.targets)

    def check(self, context: Context, planned: Planned) -> Sequence[Target]:
        """Return those targets of the step `planned` whose process is still alive. Raises
        PlanChanged if one of these processes does not belong to an ended attempt of its `dead_run`
        any more.
        """
        alive = [t for t in planned.targets if Identity.from_dict(t).alive()]
        left: set[Identity] = set()
        for run in {t["dead_run"] for t in alive}:
            left.update(member.identity for member in context.pod_actions.leftovers(run))
        for target in alive:
            if Identity.from_dict(target) not in left:
                raise PlanChanged(
                    f"pid {target['pid']} is no leftover of {target['dead_run']} any more; "
                    "make a new plan."
                )
        return alive

    def act(
        self,
        context: Context,
        planned: Planned,
        targets: Sequence[Target],
        say: Callable[[str], None],
    ) -> str:
        """End the processes in `targets`, which `check` has returned, and return a sentence about
        the result. `planned` is the step, and `say` is called with progress messages. Raises
        StepFailed if a process survives SIGKILL.
        """
        return context.pod_actions.end([Identity.from_dict(t) for t in targets], say)


class EndPortHolder(EndLeftovers):
    """The step of a playbook that frees this run's ports. It ends the processes of ended attempts
    that hold one of them, together with all other processes of these attempts.

    A process is ended only if it descends from an attempt that this agent knows. If any other
    process listens on a port, it is left alone, and the step cannot be planned; a person must end
    that process or choose another port.
    """

    def plan(self, context: Context, parameters: StepSettings) -> Planned | None:
        """Return the planned step with the processes to end, or None if no other process holds a
        port of this run. `parameters` is not used. Raises NotApplicable if a process that holds a
        port is not proved to be left behind by an ended attempt of one of this agent's runs.
        """
        dead, ports, others = set(), set(), []
        for holder in context.pod_actions.port_holders(context.run):
            if holder.run == context.run:
                continue
            ports.add(holder.port)
            if holder.dead_run is None or not holder.same_user:
                others.append(holder.line())
            else:
                dead.add(holder.dead_run)
        if not ports:
            return None
        if others:
            raise NotApplicable(
                f"A port of {context.run} is held by {'; '.join(others)}, which "
                "is not provably left of a run of ours. End it by hand if it is yours, or choose "
                "another port in the config."
            )
        holding = f" and hold port {', '.join(map(str, sorted(ports)))}"
        return _ending(
            "end_port_holder", context.pod_actions, sorted(dead), {"ports": sorted(ports)}, holding
        )


class EndProcesses(EndLeftovers):
    """The step of a playbook that frees GPU memory. It ends the processes of ended attempts that
    hold some, together with all other processes of these attempts (a router that stays alive would
    hold the port).

    A process is ended only if it descends from an attempt that this agent knows. Any other process
    that holds memory is named in the plan and left alone.
    """

    def plan(self, context: Context, parameters: StepSettings) -> Planned:
        """Return the planned step with the processes to end. `parameters` is not used. Raises
        NotApplicable if none of the processes that hold GPU memory is proved to be left behind by
        an ended attempt of one of this agent's runs.
        """
        dead, others = set(), []
        for holder in context.pod_actions.gpu_facts().holders:
            if holder.run is not None:
                continue
            if holder.dead_run is None:
                others.append(_line(holder))
            elif holder.same_user:
                dead.add(holder.dead_run)
        if not dead:
            raise NotApplicable(
                f"GPU memory is held by {'; '.join(others) or 'no visible process'}, and none of "
                "it is provably left from a run of ours. Look at it and end it by hand, or "
                "release the pod."
            )
        return _ending("end_processes", context.pod_actions, sorted(dead), {"left_alone": others})


def _ending(
    kind: str,
    pod_actions: PodActions,
    dead: Sequence[str],
    shown: Mapping[str, Sequence[int] | Sequence[str]],
    holding: str = "",
) -> Planned:
    """Return the planned end of the living processes of the dead runs. `holding` ends its title."""
    members: list[Member] = []
    targets: list[Target] = []
    for run in dead:
        for member in pod_actions.leftovers(run):
            members.append(member)
            target = process_target(member.identity)
            target["dead_run"] = run
            targets.append(target)
    return Planned(
        kind,
        f"End {words.processes(len(members))} left of {', '.join(dead)}{holding}",
        "kill -TERM " + " ".join(str(t["pid"]) for t in targets),
        {},
        targets,
        {"processes": shown_processes(members), **shown},
    )


def _line(holder: Holder) -> str:
    """Return the holder as text: its pid, command, memory and GPU."""
    memory = "unknown memory"
    if holder.mem is not None:
        memory = f"{holder.mem / (1 << 30):.1f} GiB"
    return (
        f"pid {holder.identity.pid} {shown_command(holder.cmdline, 80)} ({memory} on GPU "
        f"{holder.gpu})"
    )
