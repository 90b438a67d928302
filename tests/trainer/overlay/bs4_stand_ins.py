"""What stands in a trainer's environment for a GPU and for what needs one. Imported when the
interpreter starts, by a line of a .pth file.

Where the trainer imports a package that is absent, it gets a hollow one: everything can be imported
from it, and nothing in it works. The trainer's own kernels are hollow too. In its modules the
device "cuda" reads "cpu", and torch.cuda answers as an idle GPU would. The module that would start
vLLM is ours.
"""

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types

#: Needed at import and for nothing that runs here; where they are installed, they are used.
ABSENT = [
    "deep_ep",
    "deep_gemm",
    "dion",
    "fla",
    "grpc",
    "liger_kernel",
    "mamba_ssm",
    "modelexpress",
    "nixl",
    "prime",
    "prime_cli",
    "prime_evals",
    "ring_flash_attn",
    "torchao",
    "torchtitan",
    "vllm",
    "wandb_gql",
    "wandb_workspaces",
]
OURS = {"prime_rl.inference.vllm.server": "bs4_engine"}
HOLLOW = "bs4_hollow"
_TRAINER = "prime_rl"
_ON_GPU = ("prime_rl.trainer", "prime_rl.transports")
_KERNELS = "prime_rl.trainer.models.kernels"


class Anything(type):
    """A class that has every attribute."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return


class Hollow(types.ModuleType):
    """Has every name that is asked of it: a class that does nothing."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = Anything(name, (), {"__module__": self.__name__, "__init__": lambda *_, **__: None})
        setattr(self, name, made)
        return made


class HollowLoader(importlib.abc.Loader):
    def create_module(self, spec):
        return Hollow(spec.name)

    def exec_module(self, module):
        if module.__name__ == f"{HOLLOW}.torchtitan.distributed.utils":
            module.clip_grad_norm_ = clipped


class OnCpu(importlib.machinery.SourceFileLoader):
    """Takes hollow packages for absent ones, and "cpu" for "cuda"."""

    def source_to_code(self, data, path, *, _optimize=-1):
        tree = ast.parse(data, path)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level == 0 and absent(node.module):
                node.module = f"{HOLLOW}.{node.module}"
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    if absent(alias.name) and (alias.asname or "." not in alias.name):
                        alias.asname = alias.asname or alias.name
                        alias.name = f"{HOLLOW}.{alias.name}"
            elif isinstance(node, ast.Constant) and node.value == "cuda":
                node.value = "cpu" if self.name.startswith(_ON_GPU) else "cuda"
        return compile(tree, path, "exec", optimize=_optimize, dont_inherit=True)

    def exec_module(self, module):
        super().exec_module(module)
        if module.__name__ == "prime_rl.trainer.perf":
            # What a step costs is divided by this, and nothing is what a CPU is said to have.
            module.PerfCounter.gpu_peak_flops = property(lambda _: 312e12, lambda *_: None)


def absent(module):
    top = module.split(".")[0]
    return top in ABSENT and importlib.util.find_spec(top) is None


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top = name.split(".")[0]
        if top == HOLLOW or name.startswith(_KERNELS):
            return importlib.machinery.ModuleSpec(name, HollowLoader(), is_package=True)
        if top != _TRAINER:
            return None
        if name in OURS:
            ours = importlib.util.find_spec(OURS[name])
            return importlib.util.spec_from_file_location(name, ours.origin)
        if name == _ON_GPU[0]:
            idle_gpu()
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = OnCpu(spec.loader.name, spec.loader.path)
        return spec


def clipped(parameters, max_norm, *_, **__):
    import torch

    parameters = list(parameters)
    total = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
    total = total.full_tensor() if hasattr(total, "full_tensor") else total
    torch.nn.utils.clip_grads_with_norm_(parameters, max_norm, total)
    return total


def idle_gpu():
    import torch
    import torch._dynamo  # looks at what is in torch.cuda
    import torch.distributed as dist
    from transformers import AutoConfig

    init, read = dist.init_process_group, AutoConfig.from_pretrained

    def over_gloo(backend=None, *rest, device_id=None, **more):
        return init("gloo", *rest, **more)

    def with_plain_attention(*words, attn_implementation=None, **more):
        return read(*words, attn_implementation=attn_implementation and "sdpa", **more)

    dist.init_process_group, AutoConfig.from_pretrained = over_gloo, with_plain_attention
    done = ("set_device", "synchronize", "empty_cache", "reset_peak_memory_stats")
    zero = ("max_memory_reserved", "max_memory_allocated", "memory_allocated", "current_device")
    answers = {
        **dict.fromkeys(done),
        **dict.fromkeys(zero, 0),
        "get_device_capability": (8, 0),
        "get_device_name": "CPU",
        "mem_get_info": (1 << 34, 1 << 34),
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, lambda *_, answer=answer, **__: answer)
    torch.Tensor.cuda = lambda self, *_, **__: self


os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")  # a C++ compiler would take minutes
# What is compiled here is not what the source says, and the checkout is only read.
sys.pycache_prefix = os.environ.get("BS4_COMPILED", os.path.join(sys.prefix, "compiled"))
sys.meta_path.insert(0, Finder())
