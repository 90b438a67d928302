"""One name for each GPU over all providers, made from the providers' own names: `H100-SXM`,
`A100-80-PCIe`, `RTX-4090`.
"""

from __future__ import annotations

import re

#: Searched in this order, because a name may contain a shorter one (GH200, H200; L40S, L40, L4).
_MODELS = (
    "B300",
    "B200",
    "GB300",
    "GB200",
    "GH200",
    "H200",
    "H100",
    "H20",
    "A100",
    "A800",
    "L40S",
    "L40",
    "L4",
    "V100",
    "A40",
    "A30",
    "A16",
    "A10",
    "T4",
    "MI300X",
    "RTX-PRO-6000",
    "RTX-6000-ADA",
    "RTX-A6000",
    "RTX-A5000",
    "RTX-A4000",
    "RTX-5090",
    "RTX-4090",
    "RTX-3090",
)
_SPELLED = {
    "RTX-PRO-6000": r"PRO[-_ ]?6000",
    "RTX-6000-ADA": r"6000[-_ ]?ADA|RTX[-_ ]?6000(?![-_ ]?PRO)",
    "RTX-A6000": r"A6000",
    "RTX-A5000": r"A5000",
    "RTX-A4000": r"A4000",
    "RTX-5090": r"5090",
    "RTX-4090": r"4090(?!D|[-_ ]D)",
    "RTX-3090": r"3090",
}


def canonical(text: str, *, memory_gb: float | None = None, socket: str | None = None) -> str:
    """Return this console's own name for the GPU that a provider calls `text`, such as "H100-SXM".
    A GPU that is not known is returned in capitals with `-` between its words, so that it can still
    be searched for.

    `memory_gb` is the memory of one GPU in GB, which distinguishes A100-40 and A100-80. `socket` is
    the provider's separate field for SXM or PCIe, or None.
    """
    upper = f"{text} {socket or ''}".upper()
    for model in _MODELS:
        pattern = _SPELLED.get(
            model, rf"(?<![A-Z0-9]){model}(?![0-9A-RT-Z])" if model[-1].isdigit() else model
        )
        if re.search(pattern, upper) or (
            model not in _SPELLED and re.search(rf"(?<![A-Z])\d*{model}(?![0-9A-Z])", upper)
        ):
            return model + _memory(model, upper, memory_gb) + _form(model, upper)
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-").upper()


def fits(wanted: str, name: str) -> bool:
    """Return True if the GPU `name`, as `canonical` returns it, is what a person wants. The wanted
    name may be written as people write it ("4090", "h100 sxm5", "RTX4090", "A100 80GB"), and it may
    leave out the form: "H100" accepts "H100-SXM".
    """
    for asked in (re.sub(r"[_ ]", "-", wanted.upper()), canonical(wanted).upper()):
        if name.upper() == asked or name.upper().startswith(f"{asked}-"):
            return True
    return False


def known(wanted: str) -> bool:
    """Return True if `wanted`, a person's word for a GPU such as "h100", names a GPU that this
    console knows.
    """
    name = canonical(wanted)
    return any(name == model or name.startswith(f"{model}-") for model in _MODELS)


def names() -> tuple[str, ...]:
    """Return the names of all GPUs that are known here, without the form (SXM, PCIe, NVL), such as
    "H100".
    """
    return _MODELS


def _memory(model: str, upper: str, memory_gb: float | None) -> str:
    if model != "A100":
        return ""
    if memory_gb:
        return "-80" if memory_gb > 60 else "-40"
    for size in ("80", "40"):
        if re.search(rf"{size} ?GB?|A100[-_ ]{size}\b", upper):
            return f"-{size}"
    return ""


def _form(model: str, upper: str) -> str:
    if model not in ("H100", "A100", "H200", "V100"):
        return ""
    if "SXM" in upper or ("HBM3" in upper and model == "H100"):
        return "-SXM"
    if "NVL" in upper:
        return "-NVL"
    if re.search(r"PCI", upper):
        return "-PCIe"
    return ""
