# Two commands do all the set-up: `make run` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SPECS ?= dfa_specs

.PHONY: run demo test test-long format bench clean

run: $(VENV)/.run
	$(BIN)/offrails serve --specs $(SPECS) $(ARGS)

demo: $(VENV)/.dev
	$(BIN)/python -m tests.demo

test: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/pytest -m "not long" $(ARGS)

test-long: $(VENV)/.dev
	$(BIN)/pytest -m long --timeout 3600 $(ARGS)

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev
	$(BIN)/python -m tests.bench

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist

# --- set-up ------------------------------------------------------------------------------------

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo 'offrails needs Python 3.11 or newer; set PYTHON=python3.11' >&2; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
	  || { echo 'Python cannot make virtual environments here: install the package python3-venv' >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt 'pip>=25.1'
	@touch $@

$(VENV)/.run: $(VENV)/.python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group dev
	@touch $@
