"""Merges a LoRA adapter into the model on which it was trained. The training environment's own
interpreter runs this file as a script:

    python merge_adapter.py --base DIR --adapter DIR --target DIR

It needs transformers and peft, and no GPU. The base is given as a directory, because the model that
the adapter's own config names may have moved or may have another size.
"""

from __future__ import annotations

import argparse
import importlib
import sys


def main() -> int:
    """Merge a LoRA adapter into its base model, save the resulting model and the tokenizer to a
    target directory, and return the exit code 0. The paths of all three are in the command line of
    this process, as `--base`, `--adapter` and `--target`.
    """
    parser = argparse.ArgumentParser()
    for name in ("base", "adapter", "target"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args()
    sys.path[:] = sys.path[1:]  # removes our directory: its modules must not hide the environment's
    transformers, peft = importlib.import_module("transformers"), importlib.import_module("peft")
    _say(f"Loading the base from {options.base}")
    model = transformers.AutoModelForCausalLM.from_pretrained(options.base, torch_dtype="auto")
    _say(f"Loading the adapter from {options.adapter}")
    model = peft.PeftModel.from_pretrained(model, options.adapter).merge_and_unload()
    _say(f"Saving the model to {options.target}")
    model.save_pretrained(options.target)
    transformers.AutoTokenizer.from_pretrained(options.base).save_pretrained(options.target)
    return 0


def _say(text: str) -> None:
    """Write a line of progress."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
