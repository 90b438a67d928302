"""Checks a config with the trainer's own config classes. The training environment's own interpreter
runs this file as a script; `probe` starts it.

Only the classes are used and no other part of the trainer: `--dry-run` writes files, and with
`--clean` it deletes files (prime-rl of 2026-08-21). The script works in a directory of its own,
because 2026-01 leaves `.pydantic_config/` in its working directory. It must run on any Python from
3.8 on.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, cast

#: The most characters of one message, and the most errors that are reported.
_TEXT, _MOST = 400, 100


class PydanticError(TypedDict, total=False):
    """The keys that are read from an error of the library pydantic: where the wrong value is, the
    kind of the error, and a message. The values are not checked yet, so each may be of any type.
    """

    loc: Sequence[object]
    type: object
    msg: object


class ClassError(TypedDict):
    """An error that a trainer's config class reports about one value of a config."""

    loc: list[str | int]
    """The keys and indexes that lead to the value."""
    kind: str
    """The class's own word for the kind of error, for example "missing"."""
    message: str


_Class = TypedDict("_Class", {"class": str}, total=False)


class ClassesAnswer(_Class, total=False):
    """The verdict of a trainer's config class on a config. The key `class` has the name of the
    config class. If `errors` is empty, the class accepts the config.
    """

    errors: list[ClassError]
    warnings: list[str]
    unknown: str
    """Why there is no verdict. If there is one, this key is missing; else the others are."""


def probe(
    python: str,
    trainer: str,
    component: str,
    words: Sequence[str],
    timeout: float = 90.0,
    more: Mapping[str, str] | None = None,
) -> ClassesAnswer:
    """Check a trainer's command line with the config class of the trainer's program `component`,
    for example "rl", in the Python interpreter `python`, and return the class's name, the errors
    and the warnings. `trainer` is the trainer's id. `words` are the words after the program's name;
    every file among them must have an absolute path.

    If the class does not exist or does not answer within `timeout` seconds, the result has only the
    key `unknown`, which says why.

    `more` has environment variables besides the agent's own. Raises StepFailed if the interpreter
    cannot be started.
    """
    import subprocess
    import tempfile

    from bs4_agent.probes.asking import here
    from bs4_common.errors import StepFailed
    from bs4_common.trainers import registry

    known = registry.find(trainer)
    own = None if known is None else known.traits.classes
    if own is None or component not in own.classes:
        return {"unknown": f"{trainer} has no config class for {component} that is known here."}
    # Neither a GPU nor the network is used: what a class says about a config depends on neither.
    environment = {
        **(more or {}),
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    with tempfile.TemporaryDirectory(prefix="bs4-classes-") as aside:
        try:
            done = here(
                python,
                __file__,
                json.dumps(
                    {
                        "reader": own.reader,
                        "config_class": own.classes[component],
                        "takes_words": own.takes_words,
                        "component": component,
                        "words": list(words),
                    }
                ).encode(),
                timeout=timeout,
                more=environment,
                cwd=aside,
            )
        except subprocess.TimeoutExpired:
            return {"unknown": f"The trainer's own classes did not answer within {timeout:.0f} s."}
        except OSError as error:
            raise StepFailed(
                f"{python} cannot be run ({error.strerror}); make the training environment "
                "again with `uv sync`."
            ) from error
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        return {
            "unknown": f"The trainer's own classes gave no answer (exit code {done.returncode})."
        }
    if isinstance(answer, dict):
        return cast("ClassesAnswer", answer)
    return {"unknown": "The trainer's own classes gave no answer."}


def main() -> None:
    """Do the work of the process that `probe` starts: read from standard input, as JSON, which
    command line to check, check it, write the answer to standard output as JSON, and end the
    process.
    """
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # other output of the stack goes to standard error
    # This must run on any Python from 3.8 on.
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100
    sys.path[:] = [path for path in sys.path if path != here]
    out.write(json.dumps(_answer(**json.load(sys.stdin))))
    out.flush()
    os._exit(0)  # threads and exit handlers of a training stack may take their time


def _answer(
    reader: Sequence[str],
    config_class: Sequence[str],
    component: str,
    words: Sequence[str],
    takes_words: bool,
) -> ClassesAnswer:
    """Return the answer of the config class. The arguments are those of
    `trainers.base.ConfigClasses` for the component.
    """
    import importlib
    import warnings

    module, name = config_class
    try:
        read = getattr(importlib.import_module(reader[0]), reader[1])
        cls = getattr(importlib.import_module(module), name)
    except BaseException as error:  # noqa: BLE001 (a module may even call sys.exit)
        return {"unknown": f"{name} cannot be imported from {module}: {_line(error)}"[:_TEXT]}
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        errors = _errors(read, cls, component, words, takes_words)
    told = []
    for one in heard:
        if issubclass(one.category, UserWarning) and "prime_rl" in str(one.filename):
            told.append(str(one.message)[:_TEXT])
    # This must run on any Python from 3.8 on.
    name = "{}.{}".format(module, name)  # noqa: UP032
    return {"class": name, "errors": errors, "warnings": told[:_MOST]}


def _errors(
    read: Any, cls: Any, component: str, words: Sequence[str], takes_words: bool
) -> list[ClassError]:
    """Return the errors that the config class reports, an empty list if it accepts the config."""
    said = _Kept()
    stderr: Any = said
    sys.argv, sys.stderr, kept = [component, *words], stderr, sys.stderr
    try:
        if takes_words:
            read(cls, args=list(words))  # given its arguments, it raises instead of printing
        elif component == "inference":
            # as its entry point does: unknown options are passed on to vLLM
            read(cls, allow_extras=True)
        else:
            read(cls)
    except BaseException as error:  # noqa: BLE001
        # argparse ends the process; a module of a task set may raise anything.
        for one in (error, error.__cause__):
            if callable(entries := getattr(one, "errors", None)):
                return [_told(entry) for entry in entries()][:_MOST]
        if isinstance(error, SystemExit):
            text = said.last()
        else:
            text = _line(error)
        return [{"loc": [], "kind": type(error).__name__, "message": text[:_TEXT]}]
    finally:
        sys.stderr = kept
    return []


def _told(entry: PydanticError) -> ClassError:
    """Return one error without the value that caused it: a config may hold a secret."""
    return {
        "loc": [
            part if isinstance(part, (int, str)) else str(part) for part in entry.get("loc", ())
        ],
        "kind": str(entry.get("type", "")),
        "message": str(entry.get("msg", ""))[:_TEXT],
    }


def _line(error: BaseException) -> str:
    """Return the type of the error and the first line of its message."""
    lines = str(error).strip().splitlines()
    return "{}: {}".format(type(error).__name__, lines[0] if lines else "")


class _Kept:
    """Stands in for standard error while a command line is parsed, because argparse writes there
    what it does not understand.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []

    def write(self, text: str) -> int:
        """Keep `text` and return its length, as a text file does."""
        self._parts.append(text)
        return len(text)

    def flush(self) -> None:
        """Do nothing; argparse expects a file to have this method."""

    def isatty(self) -> bool:
        """Return False, because nobody reads this text on a terminal."""
        return False

    def last(self) -> str:
        """Return the last line that was written."""
        lines = "".join(self._parts).strip().splitlines()
        if lines:
            return lines[-1]
        return "the command line was refused without a word"


if __name__ == "__main__":
    main()
