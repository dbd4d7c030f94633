"""Checkpoints as files: a directory of safetensors, configuration and tokenizer, to GGUF and back."""
