"""verl's own program that merges the ranks' files of a step into a Hugging Face directory: where it
is, and how it is called.

Since 0.5 it is a module, `python -m verl.model_merger merge --backend fsdp --local_dir ACTOR
--target_dir OUT`. Before, it is `scripts/model_merger.py` of a checkout, in three forms that its
  text
distinguishes: with the same words (0.4), with flags alone and a model path (0.3), and that of 0.2,
which knows only `--local_dir` and writes into `huggingface/` of the checkpoint itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bs4_common.files import read_regular
from bs4_common.trainers import verl_needs, verl_settings
from bs4_common.trainers.base import LaunchSpec

_MODULE = "verl.model_merger"
_SCRIPT = Path("scripts", "model_merger.py")
#: The release that brought the module.
_SINCE = (0, 5)
#: A larger script is not verl's.
_SCRIPT_BYTES = 1 << 20


@dataclass(frozen=True)
class Merger:
    """The program of one verl installation that merges the shards of a checkpoint into one model.

    `program` are the first words of its command, and `cwd` is the directory in which to run it.
    `form` says which words follow: "merge" and "flags" differ in their options, and a program of
    form "inside" can write only below the directory that it reads.
    """

    program: Sequence[str]
    cwd: Path
    form: str = "merge"

    def argv(self, source: Path, target: Path) -> list[str]:
        """Return the command that merges the shards in `source` into a model in `target`, as a list
        of words. `source` is the directory actor/ of a step, or under SFT the step's directory. A
        program whose `form` is "inside" takes no target and writes to `source/huggingface`.
        """
        if self.form == "inside":
            return [*self.program, "--local_dir", str(source)]
        words = ["--backend", "fsdp", "--local_dir", str(source), "--target_dir", str(target)]
        if self.form == "flags":
            return [*self.program, *words, "--hf_model_path", str(source / "huggingface")]
        return [*self.program, "merge", *words]


def find(spec: LaunchSpec) -> Merger | None:
    """Return the program with which the verl that this run uses merges shards. Return None if this
    verl is older than 0.5, which brought the program as a module, and its earlier script is not
    there either.
    """
    python = verl_needs.interpreter(spec, absolute=True)
    for place in (spec.cwd, spec.cwd / "verl", spec.cwd / "train" / "verl"):
        package = place / "verl" / "model_merger"
        if (package / "__main__.py").exists() or package.with_suffix(".py").exists():
            return Merger((python, "-m", _MODULE), place)
        if (form := _form(place / _SCRIPT)) is not None:
            return Merger((python, str(place / _SCRIPT)), place, form)
    known = verl_settings.version(spec.cwd)
    # The release of an image's own interpreter is not known, but every release of the last year has
    # the module.
    if known is None or known >= _SINCE:
        return Merger((python, "-m", _MODULE), spec.cwd)
    return None


def _form(script: Path) -> str | None:
    """Return the form of a merger script by its text, or None if it is not verl's."""
    try:
        if script.stat().st_size > _SCRIPT_BYTES:
            return None
        text = read_regular(script).decode(errors="replace")
    except OSError:
        return None
    if "add_subparsers" in text:
        return "merge"
    if "--target_dir" in text:
        return "flags"
    return "inside"
