"""edit_config: change keys of the run's own config; what the file held before goes to the run's
trash.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bs4_agent.errors import NotApplicable, PlanChanged
from bs4_agent.paths import storage
from bs4_agent.playbooks import configfile
from bs4_agent.playbooks.world import Context, Planned
from bs4_agent.trainers.settings import UNKNOWN_CONFIG, parse_arguments


class EditConfig:
    """Confirmed is this very file: its digest is a target, so that a config which somebody has
    touched since is left alone.

    `for`: the generations whose keys these are; for another one the step does not exist.
    """

    def plan(self, context: Context, parameters: Mapping[str, Any]) -> Planned | None:
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
            words.append(
                f"{c['key']} = {c['after']!r}" if c["after"] is not None else f"no {c['key']}"
            )
        hashed = {
            "path": str(path),
            "set": values,
            "unset": gone,
            "output_dir": str(facts.layout.output_dir),
        }
        targets = [{"path": str(path), "sha256": configfile.fingerprint(raw)}]
        title = f"Change {path.name}: {', '.join(words)}"
        return Planned(
            "edit_config",
            title,
            f"edit {path}: {'; '.join(words)}",
            hashed,
            targets,
            {"changes": changes},
        )

    def done(self, context: Context, planned: Planned) -> bool:
        return not _changes(planned)[1]

    def check(self, context: Context, planned: Planned) -> Sequence[Mapping[str, Any]]:
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
        targets: Sequence[Mapping[str, Any]],
        say: Callable[[str], None],
    ) -> str:
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


def _changes(planned: Planned) -> tuple[bytes, list[dict[str, Any]]]:
    raw = configfile.read(Path(planned.parameters["path"]))
    return configfile.edited(raw, planned.parameters["set"], planned.parameters["unset"])


def _refuse_overridden(overrides: Sequence[str], keys: Sequence[str]) -> None:
    """The command line wins over the file: an edit that it hides would change nothing."""
    given = parse_arguments(overrides)
    hidden = []
    for key in keys:
        if given.last(key) is not None:
            hidden.append(key)
    if hidden:
        raise NotApplicable(
            f"The command line sets {', '.join(hidden)} and wins over the config; launch it "
            "again without that option."
        )
