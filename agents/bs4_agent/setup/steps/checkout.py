"""Checks prime-rl out at one revision. A clone is made under a temporary name and renamed when it
is complete, so that half a clone is never used.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from bs4_agent.playbooks.pod_actions import Planned, Stepping, Target
from bs4_agent.setup.place import Say, SetupContext
from bs4_agent.tree.changes import remove
from bs4_common.descriptors import real
from bs4_common.errors import NotApplicable, PlanChanged, StepFailed
from bs4_common.trainers.launcher import by_entry_point

#: git gives up if less than 1000 bytes per second arrive for a minute: such a connection is dead,
#: not slow.
_CLONE = ("git", "-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60", "-c", "gc.auto=0")

_SSH = "git@github.com:"


class Checkout(Stepping):
    """The step of a set-up that clones prime-rl, or switches an existing clone to the recipe's
    revision.
    """

    def plan(self, context: SetupContext) -> Sequence[Planned]:
        """Return a list with one planned step: to clone, to switch to the revision, or to do
        nothing. Raises NotApplicable if the directory is there and is no clone, or is a clone with
        changed files.
        """
        recipe, place = context.recipe, context.place
        way, now = _way(context)
        directory = place.shown(recipe.directory)
        command = {
            "clone": f"git clone {recipe.repository} {place.shown(_part(recipe.directory))} && git "
            f"checkout --detach {recipe.revision} && git submodule update --init --recursive "
            f"(over https), then rename to {directory}",
            "switch": (
                f"git -C {directory} fetch {recipe.repository} && git -C {directory} checkout "
                f"--detach {recipe.revision}"
            ),
            "none": f"git -C {directory} checkout --detach {recipe.revision}",
        }[way]
        parameters = {"repository": recipe.repository, "revision": recipe.revision}
        target: Target = {"directory": str(recipe.directory)}
        if way != "none":
            target["way"] = way
        return [
            Planned(
                "checkout",
                f"Check prime-rl out at {recipe.revision[:12]}",
                command,
                parameters,
                [target],
                {"now": now, "done": way == "none"},
            )
        ]

    def done(self, context: SetupContext, planned: Planned) -> bool:
        """Return True if nothing has to be done: the directory is a clone at the recipe's revision,
        or has prime-rl as it comes with an image, which is not a clone.
        """
        return _way(context)[0] == "none"

    def check(self, context: SetupContext, planned: Planned) -> Sequence[Target]:
        """Return the targets of the step `planned`, as they are in the plan. Raises PlanChanged if
        the directory has changed since the plan was made, for example so that it would have to be
        cloned instead of switched.
        """
        try:
            way, now = _way(context)
        except NotApplicable as error:
            raise PlanChanged(error.message) from None
        if planned.targets[0].get("way") != way:
            raise PlanChanged(
                f"{context.place.shown(context.recipe.directory)} is not what it was when "
                f"the plan was made: {now}. Make a new one."
            )
        return planned.targets

    def act(
        self,
        context: SetupContext,
        planned: Planned,
        targets: Sequence[Target],
        say: Say,
    ) -> str:
        """Clone prime-rl or switch the clone to the revision of the step `planned`, with its
        submodules, and return a sentence about its state. `targets` is the result of `check`, and
        `say` is called with progress messages. Raises StepFailed if git fails or the directory is
        at another revision afterwards. Raises LaunchFailed if a command cannot be started.
        """
        directory, recipe = context.recipe.directory, context.recipe
        tree = directory
        if targets[0]["way"] == "clone":
            tree = _part(directory)
            clone = [*_CLONE, "clone", "--no-checkout", "--", recipe.repository, str(tree)]
            if not context.started(clone):
                # It is half a clone: nothing is in it that the repository does not have. Its parent
                # may be a directory for everybody, as /workspace is on some pods.
                remove(real(tree), ours=tree)
            context.run(clone, say)
        else:
            context.run(
                [
                    *_CLONE,
                    "-C",
                    str(tree),
                    "fetch",
                    "--tags",
                    "--",
                    recipe.repository,
                    "+refs/heads/*:refs/remotes/bs4/*",
                ],
                say,
            )
        context.run(
            [*_CLONE, "-C", str(tree), "checkout", "--quiet", "--detach", recipe.revision], say
        )
        _read_over_https(context, tree)
        context.run([*_CLONE, "-C", str(tree), "submodule", "update", "--init", "--recursive"], say)
        if tree != directory:
            if directory.is_dir() and not any(directory.iterdir()):
                directory.rmdir()
            tree.rename(directory)
        way, now = _way(context)
        if way != "none":
            raise StepFailed(f"git ended well, but {now}. Look at the log, then repeat.")
        return now


def in_image(context: SetupContext) -> str | None:
    """Return the id of the trainer that is installed in the recipe's directory, if it came with the
    pod's image: without .git, and with its own `.venv`. Return None if the directory is a git
    checkout, or if no trainer is there.
    """
    directory = context.recipe.directory
    programs = directory / ".venv" / "bin"
    if (directory / ".git").exists() or not os.access(programs / "python", os.X_OK):
        return None
    return by_entry_point(programs / "rl")


def _way(context: SetupContext) -> tuple[str, str]:
    """Return what must be done ("clone", "switch" or "none") and a sentence about what is there.
    Raises NotApplicable if somebody's own work is in the directory.
    """
    directory, place, revision = context.recipe.directory, context.place, context.recipe.revision
    name = place.shown(directory)
    if not directory.exists() or (directory.is_dir() and not any(directory.iterdir())):
        half = " (half a clone, which is replaced)" if _part(directory).exists() else ""
        return "clone", f"{name} is not there{half}"
    if not (directory / ".git").exists():
        found = in_image(context)
        if found == context.recipe.trainer:
            return "none", (
                f"{name} is no checkout of git, with {found} installed, as images have it: it is "
                "left as it is, and its revision is not known"
            )
        held = f" (the trainer in it is {found})" if found else ""
        raise NotApplicable(
            f"{name} is there and is no checkout of git{held}; move it aside, or choose another "
            "directory with --dir. Credentials alone are stored without --trainer."
        )
    code, text = _git(context, directory, "rev-parse", "--show-toplevel")
    if code != 0:
        raise NotApplicable(
            f"git cannot say what {name} is ({text[:200]}); put that right, or choose "
            "another directory with --dir."
        )
    _, head = _git(context, directory, "rev-parse", "HEAD")
    code, wanted = _git(
        context, directory, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"
    )
    if code == 0 and head == wanted:
        return "none", f"{name} is at {head[:12]}"
    _, changes = _git(context, directory, "status", "--porcelain", "--untracked-files=no")
    if changes:
        raise NotApplicable(
            f"{name} is at {head[:12]} with {len(changes.splitlines())} changed files, which "
            f"another revision would lose; commit them, keep it with --revision {head[:12]}, or "
            "choose another directory with --dir."
        )
    return "switch", f"{name} is at {head[:12]}"


def _read_over_https(context: SetupContext, tree: Path) -> None:
    """Make git fetch the submodules over https. prime-rl names them by addresses that need an SSH
    key, which a pod does not have and public repositories do not need. Only this clone's own
    configuration is changed.
    """
    _git(context, tree, "submodule", "init")
    _, listed = _git(context, tree, "config", "--get-regexp", r"^submodule\..*\.url$")
    for line in listed.splitlines():
        name, _, address = line.partition(" ")
        if address.startswith(_SSH):
            _git(context, tree, "config", name, "https://github.com/" + address.removeprefix(_SSH))


def _git(context: SetupContext, tree: Path, *words: str) -> tuple[int, str]:
    """Run a short git command in the tree and return its exit code and its output."""
    return context.place.ask(["git", "-C", str(tree), *words])


def _part(directory: Path) -> Path:
    """Return the path of the clone until it is complete."""
    return directory.with_name(f".{directory.name}.bs4-part")
