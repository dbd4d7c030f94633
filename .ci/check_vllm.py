"""Check that a virtual environment's vLLM imports and generates: `.venv-vllm/bin/python .ci/check_vllm.py`."""

from __future__ import annotations

import tempfile

from vllm import LLM, SamplingParams, __version__

MAX_TOKENS = 8


def main() -> None:
    """Generate from random weights, so that nothing is downloaded."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=128,
    )
    with tempfile.TemporaryDirectory() as directory:
        LlamaForCausalLM(config).save_pretrained(directory)
        engine = LLM(
            model=directory,
            skip_tokenizer_init=True,
            dtype="float32",
            enforce_eager=True,
            max_model_len=128,
            max_num_seqs=2,
        )
        sampling = SamplingParams(max_tokens=MAX_TOKENS, temperature=0, ignore_eos=True, detokenize=False)
        [answer] = engine.generate([{"prompt_token_ids": [5, 9, 13]}], sampling)
    tokens = list(answer.outputs[0].token_ids)
    assert len(tokens) == MAX_TOKENS, tokens
    print(f"vLLM {__version__} imports and generates")  # noqa: T201 - said to whoever ran make


if __name__ == "__main__":
    main()
