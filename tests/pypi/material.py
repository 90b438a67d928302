"""Writes what a run of verl's SFT needs: `PYTHON material.py DIRECTORY`, with the Python that verl
is installed for.

`model` is a Llama of some hundred thousand random weights with a tokenizer of letters, and
`train.parquet` and `val.parquet` are short conversations. One
of `bad.parquet` is longer than the run allows. Made here, because nothing may be
downloaded.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

_END = "<end>"
_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}<end>{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def main(root: Path) -> None:
    alphabet = [*sorted(pre_tokenizers.ByteLevel.alphabet()), _END]
    letters = Tokenizer(models.BPE(vocab={x: n for n, x in enumerate(alphabet)}, merges=[]))
    letters.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    letters.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=letters, eos_token=_END, pad_token=_END)
    tokenizer.chat_template = _TEMPLATE
    tokenizer.save_pretrained(root / "model")
    torch.manual_seed(0)
    shape = LlamaConfig(
        vocab_size=len(alphabet),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=512,
        eos_token_id=len(alphabet) - 1,
    )
    LlamaForCausalLM(shape).save_pretrained(root / "model")
    for name, count in (("train", 64), ("val", 8)):
        rows = [_conversation(number) for number in range(count)]
        pd.DataFrame({"messages": rows}).to_parquet(root / f"{name}.parquet")
    rows = [_conversation(number) for number in range(63)] + [_conversation(10**80)]
    pd.DataFrame({"messages": rows}).to_parquet(root / "bad.parquet")


def _conversation(number: int) -> list[dict[str, str]]:
    return [
        {"role": "user", "content": f"{number} + 1"},
        {"role": "assistant", "content": str(number + 1)},
    ]


main(Path(sys.argv[1]))
