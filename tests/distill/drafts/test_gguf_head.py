"""A head's GGUF has its weights, in the order and under the names that llama.cpp reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader
from gguf.quants import dequantize

from distill.drafts.gguf_head import MatrixType, save_gguf_head
from distill.drafts.head import DraftHead, new_head
from distill.drafts.vocabulary import DraftVocabulary
from serving.engines.gguf_header import vocabulary_sha256
from tests.train.checkpoints.test_gguf_round_trip import write_checkpoint
from tests.train.model.tiny import tiny_shape
from train.checkpoints.gguf_names import from_gguf_order
from train.checkpoints.to_gguf import convert_to_gguf
from train.model.weights import load_llama


@pytest.fixture
def head(tmp_path: Path) -> DraftHead:
    shape = tiny_shape(vocab_size=80, num_layers=7, hidden_size=32, head_size=8, intermediate_size=40)
    write_checkpoint(tmp_path / "target", shape)
    vocabulary = DraftVocabulary((3, 5, 11, 70), 80)
    return new_head(load_llama(tmp_path / "target"), vocabulary, (2, 3, 5), seed=0)


@pytest.mark.parametrize(("kind", "off"), [("F32", 0.0), ("F16", 1e-3), ("Q8_0", 1e-2)])
def test_what_is_in_it(head: DraftHead, tmp_path: Path, kind: MatrixType, off: float) -> None:
    """Weights to their type's precision, draft ids as the target's, places, and the target's own vocabulary."""
    save_gguf_head(head, tmp_path / "head.gguf", tmp_path / "target", matrices=kind)
    convert_to_gguf(tmp_path / "target", tmp_path / "target.gguf")
    file = GGUFReader(tmp_path / "head.gguf")
    found = {
        each.name: dequantize(each.data, each.tensor_type) for each in file.tensors if each.name != "d2t"
    }
    queries = head.get_parameter("layers.0.self_attn.q_proj.weight").detach().numpy()
    np.testing.assert_allclose(
        from_gguf_order(found["blk.0.attn_q.weight"], head.shape.num_heads), queries, atol=off
    )
    for theirs, ours in (("fc", "fc"), ("output", "lm_head"), ("blk.0.attn_norm_2", "layers.0.hidden_norm")):
        weight = head.get_parameter(f"{ours}.weight").detach().numpy()
        np.testing.assert_allclose(found[f"{theirs}.weight"], weight, atol=off)
    (ids,) = (each for each in file.tensors if each.name == "d2t")
    assert (ids.tensor_type, ids.data.tolist()) == (GGMLQuantizationType.I64, [3, 5, 11, 70])
    assert file.fields["eagle3.target_layers"].contents() == [2, 3, 5]
    assert file.fields["eagle3.target_hidden_size"].contents() == 32
    assert vocabulary_sha256(tmp_path / "head.gguf") == vocabulary_sha256(tmp_path / "target.gguf")
    down = next(each for each in file.tensors if each.name == "blk.0.ffn_down.weight")
    assert down.tensor_type.name == ("F16" if kind == "Q8_0" else kind), "rows of 40 are no whole blocks"


def test_nothing_is_left_of_one_that_failed(head: DraftHead, tmp_path: Path) -> None:
    """No tokenizer, no file."""
    (tmp_path / "target" / "tokenizer.json").unlink()
    with pytest.raises(Exception, match=r"tokenizer\.json"):
        save_gguf_head(head, tmp_path / "head.gguf", tmp_path / "target")
    assert [each.name for each in tmp_path.iterdir()] == ["target"]
