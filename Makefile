# The front door. Each target sets up what it needs and says what it did.
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
# The others in benchmarks/ write data files from real measurements and need CHASE_DATA.
BENCHMARKS = step_cost store footprint power_cap plan
# Processes that share the tests: half of what they do is to wait for real processes, so two are busy on two cores.
WORKERS ?= 2
SHELL   = /bin/bash

.PHONY: help demo test integrations fuzz lint bench gpu-check clean
help:
	@echo "make demo       the main job, offline, on simulated GPUs"
	@echo "make test       all tests"
	@echo "make integrations  the tests with Hugging Face's Trainer as well, 170 MB more"
	@echo "make fuzz       the property tests, with thousands of new examples each"
	@echo "make lint       ruff, mypy --strict, import contracts"
	@echo "make bench      every claim of the README, measured"
	@echo "make gpu-check  read-only checks on a machine with an NVIDIA GPU"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# Stamps: a changed pyproject.toml installs again, an unchanged one costs nothing.
$(VENV)/.core: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	@touch $@
$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/.core

demo: $(VENV)/.core
	$(BIN)/chase demo
test: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
integrations: $(VENV)/.dev
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[integrations]'
	$(BIN)/python -m pytest tests/integrations
fuzz: $(VENV)/.dev
	CHASE_HYPOTHESIS=fuzz $(BIN)/python -m pytest -m "not slow" --timeout 3600
lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
bench: $(VENV)/.dev
	set -e; for b in $(BENCHMARKS); do echo "== $$b"; $(BIN)/python benchmarks/$$b.py; done
gpu-check: $(VENV)/.core
	$(BIN)/python -m chase.gpu_check
clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis dist build
