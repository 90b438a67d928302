"""The steps that change what the run's next attempts start with: edit_config changes keys of the
run's own config, whose old content goes to the run's trash, and set_limit raises the limit of open
files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from bs4_agent.paths import storage
from bs4_agent.playbooks import configfile
from bs4_agent.playbooks.pod_actions import Context, Planned, Stepping, Target
from bs4_common.errors import NotApplicable, PlanChanged
from bs4_common.failures.compiled import StepSettings
from bs4_common.trainers.settings import UNKNOWN_CONFIG, parse_arguments


class EditConfig:
    """The step of a playbook that sets or removes keys in the run's config file.

    A person confirms the step together with the digest (SHA-256) of the file, so a config that
    somebody has changed since is left alone. The parameter `for` has the ids of the trainers that
    have these keys; for a run of another trainer, the step is not planned.
    """

    def plan(self, context: Context, parameters: StepSettings) -> Planned | None:
        """Return the planned change of the run's config file. In `parameters`, `set` maps dotted
        keys to values, `unset` lists dotted keys to remove, and `for` lists the ids of the trainers
        that have these keys (all if absent).

        Return None if the config already has these values or the run's trainer is not in `for`.
        Raises NotApplicable if it is not known which config the run was started with, or if the
        command line overrides one of the keys.
        """
        facts = context.facts()
        if facts.spec.trainer not in parameters.get("for", (facts.spec.trainer,)):
            return None
        if facts.spec.config == UNKNOWN_CONFIG:
            raise NotApplicable(
                f"It is not known which config {context.run} was started with; change it by hand."
            )
        values, gone = dict(parameters.get("set", {})), list(parameters.get("unset", ()))
        _refuse_overridden(facts.spec.overrides, [*values, *gone])
        path = facts.spec.config_path
        raw = configfile.read(path)
        _, changes = configfile.edited(raw, values, gone)
        if not changes:
            return None
        words = []
        for c in changes:
            words.append(f"no {c['key']}" if c["after"] is None else f"{c['key']} = {c['after']!r}")
        return Planned(
            "edit_config",
            f"Change {path.name}: {', '.join(words)}",
            f"edit {path}: {'; '.join(words)}",
            {
                "path": str(path),
                "set": values,
                "unset": gone,
                "output_dir": str(facts.layout.output_dir),
            },
            [{"path": str(path), "sha256": configfile.fingerprint(raw)}],
            {"changes": changes},
        )

    def done(self, context: Context, planned: Planned) -> bool:
        """Return True if the config file has the values of the step `planned` already."""
        return not _changes(planned)[1]

    def check(self, context: Context, planned: Planned) -> Sequence[Target]:
        """Return one target: the config file of the step `planned` with its digest (SHA-256).
        Raises PlanChanged if the file has changed since the plan was made. Raises NotApplicable if
        it cannot be read.
        """
        (target,) = planned.targets
        if configfile.fingerprint(configfile.read(Path(target["path"]))) != target["sha256"]:
            raise PlanChanged(
                f"{target['path']} was changed since the plan was made; make a new plan."
            )
        return [target]

    def act(
        self,
        context: Context,
        planned: Planned,
        targets: Sequence[Target],
        say: Callable[[str], None],
    ) -> str:
        """Change the config file as the step `planned` says, and return a sentence with the number
        of changed keys. The file's old content is saved in the run's trash, a directory in which
        removed files are kept. `targets` is not used, and `say` is called with a progress message.
        Raises StepFailed if the file system reports an error.
        """
        path = Path(planned.parameters["path"])
        new, changes = _changes(planned)
        kept = (
            storage(Path(planned.parameters["output_dir"]), context.run)
            / "trash"
            / context.action
            / "config"
            / path.name
        )
        configfile.replace(path, new, kept)
        say(f"the old {path.name} lies in {kept}")
        return f"{len(changes)} keys of {path} changed"


def _changes(planned: Planned) -> tuple[bytes, list[configfile.Change]]:
    """Return the new bytes of the config and the keys that still have to change."""
    wanted = planned.parameters
    return configfile.edited(configfile.read(Path(wanted["path"])), wanted["set"], wanted["unset"])


def _refuse_overridden(overrides: Sequence[str], keys: Sequence[str]) -> None:
    """Raise NotApplicable if the command line sets one of `keys`. The command line wins over the
    file, so the edit would have no effect.
    """
    given = parse_arguments(overrides)
    if hidden := [key for key in keys if given.last(key) is not None]:
        raise NotApplicable(
            f"The command line sets {', '.join(hidden)} and wins over the config; launch it "
            "again without that option."
        )


#: With fewer open files, a run with several environment workers fails soon anyway.
_ENOUGH = 4096


class SetLimit(Stepping):
    """The step of a playbook that sets a higher limit of open files for the run.

    The limit is stored with the run on the pod and applied at every later start, also by a new
    agent. It is at most the pod's hard limit, which a process cannot raise.
    """

    def plan(self, context: Context, parameters: StepSettings) -> Planned | None:
        """Return the planned limit, or None if the run's next attempt would have at least this
        limit already. `parameters["nofile"]` is the wanted number of open files; if the pod's hard
        limit is lower, that one is planned. Raises NotApplicable if the hard limit is below 4096,
        which is too low to help.
        """
        soft, hard = context.pod_actions.nofile(context.run), context.pod_actions.hard_nofile()
        wanted = min(int(parameters["nofile"]), hard)
        if wanted < _ENOUGH:
            raise NotApplicable(
                f"The pod's hard limit of open files is {hard}, and only its provider can raise "
                "it (`--ulimit nofile` of the container). Choose another pod, or run fewer "
                "environment workers."
            )
        if soft >= wanted:
            return None
        return Planned(
            "set_limit",
            f"Start {context.run} with {wanted} open files allowed",
            f"ulimit -n {wanted}",
            {"nofile": wanted},
            [],
            {},
        )

    def done(self, context: Context, planned: Planned) -> bool:
        """Return True if the run's next attempt would start with at least the limit of the step
        `planned`.
        """
        return context.pod_actions.nofile(context.run) >= int(planned.parameters["nofile"])

    def act(
        self,
        context: Context,
        planned: Planned,
        targets: Sequence[Target],
        say: Callable[[str], None],
    ) -> str:
        """Save the limit of the step `planned` for every later start of the run, and return a
        sentence about it. `targets` is not used, and `say` is not called.
        """
        context.pod_actions.set_nofile(context.run, planned.parameters["nofile"])
        return f"{context.run} starts with {planned.parameters['nofile']} open files from now on"
