# The project's tasks. All run in .venv, which is made on first use and belongs to this file: `make` lists them.

VENV := .venv
BIN := $(VENV)/bin

# The first Python on the path that is new enough; or name one: make PYTHON=/opt/python3.12/bin/python3 demo
CANDIDATES := python3 python3.14 python3.13 python3.12 python3.11 python
IS_NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in $(CANDIDATES); do "$$p" -c '$(IS_NEW_ENOUGH)' 2>/dev/null && { echo "$$p"; break; }; done)
UV ?= $(shell command -v uv)
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Passed on to pytest, to the demo or to the benchmarks: make test ARGS="-k isotonic"
ARGS ?=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-fast test-oldest fuzz lint format bench docs docs-serve dist clean

help: ## List the tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.installed-demo ## Train a forest, then evaluate, fit, apply and report on its scores
	@$(BIN)/python examples/demo.py $(ARGS)

test: $(VENV)/.installed-test ## Run every test and every example in the documentation
	@$(BIN)/python -m pytest -n auto $(ARGS)

test-fast: $(VENV)/.installed-test ## Run the first case of each test but the slow ones: every module, in a sixth of the time
	@$(BIN)/python -m pytest -n auto --fast $(ARGS)

fuzz: $(VENV)/.installed-test ## Read damaged files of every kind, for a minute or as told: make fuzz ARGS="--seconds 600"
	@PYTHONPATH=tests $(BIN)/python tests/attacks/fuzzing.py $(ARGS)

lint: $(VENV)/.installed-dev ## Check format, style and types
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m ruff check .
	$(BIN)/python -m mypy

format: $(VENV)/.installed-dev ## Write the format that lint asks for
	$(BIN)/python -m ruff format .
	$(BIN)/python -m ruff check --fix .

bench: $(VENV)/.installed-demo ## Measure the claims of speed and write them to benchmarks/results
	@$(BIN)/python -m benchmarks $(ARGS)

docs: $(VENV)/.installed-test ## Build the site into docs/_build/html; a warning is an error
	@$(BIN)/python -m sphinx --builder html --fail-on-warning --keep-going --quiet docs docs/_build/html $(ARGS)
	@echo "docs/_build/html/index.html"

docs-serve: docs ## Build the site and show it at http://localhost:8000
	@$(BIN)/python -m http.server --directory docs/_build/html 8000

dist: $(VENV)/.installed-dist ## Build wheel and sdist, check both, and run the README from the wheel
	@rm -rf dist
	@$(BIN)/python -m build --outdir dist
	@$(BIN)/python -m twine check --strict dist/*
	@$(BIN)/python scripts/check_wheel.py dist

test-oldest: $(VENV)/.made-in ## Run the tests on the oldest allowed dependencies, in .venv-oldest
	@$(BIN)/python scripts/test_oldest.py $(ARGS)

clean: ## Remove .venv, caches and what the demo wrote
	rm -rf $(VENV) .venv-oldest .venv-mlflow demo-output docs/_build docs/auto_gallery docs/api/generated docs/commands/*.rst fuzz-found build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

# An environment knows its folder by its absolute path. One that was made half, or elsewhere, or that lost its
# interpreter, is made anew.
ifneq ($(shell test -x $(BIN)/python && cat $(VENV)/.made-in 2>/dev/null),$(CURDIR))
.PHONY: $(VENV)/.made-in
endif

$(VENV)/.made-in:
	@rm -rf $(VENV)
	@if [ -n "$(UV)" ]; then \
	  echo "making $(VENV) with uv"; \
	  "$(UV)" venv --quiet --seed --python "$(or $(PYTHON),>=3.11)" $(VENV); \
	elif [ -z "$(PYTHON)" ]; then \
	  echo "calibrant needs Python 3.11 or newer, and the path has none (python3 is" \
	    "$$(python3 --version 2>/dev/null || echo missing)). Install one, or name it: make PYTHON=/path/to/python3.12" >&2; \
	  exit 1; \
	elif ! "$(PYTHON)" -c '$(IS_NEW_ENOUGH)'; then \
	  echo "calibrant needs Python 3.11 or newer, and $(PYTHON) is $$("$(PYTHON)" --version 2>&1)." >&2; \
	  exit 1; \
	elif ! "$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null; then \
	  echo "$(PYTHON) comes without venv or ensurepip, which make an environment." \
	    "On Debian and Ubuntu: apt install python3-venv" >&2; \
	  exit 1; \
	else \
	  echo "making $(VENV) with $$("$(PYTHON)" --version)"; \
	  "$(PYTHON)" -m venv $(VENV); \
	fi
	@printf '%s\n' "$(CURDIR)" > $@

$(VENV)/.installed-%: pyproject.toml $(VENV)/.made-in
	@echo "installing calibrant with its '$*' packages"
	@if [ -n "$(UV)" ] && "$(UV)" pip install --help 2>/dev/null | grep -q -e '--group'; then \
	  "$(UV)" pip install --quiet --python $(BIN)/python --group $* --editable .; \
	else \
	  $(PIP_INSTALL) --upgrade 'pip>=25.1' && $(PIP_INSTALL) --group $* --editable .; \
	fi
	@touch $@
