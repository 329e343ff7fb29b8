# Every target sets itself up: the first one on a fresh machine makes .venv and installs into it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
DEMO := demo-output

.PHONY: help demo test lint bench clean

help:  ## Show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

# torch goes first and alone, so that nothing else pulls in another build of it.
$(VENV)/installed: setup.cfg pyproject.toml constraints.txt
	@echo "Installing into $(VENV); the first time takes a few minutes ..." >&2
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(PIP) -e '.[dev]'
	@touch $@

demo: $(VENV)/installed  ## Curate the packaged sample and show what was chosen
	@HF_HUB_OFFLINE=1 $(BIN)/rpd curate sample --num-problems 8 --num-solutions 3 \
	    --output $(DEMO) --overwrite

test: $(VENV)/installed  ## Run all tests
	HF_HUB_OFFLINE=1 HF_HUB_DISABLE_TELEMETRY=1 TOKENIZERS_PARALLELISM=false OMP_NUM_THREADS=1 \
	    $(BIN)/python -m pytest $(TESTS)

lint: $(VENV)/installed  ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/installed  ## Print the benchmark tables that the README quotes
	$(BIN)/python benchmarks/distance.py

clean:  ## Remove the environment and everything made here
	rm -rf $(VENV) $(DEMO) $(DEMO).partial build *.egg-info .pytest_cache .mypy_cache .ruff_cache
