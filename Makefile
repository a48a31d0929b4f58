# Two commands are enough: `make app` and `make test`. Each sets up what it needs in .venv first.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Processes that tests run in, a file at a time; more than two cores' worth, since many tests wait for others.
WORKERS ?= 3
# One that crashes fails its test and is not started anew, after which pytest-xdist would wait for ever.
SPREAD := -n $(WORKERS) --max-worker-restart 0 --dist loadfile --ignore=tests/record --ignore=tests/export/test_engines.py
# These register ops under the names of released ones, and count the threads of their process.
ALONE := tests/export/test_engines.py tests/record
# A test that hangs fails after LIMIT seconds; the longest takes a tenth of them on a quiet machine.
PYTEST = $(BIN)/python -m pytest --timeout $(LIMIT) --timeout-method signal
# What is compiled is kept, whatever a shell is told: every process that tests start would compile the workbench again.
export PYTHONDONTWRITEBYTECODE :=
# Runs every cell, each notebook in a kernel of its own.
NOTEBOOKS := $(BIN)/python -m pytest --nbmake --nbmake-timeout=120 docs/notebooks
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# What one core is enough for, two at a time; each says what it has to say when it is done.
BESIDE := --jobs 2 --output-sync=target lint alone notebooks

.PHONY: help app test test-all lint alone notebooks format bench browser screenshots clean

help:
	@echo "make app       set up, then serve the app on http://127.0.0.1:8501"
	@echo "make test      set up, then lint, type-check and run all tests but the slow ones"
	@echo "make test-all  the slow tests too"
	@echo "make bench     measure, and write bench-cpu.json, audit-cpu.json and app-cpu.json to docs/results"
	@echo "make screenshots  take the pictures of the app's pages in docs/images anew"
	@echo "make format    let ruff rewrite the sources"
	@echo "make clean     remove .venv and caches"

app: $(VENV)/.app
	@echo "Serving on http://127.0.0.1:8501 (another port: $(BIN)/workbench app --port 8502)"
	$(BIN)/python -m streamlit run app.py

test: LIMIT := 300
test: $(VENV)/.test browser
	$(MAKE) $(BESIDE) LIMIT=$(LIMIT) CHOSEN='-m "not slow"'
	$(PYTEST) -m "not slow" $(SPREAD)

test-all: LIMIT := 3000
test-all: $(VENV)/.test browser
	$(MAKE) $(BESIDE) LIMIT=$(LIMIT) CHOSEN=
	$(PYTEST) $(SPREAD)

alone: LIMIT ?= 300
alone: CHOSEN ?= -m "not slow"
alone: $(VENV)/.test
	$(PYTEST) $(CHOSEN) $(ALONE)

notebooks: $(VENV)/.test
	$(NOTEBOOKS)

lint: $(VENV)/.test
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports

format: $(VENV)/.test
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .

bench: $(VENV)/.app
	$(BIN)/python tests/bench/bench.py
	$(BIN)/python tests/bench/bench_audit.py
	$(BIN)/python tests/bench/bench_app.py

browser:
	@sh scripts/install-browser.sh

screenshots: $(VENV)/.test browser
	$(BIN)/python -m tests.browser.screenshots

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; name one with: make PYTHON=python3.12 ..."; exit 1; }
	@echo "Setting up $(VENV): a minute or two"
	$(PYTHON) -m venv $(VENV)

$(VENV)/.app: $(VENV)/bin/python pyproject.toml constraints.txt
	$(INSTALL) --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.app
	$(INSTALL) --editable '.[test,dev]'
	@touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache dist build
