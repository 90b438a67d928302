"""Writes a model of some hundred thousand random weights: `PYTHON tiny_model.py DIRECTORY`, with
the Python that vLLM is installed for.

Made here, because nothing may be downloaded. A head of 64 numbers and no smaller: with 32 a worker
of vLLM 0.32 on CPU died at the first request.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

_END = "<end>"


def main(directory: Path) -> None:
    vocabulary = {
        letter: number
        for number, letter in enumerate([*sorted(pre_tokenizers.ByteLevel.alphabet()), _END])
    }
    letters = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    letters.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    letters.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(
        tokenizer_object=letters, eos_token=_END, pad_token=_END
    ).save_pretrained(directory)
    torch.manual_seed(0)
    shape = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=8192,
        eos_token_id=vocabulary[_END],
    )
    LlamaForCausalLM(shape).save_pretrained(directory)


main(Path(sys.argv[1]))
