# Targets explain themselves: `make help`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
FUZZ_SECONDS ?= 0

.DEFAULT_GOAL := help
.PHONY: help demo test setup lint format bench fuzz clean

help:  ## list the targets
	@awk -F':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
	  || { echo "ttmem needs Python 3.10 or newer; set PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "python3 lacks venv; on Debian and Ubuntu: apt install python3-venv"; exit 1; }

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.installed
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(VENV)/.installed  ## set up, then run the main job: a server, a workload, the picture
	@$(BIN)/ttmem demo

test: $(VENV)/.dev  ## set up, then run every test
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

setup: $(VENV)/.dev  ## make .venv with the development tools

lint: $(VENV)/.dev  ## ruff and mypy --strict
	@$(BIN)/ruff check src tests benchmarks
	@$(BIN)/ruff format --check src tests benchmarks
	@$(BIN)/mypy --strict

format: $(VENV)/.dev  ## let ruff rewrite what it can
	@$(BIN)/ruff check --fix --quiet src tests benchmarks || true
	@$(BIN)/ruff format --quiet src tests benchmarks

bench: $(VENV)/.dev  ## measure beside the yardsticks; missed budgets are printed as missed
	@$(BIN)/python -m benchmarks

fuzz: $(VENV)/.dev  ## fuzz the decoders until stopped (FUZZ_SECONDS=60 for a limit)
	@$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS)

clean:  ## remove everything that was built
	rm -rf $(VENV) .cache build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
