# What a contributor needs: make audit, make test, make fast, make check, make format.
# PYTHON chooses the interpreter (3.11 or later), VENV the environment.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: setup audit test fast newcomer lint types check format docs
.DEFAULT_GOAL := help
help:
	@echo "make audit   set up and reverse the embedded model to ' United States' (a few minutes on 2 cores)"
	@echo "make test    set up and run all tests"
	@echo "make fast    set up and run the tests that are quick and need no embedded model"
	@echo "make newcomer install lmaudit as a user does, and walk from a first audit to a gate"
	@echo "make check   what CI runs: lint, types, tests, a newcomer"
	@echo "make format  format the code"
	@echo "make docs    write docs/commands anew, from what the commands say"

setup: $(VENV)/.ready

# The constraints file holds the versions that the tests ran with; a torch that is there already is kept.
$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "lmaudit needs Python 3.11 or later: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

audit: setup
	$(BIN)/lmaudit reverse " United States" --model smollm2 --optimizer arca --prompt-length 3 --seeds 4 --sweeps 12

# Each process takes neighbouring tests, so that what they share is made once; who has nothing left takes from others.
test: setup
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist worksteal

fast: setup
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist worksteal -m 'not real and not slow'

newcomer:
	$(PYTHON) tests/newcomer.py

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

check: lint types test newcomer

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: setup
	$(BIN)/python -m lmaudit.cli.manual docs/commands
