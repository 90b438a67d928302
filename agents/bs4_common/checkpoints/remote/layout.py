"""Name everything in a bucket: every name that is written or looked for is made here.

<prefix>/<run>/latest.json                 the pointer: the newest step that was verified there
<prefix>/<run>/lease.json                  which controller acts
<prefix>/<run>/recovery.json               what the controllers know of the run: where it is,
                                           what was spent
<prefix>/<run>/clock.json                  written to learn what time the store has
<prefix>/<run>/steps/step_N/manifest.json  what belongs to step N
<prefix>/<run>/steps/step_N/files/<path>   its files, by their path below the output directory
<prefix>/<run>/logs/<attempt>/<name>       logs of attempts that ended
<prefix>/<run>/reports/<name>              crash reports
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from bs4_common.errors import BadRequest
from bs4_common.ids import safe_name

#: B2: letters, digits and hyphens, 6 to 63 of them (backblaze.com/docs, "Buckets").
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{4,61}[A-Za-z0-9]")
_STEP = re.compile(r"step_(0|[1-9]\d{0,11})")
#: What no name may contain: a backslash, a control character, or half of a surrogate pair.
_BAD_LETTER = re.compile("[\\\\\x00-\x1f\x7f\ud800-\udfff]")
#: How to write a place.
_WRITE = "Write b2://BUCKET or b2://BUCKET/PREFIX."
#: B2's own limit for a name, in bytes of UTF-8.
NAME_MOST = 1024


@dataclass(frozen=True)
class Place:
    """A place in an object store: `b2://BUCKET/PREFIX`. `prefix` has no slash at its ends and may
    be empty.
    """

    bucket: str
    prefix: str

    @classmethod
    def parse(cls, url: str) -> Place:
        """Return the place that a URL like `b2://BUCKET/PREFIX` names. Raises BadRequest, with
        what is wrong and how to write a place, if the URL is malformed.
        """
        bucket, _, prefix = url.removeprefix("b2://").partition("/")
        prefix = prefix.rstrip("/")
        if not url.startswith("b2://"):
            raise BadRequest(f"{url[:120]!r} does not begin with b2://. {_WRITE}")
        if not bucket:
            raise BadRequest(f"{url[:120]!r} names no bucket. {_WRITE}")
        if _BUCKET.fullmatch(bucket) is None or bucket.startswith("b2-"):
            raise BadRequest(
                f"{bucket[:120]!r} cannot be a bucket, whose name has 6 to 63 letters, digits and "
                f"hyphens, no hyphen at its ends and no b2- in front. {_WRITE}"
            )
        if prefix and (why := _unfit(prefix)):
            raise BadRequest(f"The prefix {prefix[:80]!r} {why}. {_WRITE}")
        return cls(bucket, prefix)

    def __str__(self) -> str:
        return f"b2://{self.bucket}/{self.prefix}".rstrip("/")


@dataclass(frozen=True)
class Layout:
    """The names of all files of one run in a bucket. `prefix` is that of the `Place` to which the
    run is uploaded.
    """

    prefix: str
    run: str

    def __post_init__(self) -> None:
        safe_name(self.run)

    @property
    def root(self) -> str:
        """Return the prefix with which the name of every file of the run begins. It ends with a
        slash, so that a search for files of run `a` does not find those of run `a-v2`.
        """
        return f"{self.prefix}/{self.run}/".lstrip("/")

    @property
    def pointer(self) -> str:
        """Return the name of the run's pointer file latest.json, which names its newest verified
        step.
        """
        return f"{self.root}latest.json"

    @property
    def lease(self) -> str:
        """Return the name of the file (the lease) by which one recovery controller, a console that
        brings the run on to another machine, claims the run for itself.
        """
        return f"{self.root}lease.json"

    @property
    def recovery(self) -> str:
        """Return the name of the file in which a recovery controller (a console that brings the run
        on to another machine) records how far the recovery is.
        """
        return f"{self.root}recovery.json"

    @property
    def clock(self) -> str:
        """Return the name of a file that is written only to learn the present time by the clock of
        the object store.
        """
        return f"{self.root}clock.json"

    @property
    def steps(self) -> str:
        """Return the prefix, with a slash at its end, that all objects of the run's steps share in
        the bucket, for example "runs/demo/steps/".
        """
        return f"{self.root}steps/"

    def step(self, number: int) -> str:
        """Return the prefix, with a slash at its end, that the objects of all files of step
        `number` share in the bucket.
        """
        return f"{self.steps}step_{number}/"

    def manifest(self, number: int) -> str:
        """Return the name in the bucket of the manifest (the list of all files) of training step
        `number`.
        """
        return f"{self.step(number)}manifest.json"

    def file(self, number: int, path: str) -> str:
        """Return the name in the bucket of one file of the checkpoint of training step `number`.
        `path` is the file's path relative to the run's output directory, with slashes. Raises
        BadRequest if the path leaves that directory or B2 does not accept it as a name.
        """
        return checked(f"{self.step(number)}files/{checked(path)}")

    def log(self, attempt: int, name: str) -> str:
        """Return the name in the bucket of the log `name` of an ended attempt, which is one start
        of the run; `attempt` is its number. Raises BadRequest if `name` is no relative path that B2
        accepts.
        """
        return checked(f"{self.root}logs/{attempt}/{checked(name)}")

    def report(self, name: str) -> str:
        """Return the name in the bucket of the crash report `name`. Raises BadRequest if `name` is
        no relative path that B2 accepts.
        """
        return checked(f"{self.root}reports/{checked(name)}")

    def step_of(self, name: str) -> int | None:
        """Return the step to which the bucket's file `name` belongs, or None if it belongs to no
        step of this run.
        """
        if not name.startswith(self.steps):
            return None
        return step_number(name[len(self.steps) :].partition("/")[0])


def step_number(text: str) -> int | None:
    """Return the number of a directory name like "step_12". Return None for any other text,
    including a number with leading zeros.
    """
    match = _STEP.fullmatch(text)
    return int(match[1]) if match else None


def checked(path: str) -> str:
    """Return `path` unchanged if it is a relative path without `..` or empty parts that B2 accepts
    as a name. Raises BadRequest otherwise.
    """
    if why := _unfit(path):
        raise BadRequest(f"{path[:80]!r} {why}. Rename that file, or use a shorter prefix.")
    return path


def _unfit(path: str) -> str:
    """Return why B2 takes no file of this name, or "" if it does."""
    if not {"", ".", ".."}.isdisjoint(path.split("/")):
        return "has a part that is empty or consists of dots"
    if _BAD_LETTER.search(path):
        return "has a character that no store takes, such as a backslash"
    if len(path.encode()) > NAME_MOST:
        return f"is longer than {NAME_MOST} bytes"
    return ""
