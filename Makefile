# Every command a developer needs; `make help` lists them. Set-up is done by whatever needs it, once.
SHELL  := /bin/bash
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
JOBS   ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
# a process for each core, each with one thread: together they use the machine, and none waits for another
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS)
# the pins hold for what is installed, and for what builds it (pip before and after 25.3 asks for either)
PINS   := $(CURDIR)/constraints.txt
PIP    := PIP_CONSTRAINT=$(PINS) PIP_BUILD_CONSTRAINT=$(PINS) $(BIN)/python -m pip install --quiet --disable-pip-version-check
SENTENCE ?= The [MASK] [MASK] near the river.
DATA ?= ../shared/data
WORK ?= runs/english

export TOKENIZERS_PARALLELISM := false
export HF_HUB_DISABLE_TELEMETRY := 1

.DEFAULT_GOAL := help
.PHONY: help setup run test check lint types unit fuzz torture siege pins wheel format bench results docs serve model clean

help: ## list the commands
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 10

setup: $(READY) ## make the virtual environment (run and test do it by themselves)

# anew whenever what has to be installed changes
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("unmask needs Python 3.11 or newer: make PYTHON=python3.11 ...") if sys.version_info < (3, 11) else None'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (a few minutes the first time)"
	@$(PIP) -e '.[dev,docs]'
	@$(BIN)/unmask fill "$(SENTENCE)" >/dev/null  # compiles the solver's loops, which are then kept
	@touch $@

run: $(READY) ## fill the blanks of an example jointly, and show why the joint beats independent answers
	@$(BIN)/unmask explain "$(SENTENCE)"

test: lint types unit ## every check: lint, types, unit, property, documentation and command-line tests

check: lint types $(READY) ## lint, types and the fast tests, in under two minutes: before every commit
	@$(PYTEST) -m "not (browser or ray or training or docs or slow)"

lint: $(READY) ## ruff and import-linter: style, formatting, layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports >/dev/null || $(BIN)/lint-imports

types: $(READY) ## mypy, strict on src
	@$(BIN)/mypy

unit: $(READY) ## pytest: unit, property, documentation and command-line tests
	@$(PYTEST)

fuzz: $(READY) ## 50,000 odd calls of every public surface; resumes where it was
	@$(BIN)/python tests/fuzz/campaign.py

torture: $(READY) ## kill every kind of run, a hundred times in all
	@$(BIN)/python tests/runs/torture.py

siege: $(READY) ## the server under 32 clients for two minutes, not all of them friendly
	@$(BIN)/python benchmarks/siege.py

pins: $(READY) ## renew constraints.txt and the page of licences from what is installed
	@$(BIN)/python tests/supply/dependencies.py

wheel: $(READY) ## build the wheel, install it without extras into an empty environment, and try it
	@$(BIN)/python tests/supply/wheel_check.py

format: $(READY) ## let ruff format and mend what it can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(READY) ## the benchmarks, each against a named baseline in the same run, into benchmarks/RESULTS.md (LONG=1: all)
	@$(BIN)/python benchmarks/run.py --data "$(DATA)" $(if $(LONG),--long)

results: $(READY) ## make every result that is stale on DATA, and the pages that show it (hours; resumes)
	@$(BIN)/python recipes/results.py --data "$(DATA)"

model: $(READY) ## train the embedded English model on DATA (hours; goes on with the run in WORK)
	@$(PIP) -e '.[model]'
	@$(BIN)/python recipes/english.py --data "$(DATA)" --work "$(WORK)"

docs: $(READY) ## build the documentation into docs/_build/html
	@$(BIN)/python -m sphinx -W -E -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

serve: $(READY) ## the explorer on http://127.0.0.1:8000: joints on a web page, and an HTTP API
	@$(BIN)/unmask serve

clean: ## drop what was built, but not the virtual environment
	@rm -rf build dist docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis
