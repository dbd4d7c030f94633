"""The embedded llama.cpp server: one process for one tier, started by the supervisor, ended by SIGTERM.

It imports `xllamacpp` and nothing of ours, so that it is up as soon as the model is. The server runs on threads of its
own; this one only waits for the signal.

    TIERWISE_ENGINE_KEY=… python -m serving.engines.llamacpp_server --model full.gguf --alias full --port 9000 …
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import Any

KEY_VARIABLE = "TIERWISE_ENGINE_KEY"
STOPPING = {signal.SIGTERM, signal.SIGINT}


def main(argv: list[str]) -> int:
    """Serve until a signal comes; 1 where the model cannot be loaded or the port is taken."""
    args = _parser().parse_args(argv)
    # Blocked before any thread exists: every thread inherits it, and the signal waits for sigwait below.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    import xllamacpp

    try:
        server = xllamacpp.Server(_params(xllamacpp, args))
    except RuntimeError as error:
        # llama.cpp has said on stderr what is wrong; this only says that there is no going on.
        sys.stderr.write(f"llama.cpp did not start: {error}\n")
        return 1
    sys.stderr.write(f"listening on {server.listening_address}\n")
    signal.sigwait(STOPPING)
    # ~Server waits for a loop that needs the interpreter's lock, which ~Server holds: it never returns. There is no
    # state to save, so the process just ends.
    sys.stderr.flush()
    os._exit(0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="llamacpp_server", description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--alias", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--threads-alone", type=int, required=True)
    parser.add_argument("--slots", type=int, required=True)
    parser.add_argument("--context-tokens", type=int, required=True)
    parser.add_argument("--prompt-cache-mib", type=int, required=True)
    parser.add_argument("--temperature", type=float, required=True)
    parser.add_argument("--top-p", type=float, required=True)
    parser.add_argument("--top-k", type=int, required=True)
    parser.add_argument("--min-p", type=float, required=True)
    parser.add_argument("--chat-template", type=Path)
    parser.add_argument("--embeddings", action="store_true")
    parser.add_argument("--pooling", choices=("mean", "cls", "last"))
    parser.add_argument("--draft", choices=("ngram", "model", "head"))
    parser.add_argument("--draft-max-tokens", type=int)
    parser.add_argument("--draft-match-tokens", type=int)
    parser.add_argument("--draft-model", type=Path)
    parser.add_argument("--draft-min-probability", type=float)
    # What is absent is as llama.cpp has it.
    parser.add_argument("--batch-tokens", type=int)
    parser.add_argument("--ubatch-tokens", type=int)
    parser.add_argument("--flash-attention", choices=("auto", "on", "off"))
    parser.add_argument("--kv-cache-type", choices=("f16", "q8_0"))
    parser.add_argument("--no-repack", action="store_true")
    parser.add_argument("--load", choices=("mmap", "copy", "mlock"))
    return parser


def _params(xllamacpp: Any, args: argparse.Namespace) -> Any:
    params = xllamacpp.CommonParams()
    params.model.path = str(args.model)
    params.model_alias = {args.alias}
    params.hostnames = ["127.0.0.1"]
    params.port = args.port
    params.api_keys = [os.environ.pop(KEY_VARIABLE)]
    params.cors_origins = "localhost"
    params.ui = False
    params.endpoint_metrics = True
    params.cpuparams.n_threads = args.threads_alone
    params.cpuparams_batch.n_threads = args.threads
    params.n_parallel = args.slots
    params.n_ctx = args.slots * args.context_tokens
    params.kv_unified = True
    params.kv_unified_per_slot = args.context_tokens
    params.cache_ram_mib = args.prompt_cache_mib
    # Fitting probes devices for seconds; the plan has measured already.
    params.fit_params = False
    params.use_jinja = True
    if args.chat_template is not None:
        params.chat_template = args.chat_template.read_text()
    params.sampling.temp = args.temperature
    params.sampling.top_p = args.top_p
    params.sampling.top_k = args.top_k
    params.sampling.min_p = args.min_p
    params.embedding = args.embeddings
    if args.embeddings:  # an input is embedded in one batch
        params.n_batch = params.n_ubatch = args.context_tokens
    if args.pooling is not None:
        params.pooling_type = xllamacpp.llama_pooling_type[f"LLAMA_POOLING_TYPE_{args.pooling.upper()}"]
    _set_draft(xllamacpp, params.speculative, args)
    _set_compute(xllamacpp, params, args)
    return params


def _set_draft(xllamacpp: Any, speculative: Any, args: argparse.Namespace) -> None:
    """What proposes tokens, where anything does."""
    types = xllamacpp.common_speculative_type
    if args.draft == "ngram":
        speculative.types = [types.COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE]
        speculative.ngram_simple.size_n = args.draft_match_tokens
        speculative.ngram_simple.size_m = args.draft_max_tokens
    elif args.draft is not None:
        simple, eagle3 = (
            types.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE,
            types.COMMON_SPECULATIVE_TYPE_DRAFT_EAGLE3,
        )
        speculative.types = [eagle3 if args.draft == "head" else simple]
        speculative.draft.mparams.path = str(args.draft_model)
        speculative.draft.n_max = args.draft_max_tokens
        speculative.draft.p_min = args.draft_min_probability
        speculative.draft.cpuparams.n_threads = args.threads_alone
        speculative.draft.cpuparams_batch.n_threads = args.threads


def _set_compute(xllamacpp: Any, params: Any, args: argparse.Namespace) -> None:
    """What changes how the same answers are computed."""
    if args.batch_tokens is not None:
        params.n_batch = args.batch_tokens
    if args.ubatch_tokens is not None:
        params.n_ubatch = args.ubatch_tokens
    if args.flash_attention is not None:
        name = {"auto": "AUTO", "on": "ENABLED", "off": "DISABLED"}[args.flash_attention]
        params.flash_attn_type = xllamacpp.llama_flash_attn_type[f"LLAMA_FLASH_ATTN_TYPE_{name}"]
    if args.kv_cache_type is not None:
        kind = xllamacpp.ggml_type[f"GGML_TYPE_{args.kv_cache_type.upper()}"]
        params.cache_type_k = params.cache_type_v = kind
    if args.load is not None:
        name = {"mmap": "MMAP", "copy": "NONE", "mlock": "MLOCK"}[args.load]
        params.load_mode = xllamacpp.llama_load_mode[f"LLAMA_LOAD_MODE_{name}"]
    params.no_extra_bufts = args.no_repack


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
