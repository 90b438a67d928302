"""The whole product against the ways in which pods, links, consoles and agents die. Real processes
and real SSH throughout.
"""

from __future__ import annotations

from pathlib import Path


def writer_text(rate: int, count: int) -> str:
    """The program that floods a log, to be put on a pod."""
    text = Path(__file__).with_name("writer.py").read_text()
    wanted = "RATE, COUNT = 5000, 200_000"
    assert wanted in text
    return text.replace(wanted, f"RATE, COUNT = {rate}, {count}")
