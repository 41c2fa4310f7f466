"""Programs whose matrix products are recorded and verified: small trainings and a decoding, as users write them.

    python tests/gpu/workloads.py                     all of them on the GPU, in full size
    python tests/gpu/workloads.py --emulate --small   in a tiny size on the CPU, with an H200's products
    python tests/gpu/workloads.py gpt-f16 decode      some of them

Each is a function of (device, steps, small): a number of steps, and whether in a tiny size. It returns its final
weights and outputs by name. Weights and data are drawn on the CPU from a fixed seed, so that two runs differ only where
the device's arithmetic does; nothing in them is known to add in an order that changes from run to run. ``on_step`` is
called after every step: of the optimizer, or a token of the decoding.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.nn.attention import SDPBackend, sdpa_kernel

Results = dict[str, torch.Tensor]
OnStep = Callable[[int], None]

SEED = 20260


def nothing(_step: int) -> None:
    """What is done after a step unless the caller says otherwise."""


@contextlib.contextmanager
def drawn(seed: int = SEED) -> Iterator[None]:
    """Random numbers of the CPU from a fixed seed; the caller's generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@contextlib.contextmanager
def tf32(allowed: bool) -> Iterator[None]:
    """Whether f32 products may be rounded to tf32, for as long as this lasts."""
    matmul = torch.backends.cuda.matmul
    before, matmul.allow_tf32 = matmul.allow_tf32, allowed
    try:
        yield
    finally:
        matmul.allow_tf32 = before


def state(model: nn.Module) -> Results:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


# ---- (a), (b), (c): a small GPT -------------------------------------------------------------------------------------


class GPTSize(NamedTuple):
    layers: int = 4
    width: int = 256
    heads: int = 4
    vocabulary: int = 5000
    batch: int = 8
    length: int = 128


TINY_GPT = GPTSize(layers=2, width=32, heads=2, vocabulary=72, batch=2, length=16)


class Cache(NamedTuple):
    """Keys and values of the tokens so far: batch x heads x length x width of a head."""

    keys: torch.Tensor
    values: torch.Tensor


class Attention(nn.Module):
    """Causal self-attention in plain products, so that they are recorded like all others."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, cache: Cache | None = None, at: int = 0) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if cache is not None:
            cache.keys[:, :, at : at + length], cache.values[:, :, at : at + length] = k, v
            k, v = cache.keys[:, :, : at + length], cache.values[:, :, : at + length]
        scores = q @ k.mT * q.shape[-1] ** -0.5
        past = torch.ones(length, k.shape[-2], dtype=torch.bool, device=x.device).tril(k.shape[-2] - length)
        weights = scores.masked_fill(~past, float("-inf")).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, cache: Cache | None = None, at: int = 0) -> torch.Tensor:
        x = x + self.attention(self.norm1(x), cache, at)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, size: GPTSize) -> None:
        super().__init__()
        self.size = size
        self.tokens = nn.Embedding(size.vocabulary, size.width)
        self.places = nn.Embedding(size.length, size.width)
        self.blocks = nn.ModuleList(Block(size.width, size.heads) for _ in range(size.layers))
        self.norm = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, size.vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor, caches: list[Cache] | None = None, at: int = 0) -> torch.Tensor:
        places = torch.arange(at, at + tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.places(places)
        for i, block in enumerate(self.blocks):
            x = block(x, None if caches is None else caches[i], at)
        return self.head(self.norm(x))


class GPTTraining:
    """Next-token training with AdamW, step by step; under autocast where a dtype is given, with loss scaling if asked.

    Data is drawn for so many ``batches``, and taken in turn.
    """

    def __init__(
        self, device: str, batches: int, small: bool, dtype: torch.dtype | None, scaling: bool = False
    ) -> None:
        size = TINY_GPT if small else GPTSize()
        with drawn():
            model = GPT(size)
            self.data = torch.randint(size.vocabulary, (batches, size.batch, size.length + 1)).to(device)
        self.device, self.dtype, self.steps = device, dtype, 0
        self.model: nn.Module = model.to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4)
        self.scaler = torch.amp.GradScaler(device, enabled=scaling, init_scale=2.0**12)
        self.logits = self.loss = torch.empty(0)

    def step(self) -> None:
        batch = self.data[self.steps % len(self.data)]
        with torch.autocast(self.device, dtype=self.dtype or torch.bfloat16, enabled=self.dtype is not None):
            self.logits = self.model(batch[:, :-1])
            self.loss = F.cross_entropy(self.logits.float().flatten(0, 1), batch[:, 1:].flatten())
        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(self.loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.steps += 1

    def results(self) -> Results:
        return state(self.model) | {"logits": self.logits.detach(), "loss": self.loss.detach()}


def train_gpt(
    device: str, steps: int, small: bool, on_step: OnStep, dtype: torch.dtype | None, scaling: bool = False
) -> Results:
    training = GPTTraining(device, steps, small, dtype, scaling)
    for step in range(steps):
        training.step()
        on_step(step)
    return training.results()


def gpt_bf16(device: str = "cuda", steps: int = 20, small: bool = False, on_step: OnStep = nothing) -> Results:
    """(a) A small GPT trained under bf16 autocast."""
    return train_gpt(device, steps, small, on_step, torch.bfloat16)


def gpt_f16(device: str = "cuda", steps: int = 20, small: bool = False, on_step: OnStep = nothing) -> Results:
    """(b) The same under f16 autocast with loss scaling."""
    return train_gpt(device, steps, small, on_step, torch.float16, scaling=True)


def gpt_tf32(device: str = "cuda", steps: int = 20, small: bool = False, on_step: OnStep = nothing) -> Results:
    """(b) The same in f32, with products in tf32."""
    with tf32(True):
        return train_gpt(device, steps, small, on_step, None)


def decode(device: str = "cuda", steps: int = 64, small: bool = False, on_step: OnStep = nothing) -> Results:
    """(c) Greedy decoding of ``steps`` tokens after a prompt, with a cache of keys and values: batch 1, 4 and 7."""
    size = TINY_GPT if small else GPTSize()
    prompt = 5
    with drawn():
        model = GPT(size._replace(length=prompt + steps))
        starts = torch.randint(size.vocabulary, (7, prompt)).to(device)
    model = model.to(device, torch.bfloat16).eval()
    results: Results = {}
    done = 0
    with torch.inference_mode():
        for batch in (1, 4, 7):
            shape = (batch, size.heads, prompt + steps, size.width // size.heads)
            caches = [
                Cache(*(torch.zeros(shape, dtype=torch.bfloat16, device=device) for _ in range(2)))
                for _ in range(size.layers)
            ]
            tokens, at = starts[:batch], 0
            logits = torch.empty(0)
            for _ in range(steps):
                logits = model(tokens[:, at:], caches, at)[:, -1]
                at = tokens.shape[1]
                tokens = torch.cat([tokens, logits.argmax(-1, keepdim=True)], 1)
                on_step(done)
                done += 1
            results |= {f"tokens-{batch}": tokens, f"logits-{batch}": logits}
    return {name: value.clone() for name, value in results.items()}


# ---- (d): f8 --------------------------------------------------------------------------------------------------------


def quantized(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """x in f8 and the f32 scale to multiply it by."""
    largest = torch.finfo(dtype).max
    scale = (x.detach().abs().amax().float() / largest).clamp(min=2.0**-60)
    return (x.detach().float() / scale).clamp(-largest, largest).to(dtype), scale


def product8(a: torch.Tensor, b: torch.Tensor, a_scale: Any, b_scale: Any, fast: bool) -> torch.Tensor:
    """a @ b.T in bf16 of f8 operands with contiguous rows: the one layout that the GPU multiplies."""
    return torch._scaled_mm(a, b.t(), a_scale, b_scale, out_dtype=torch.bfloat16, use_fast_accum=fast)


class Linear8Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, fast: bool) -> torch.Tensor:
        x8, x_scale = quantized(x, torch.float8_e4m3fn)
        w8, w_scale = quantized(weight, torch.float8_e4m3fn)
        ctx.save_for_backward(x8, x_scale, w8, w_scale)
        ctx.fast = fast
        return product8(x8, w8, x_scale, w_scale, fast)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:  # type: ignore[override]
        x8, x_scale, w8, w_scale = ctx.saved_tensors
        g8, g_scale = quantized(grad, torch.float8_e5m2)
        x_grad = product8(g8, w8.t().contiguous(), g_scale, w_scale, not ctx.fast)
        w_grad = product8(g8.t().contiguous(), x8.t().contiguous(), g_scale, x_scale, not ctx.fast)
        return x_grad, w_grad.float(), None


class Linear8(nn.Module):
    """A layer without bias whose products are in f8; ``fast`` is use_fast_accum forward, and its opposite backward."""

    def __init__(self, inputs: int, outputs: int, fast: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) * inputs**-0.5)
        self.fast = fast

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = Linear8Function.apply(x, self.weight, self.fast)
        return result


def mlp_f8(device: str = "cuda", steps: int = 20, small: bool = False, on_step: OnStep = nothing) -> Results:
    """(d) An MLP in f8, forward and backward, in both accumulation modes."""
    batch, width, hidden = (32, 48, 64) if small else (512, 768, 3072)
    with drawn():
        model = nn.Sequential(Linear8(width, hidden, True), nn.GELU(), Linear8(hidden, width, False))
        x, target = (torch.randn(2, batch, width).bfloat16()).to(device)
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    y = torch.empty(0)
    for step in range(steps):
        y = model(x.requires_grad_())
        optimizer.zero_grad(set_to_none=True)
        F.mse_loss(y.float(), target.float()).backward()
        optimizer.step()
        on_step(step)
    return state(model) | {"outputs": y.detach()}


# ---- (e): odd sizes -------------------------------------------------------------------------------------------------


class ViTBlock(nn.Module):
    """Attention through torch's own function, held to its products by ``sdpa_kernel``."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        with sdpa_kernel(SDPBackend.MATH):
            mixed = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def vit(device: str = "cuda", steps: int = 10, small: bool = False, on_step: OnStep = nothing) -> Results:
    """(e) Vision transformer blocks, no size of which is a multiple of 8: bf16 autocast and f32 in turn."""
    batch, images, patch, width, heads, hidden, layers, classes = (
        (3, (21, 14), 7, 33, 3, 67, 1, 11) if small else (5, (133, 119), 7, 195, 5, 777, 4, 101)
    )
    height, across = images
    with drawn():
        embed = nn.Linear(3 * patch * patch, width)
        blocks = nn.Sequential(*(ViTBlock(width, heads, hidden) for _ in range(layers)))
        model = nn.Sequential(embed, blocks, nn.LayerNorm(width), nn.Linear(width, classes))
        pictures = torch.randn(steps, batch, 3, height, across).to(device)
        labels = torch.randint(classes, (steps, batch)).to(device)
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    results: Results = {}
    for step in range(steps):
        patches = F.unfold(pictures[step], patch, stride=patch).mT
        with torch.autocast(device, dtype=torch.bfloat16, enabled=step % 2 == 0):
            logits = model(patches).mean(1)
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(logits.float(), labels[step]).backward()
        optimizer.step()
        on_step(step)
        results[f"logits-{step % 2}"] = logits.detach()
    return state(model) | results


# ---- (f): a mixture of experts --------------------------------------------------------------------------------------


class Experts(nn.Module):
    """A layer of which each token takes its best expert, tokens sorted by expert and multiplied in groups."""

    def __init__(self, width: int, hidden: int, experts: int, grouped: bool) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, hidden) * width**-0.5)
        self.down = nn.Parameter(torch.randn(experts, hidden, width) * hidden**-0.5)
        self.grouped = grouped

    def multiply(self, x: torch.Tensor, weights: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        weights = weights.to(x.dtype)
        if self.grouped:
            return torch._grouped_mm(x, weights, offs=ends)
        parts = x.tensor_split(ends[:-1].cpu().long())
        return torch.cat([part @ weight for part, weight in zip(parts, weights)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        share, expert = self.router(x).float().softmax(-1).max(-1)
        order = expert.argsort(stable=True)
        ends = torch.bincount(expert, minlength=len(self.up)).cumsum(0).to(torch.int32)
        y = self.multiply(F.gelu(self.multiply(x[order], self.up, ends)), self.down, ends)
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order), device=x.device)
        return y[back] * share[:, None].to(y.dtype)


def mixture(
    device: str = "cuda", steps: int = 10, small: bool = False, on_step: OnStep = nothing, grouped: bool = True
) -> Results:
    """(f) A mixture of experts in bf16. Not ``grouped``: one product an expert, as older programs have it."""
    tokens, width, hidden, experts = (48, 32, 64, 4) if small else (2048, 512, 1024, 8)
    with drawn():
        model = Experts(width, hidden, experts, grouped)
        x, target = torch.randn(2, tokens, width).bfloat16().to(device)
    model = model.to(device, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    y = torch.empty(0)
    for step in range(steps):
        y = model(x)
        optimizer.zero_grad(set_to_none=True)
        F.mse_loss(y.float(), target.float()).backward()
        optimizer.step()
        on_step(step)
    return state(model) | {"outputs": y.detach()}


WORKLOADS: dict[str, Callable[..., Results]] = {
    "gpt-bf16": gpt_bf16,
    "gpt-f16": gpt_f16,
    "gpt-tf32": gpt_tf32,
    "decode": decode,
    "mlp-f8": mlp_f8,
    "vit": vit,
    "mixture": mixture,
}


def digest(results: Results) -> str:
    """One sha256 of all bits: equal where two runs ended in the same weights and outputs."""
    total = hashlib.sha256()
    for name in sorted(results):
        value = results[name].detach().cpu().contiguous()
        total.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        total.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(WORKLOADS)} (default: all)")
    parser.add_argument("--emulate", action="store_true", help="on the CPU, with an H200's products")
    parser.add_argument("--small", action="store_true", help="a tiny size")
    parser.add_argument("--steps", type=int, help="how many steps (default: each its own)")
    options = parser.parse_args()
    unknown = set(options.names) - set(WORKLOADS)
    if unknown:
        parser.error(f"no workload is called {', '.join(sorted(unknown))}")
    if not options.emulate and not torch.cuda.is_available():
        parser.error("torch sees no CUDA device here: --emulate runs the products on the CPU")
    chosen: dict[str, Any] = {} if options.steps is None else {"steps": options.steps}
    for name in options.names or WORKLOADS:
        start, about = time.perf_counter(), ""
        if options.emulate:
            import hawkeye

            with hawkeye.emulate() as run:
                results = WORKLOADS[name]("cpu", small=options.small, **chosen)
            about = f"; {run}"
        else:
            results = WORKLOADS[name]("cuda", small=options.small, **chosen)
        print(f"{name}: {digest(results)[:16]}, {time.perf_counter() - start:.1f} s{about}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
