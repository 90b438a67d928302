"""The recipe of a set-up: what a console wants a pod to become. Every value is checked, so that no
program takes it for an option.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bs4_agent.actions.submission import words
from bs4_agent.setup.credentials import NAMES
from bs4_common.errors import BadRequest
from bs4_common.trainers import registry

#: In the place of a trainer: store the credentials and nothing else, for a pod of any trainer.
CREDENTIALS = "credentials"
_REVISION = re.compile(r"[0-9A-Za-z][0-9A-Za-z._/-]{0,100}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_MACHINE = re.compile(r"[a-z0-9_]{1,20}")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,80}")
_VALUE = re.compile(r"[0-9A-Za-z_./:,=+@%-]{0,200}")
#: An environment of the hub: owner/name[@version]. Others are a wheel or a directory on the pod.
_HUB = re.compile(r"([A-Za-z0-9][\w.-]*)/([A-Za-z0-9][\w.-]*)(?:@([\w.+-]+))?")
#: Names of variables that hold secrets. They must not be in a file that every launch reads.
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD")


@dataclass(frozen=True)
class Environment:
    """One training environment (a Python package) to install. `source` is where it comes from,
    `package` the name under which pip knows it, and `module` the name of its Python module.
    `version` is "" if any version will do.
    """

    source: str
    package: str
    module: str
    version: str = ""

    @property
    def from_hub(self) -> bool:
        """Return True if the environment comes from the Environments Hub, and False if it is a file
        or a directory on the pod.
        """
        return _HUB.fullmatch(self.source) is not None


@dataclass(frozen=True)
class Archive:
    """A wheel (a zip file) that has the program uv: the URL from which it is fetched, and its
    SHA-256 in hexadecimal digits.
    """

    url: str
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a set-up installs on a pod. If `trainer` is the constant CREDENTIALS, it only stores the
    credentials in `secrets`, and the other fields are not used.

    `directory` is where prime-rl goes, and `repository` and `revision` are what is checked out
    there. `sync` has the arguments of `uv sync`, and `uv_archives` maps each machine type, as
    `uname -m` prints it, to the archive of uv for it. `variables` are set in the environment of
    every launch in that directory. `environments` are the training environments to install.
    `secrets` has the names of the credentials that are sent with the confirmation. `nofile` is the
    limit of open files for launches.
    """

    trainer: str
    directory: Path
    repository: str
    revision: str
    sync: tuple[str, ...]
    uv_archives: Mapping[str, Archive]
    variables: Mapping[str, str]
    environments: tuple[Environment, ...]
    secrets: tuple[str, ...]
    nofile: int

    def as_dict(self) -> dict[str, Any]:
        """Return the recipe as a dictionary of JSON values, which the function `read` of this
        module accepts again.
        """
        archives = {}
        for machine, archive in self.uv_archives.items():
            archives[machine] = {"url": archive.url, "sha256": archive.sha256}
        return {
            "trainer": self.trainer,
            "directory": str(self.directory),
            "repository": self.repository,
            "revision": self.revision,
            "sync": list(self.sync),
            "uv_archives": archives,
            "variables": dict(self.variables),
            "environments": [environment.source for environment in self.environments],
            "secrets": list(self.secrets),
            "nofile": self.nofile,
        }


def read(data: Mapping[str, Any]) -> Recipe:
    """Return the recipe (what to install on the pod) that `data`, the body of a request for a
    set-up, describes. Raises BadRequest, whose message names the first value that is not allowed.
    """
    trainer = str(data.get("trainer"))
    if trainer == CREDENTIALS:
        return _only_credentials(words(data.get("secrets"), "secrets"))
    able = [known for known in registry.ids() if registry.get(known).traits.installed]
    if trainer not in able:
        raise BadRequest(
            f"There is no set-up for a trainer {trainer!r}; choose {' or '.join(able)}."
        )
    nofile = data.get("nofile", 65536)
    if type(nofile) is not int or not 1024 <= nofile <= 1 << 20:
        raise BadRequest(
            f"{nofile!r} is no limit of open files; give a number from 1024 to 1048576."
        )
    return Recipe(
        trainer=trainer,
        directory=Path.home() / _plain(str(data.get("directory") or "prime-rl"), "directory"),
        repository=_repository(str(data.get("repository") or "")),
        revision=_matching(_REVISION, str(data.get("revision") or ""), "revision"),
        sync=tuple(
            _plain(word, "argument of uv sync", option=True)
            for word in words(data.get("sync"), "sync")
        ),
        uv_archives=_archives(data.get("uv_archives")),
        variables=_variables(data.get("variables")),
        environments=tuple(
            environment(source) for source in words(data.get("environments"), "environments")
        ),
        secrets=tuple(_known(name) for name in words(data.get("secrets"), "secrets")),
        nofile=nofile,
    )


def _only_credentials(names: Iterable[str]) -> Recipe:
    """Return the recipe that only stores the credentials with these names. Raises BadRequest if
    there is none, or one that does not exist.
    """
    secrets = tuple(_known(name) for name in names)
    if not secrets:
        raise BadRequest(f"No credential is named; choose {', '.join(NAMES)}.")
    return Recipe(
        trainer=CREDENTIALS,
        directory=Path.home() / "prime-rl",
        repository="",
        revision="",
        sync=(),
        uv_archives={},
        variables={},
        environments=(),
        secrets=secrets,
        nofile=65536,
    )


def environment(source: str) -> Environment:
    """Return the training environment at `source`, which is `owner/name[@version]` of the
    Environments Hub, a `.whl` file on the pod, or a directory on the pod with a pyproject.toml.
    Raises BadRequest if it is anything else.
    """
    if (found := _HUB.fullmatch(source)) is not None:
        return Environment(
            source, found[2], found[2].replace("-", "_").replace(".", "_"), found[3] or ""
        )
    path = Path.home() / _plain(source, "environment")
    name, _, rest = path.name.partition("-")
    if path.suffix == ".whl" and rest:
        return Environment(str(path), name.replace("_", "-"), name, rest.split("-")[0])
    if not path.is_dir():
        raise BadRequest(
            f"{source!r} is no environment: give owner/name of the hub, or a wheel or a "
            "directory that is on the pod."
        )
    project = _project_name(path)
    return Environment(str(path), project, project.replace("-", "_").replace(".", "_"))


def _project_name(directory: Path) -> str:
    """Return the project's name in the directory's pyproject.toml. Raises BadRequest if there is
    none.
    """
    import tomlkit

    try:
        name = (
            tomlkit.parse((directory / "pyproject.toml").read_text()).get("project", {}).get("name")
        )
    except (OSError, ValueError) as error:
        raise BadRequest(
            f"{directory}/pyproject.toml cannot be read ({error}); an environment needs one "
            "that names it."
        ) from None
    return _matching(_REVISION, str(name or ""), "project name in pyproject.toml")


def _repository(address: str) -> str:
    """Return the address unchanged. Raises BadRequest if it holds a user name or a password."""
    try:
        parts = urlsplit(address)
    except ValueError as error:
        raise BadRequest(f"{address[:60]!r} cannot be an address ({error}).") from None
    if parts.username or parts.password:
        raise BadRequest(
            "An address with a name or a password in it would be seen in the process list; "
            "leave them out of it."
        )
    return _plain(address, "address")


def _rows(given: object, name: str) -> list[tuple[str, object]]:
    """Return the names and values of the JSON object `given`; none if it is None. Raises
    BadRequest, which names the field `name`, if it is something else.
    """
    if given is None:
        return []
    if not isinstance(given, Mapping):
        raise BadRequest(f"`{name}` of a recipe is a table; send it so.")
    return [(str(key), value) for key, value in given.items()]


def _archives(given: object) -> dict[str, Archive]:
    """Return the archives of uv by machine type. Raises BadRequest if an address or a hash is not
    allowed.
    """
    found = {}
    for machine, row in _rows(given, "uv_archives"):
        archive = dict(_rows(row, f"uv_archives.{machine}"))
        sha256 = _matching(_SHA256, str(archive.get("sha256")), "SHA-256")
        found[_matching(_MACHINE, machine, "machine type")] = Archive(
            _repository(str(archive.get("url"))), sha256
        )
    return found


def _variables(given: object) -> dict[str, str]:
    """Return the environment variables by name. Raises BadRequest if a name or value is not allowed
    or looks like a secret.
    """
    found = {}
    for key, value in _rows(given, "variables"):
        name = _matching(_VARIABLE, key, "variable")
        found[name] = _matching(_VALUE, str(value), f"value of {key}")
    for name in found:
        if _SECRET.search(name):
            raise BadRequest(
                f"{name} looks like a secret, and every process of a run would see it; give "
                "it with --credentials."
            )
    return found


def _known(name: str) -> str:
    """Return the name unchanged. Raises BadRequest if no credential has that name."""
    if name not in NAMES:
        raise BadRequest(f"There is no credential {name!r}; choose {', '.join(NAMES)}.")
    return name


def _plain(text: str, what: str, *, option: bool = False) -> str:
    """Return the text unchanged. Raises BadRequest if it is empty, not printable or, unless
    `option` is True, starts with '-'. `what` names the text in the message.
    """
    if not text or not text.isprintable() or (text.startswith("-") and not option):
        raise BadRequest(
            f"{text!r} cannot be a {what}; it must not be empty, start with '-' or hold "
            "control characters."
        )
    return text


def _matching(pattern: re.Pattern[str], text: str, what: str) -> str:
    """Return the text unchanged. Raises BadRequest if it does not match the pattern. `what` names
    the text in the message.
    """
    if pattern.fullmatch(text) is None:
        raise BadRequest(f"{text[:60]!r} cannot be a {what}; use letters, digits and . _ / - only.")
    return text
