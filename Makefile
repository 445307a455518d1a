# `make compare` and `make test` do everything from a fresh clone, the virtual environment included.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
STAMP := .venv/.installed

.PHONY: help setup compare test lint bench clean
help:
	@echo "make compare  run the comparison on the embedded model and write its report"
	@echo "make test     run all tests"
	@echo "make lint     ruff and mypy"
	@echo "make bench    timings (experiments/bench)"

setup: $(STAMP)

# torch first: what depends on it would otherwise bring a GPU build of several gigabytes
$(STAMP): pyproject.toml constraints.txt requirements/data.txt
	@echo "Setting up .venv (a few minutes the first time) ..."
	$(PYTHON) -m venv .venv
	$(PIP) --constraint constraints.txt torch
	$(PIP) --constraint constraints.txt --editable '.[experiments,dev]'
	$(PIP) --no-deps --require-hashes --requirement requirements/data.txt
	@touch $@

compare: $(STAMP)
	$(BIN)/python -m experiments.run --multirun +study=compare
	$(BIN)/python -m experiments.compare results/compare

test: $(STAMP)
	$(BIN)/python -m pytest

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python -m experiments.bench.step
	$(BIN)/python -m experiments.bench.evidence

clean:
	rm -rf .venv results/compare
