"""A platform for verl on which the device is the CPU: registered through verl's own extension point
(`VERL_USE_EXTERNAL_MODULES=cpu_platform VERL_PLATFORM=cpu VERL_ENGINE_DEVICE=cuda`).

The counters of a GPU's memory answer 0, collectives go through gloo. Nothing of verl is changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
from verl.plugin.platform import PlatformBase, PlatformRegistry

_DEVICE = ModuleType("cpu_device")


def _nothing(*_: object, **__: object) -> int:
    return 0


for _name in (
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "empty_cache",
    "ipc_collect",
    "reset_peak_memory_stats",
    "set_device",
    "synchronize",
    "current_device",
    "device_count",
):
    setattr(_DEVICE, _name, _nothing)
_DEVICE.is_available = lambda: False
_DEVICE.mem_get_info = lambda *_: (0, 0)
_DEVICE.get_device_name = lambda *_: "cpu"
_DEVICE.get_rng_state = torch.get_rng_state
_DEVICE.set_rng_state = torch.set_rng_state


@PlatformRegistry.register(platform="cpu")
class CPU(PlatformBase):
    """The CPU as verl's accelerator."""

    device_name = "cpu"
    vendor_name = "none"
    device_module = _DEVICE

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        return True

    def current_device(self) -> torch.device:
        return torch.device("cpu")  # FSDP takes a number for that of a GPU

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None: ...

    def synchronize(self, device_index: int | None = None) -> None: ...

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def set_allocator_settings(self, settings: str) -> None: ...

    def empty_cache(self) -> None: ...

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None: ...

    def profiler_stop(self) -> None: ...

    def ray_resource_name(self) -> str:
        return "CPU"

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> Any:
        return None


def _init(backend: str, **words: Any) -> None:
    """verl asks for `cpu:gloo` and for the accelerator's, which torch refuses for one device."""
    assert backend == "cpu:gloo,cpu:gloo", backend
    _real_init(backend="gloo", **words)


_real_init = torch.distributed.init_process_group
torch.distributed.init_process_group = _init
