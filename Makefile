# Two commands do everything: `make sim` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help install sim test test-slow lint types contracts clean

help:
	@echo "make sim        install what is missing, then start the simulation (Ctrl-C ends it)"
	@echo "make test       install what is missing, then run the fast tests"
	@echo "make test-slow  the slow tests: real Ray, real MuJoCo, and what takes seconds"
	@echo "make install    only the set-up that both share; the command line is $(BIN)/rhino"

install: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "rhino needs Python 3.11 or newer; set PYTHON=python3.11"; exit 1; }
	@echo "installing about 2 GB into $(VENV): minutes, once"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $(STAMP)

sim: install
	$(BIN)/rhino deploy sim $(ARGS)

test: install
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile

test-slow: install
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile -m slow
	$(BIN)/python -m pytest tests/integration tests/sim -m "integration or sim"

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/mypy

contracts: install
	$(BIN)/lint-imports

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache build *.egg-info
