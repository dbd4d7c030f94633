"""Our Llama says what transformers' says."""

from __future__ import annotations

import pytest
import torch
from transformers.models.llama import modeling_llama

from tests.train.model.tiny import reference_llama, tiny_llama, tiny_shape
from train.model.llama import Llama
from train.model.rope import RopeScaling
from train.model.shape import LlamaShape
from train.model.tree import grow
from train.model.tree_attention import TreeAttention

torch.set_num_threads(1)

LINEAR = RopeScaling(kind="linear", factor=4.0)
LLAMA3 = RopeScaling(kind="llama3", factor=8.0, original_max_positions=64)
YARN = RopeScaling(kind="yarn", factor=8.0, original_max_positions=256)


def logits_of(model: Llama, token_ids: torch.Tensor) -> torch.Tensor:
    tree = grow([token_ids.tolist()])
    attend = TreeAttention(tree, model.lm_head.weight.dtype)
    return model.logits(model(token_ids, torch.arange(len(token_ids)), attend))


def in_double(self: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)


@pytest.mark.parametrize(
    "shape",
    [
        tiny_shape(),
        tiny_shape(is_tied=False, num_kv_heads=1),
        tiny_shape(head_size=10),
        tiny_shape(rope_scaling=LINEAR),
        tiny_shape(head_size=16, rope_scaling=LLAMA3),
        tiny_shape(head_size=16, rope_scaling=YARN),
    ],
    ids=["tied", "one key head", "wide heads", "linear", "llama3", "yarn"],
)
def test_logits_and_gradients_equal_transformers(shape: LlamaShape, monkeypatch: pytest.MonkeyPatch) -> None:
    """In double precision throughout, both agree to rounding: transformers' norms, single by design, are widened."""
    monkeypatch.setattr(modeling_llama.LlamaRMSNorm, "forward", in_double)
    model = tiny_llama(shape)
    reference = reference_llama(model)
    token_ids = torch.randint(shape.vocab_size, (17,), generator=torch.Generator().manual_seed(1))
    ours, theirs = logits_of(model, token_ids), reference(token_ids[None]).logits[0]
    assert ours.std() > 0.3
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    for logits in (ours, theirs):
        logits.log_softmax(-1)[:-1].gather(-1, token_ids[1:, None]).sum().backward()
    for name, weight in reference.named_parameters():
        torch.testing.assert_close(model.get_parameter(name).grad, weight.grad, rtol=0, atol=1e-11)


def test_logits_equal_transformers_as_it_is() -> None:
    """Unchanged, with its single-precision norms, transformers agrees to single precision."""
    model = tiny_llama(dtype=torch.float32)
    token_ids = torch.arange(17)
    with torch.no_grad():
        torch.testing.assert_close(
            logits_of(model, token_ids), reference_llama(model)(token_ids[None]).logits[0], rtol=0, atol=1e-5
        )
