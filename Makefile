# Every target sets itself up: all it takes is Python 3.11 or newer, and make.
# The environment lies in .venv and is renewed when pyproject.toml changes.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.SUFFIXES:
.DELETE_ON_ERROR:

VENV    := .venv
PY      := $(VENV)/bin/python
READY   := $(VENV)/.ready
PYTEST  := $(PY) -m pytest
PIP     := -m pip -qq --disable-pip-version-check --no-input
MATRIX  := 3.11 3.12 3.13
# One more than there are cores: many tests wait, for a process, a disk or a deadline.
WORKERS = $(shell $(PY) -c 'import os; print((os.cpu_count() or 1) + 1)' 2>/dev/null || echo 2)

export PIP_ROOT_USER_ACTION = ignore
# Tests start thousands of processes: each would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(READY): pyproject.toml tools/find_python
	@python=$$(sh tools/find_python) || exit 1; \
	$(PY) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "setting up $(VENV) with $$python"; \
	    "$$python" -m venv --clear $(VENV); \
	} && $(PY) $(PIP) install --editable '.[dev]' && touch $@

.PHONY: demo
demo: $(READY) ## watch a real agent work under a scope
	@$(PY) demo/demo.py

.PHONY: test
test: lint wheel-test unit ## lint, types, the wheel, and every test: what CI runs

.PHONY: unit
unit: $(READY) ## every test but the long ones, on all cores
	@$(PYTEST) -n $(WORKERS) --dist loadfile -m 'not deep and not alone and not framework and not server'
	@$(PYTEST) -m alone $$(grep -rl --include='test_*.py' 'mark[.]alone' tests/unit)

.PHONY: test-deep
test-deep: $(READY) ## every test, with 20 000 examples for each law (hours)
	@HYPOTHESIS_PROFILE=deep $(PYTEST) -m 'deep or not deep' -o timeout=7200

.PHONY: attacks
attacks: $(READY) ## every attack of the catalogue, and how many are mounted
	@$(PYTEST) tests/attacks
	@$(PY) -m tests.attacks.catalogue

# The agents as tests/agents/package-lock.json names them, in the environment. Nothing that a package
# brings is run when it is installed, but for the two that put their own program in its place.
AGENTS  := $(VENV)/agents
NAMED   := tests/agents/package.json tests/agents/package-lock.json
NPM     := npm --no-audit --no-fund --no-update-notifier --loglevel=error --prefix $(CURDIR)/$(AGENTS)
PLACED  := @anthropic-ai/claude-code opencode-ai

$(AGENTS)/.ready: $(NAMED) | $(READY)
	@command -v npm >/dev/null || { \
	    echo 'the agents are installed by npm, which comes with Node.js 20 or newer: install it,'; \
	    echo 'or test those that are on the path with: $(PYTEST) -m agent tests/agents'; exit 1; }
	@echo 'setting up $(AGENTS): 2 GB, some minutes'
	@mkdir -p $(AGENTS) && cp $(NAMED) $(AGENTS)/ && \
	$(NPM) install --ignore-scripts --no-save && $(NPM) rebuild $(PLACED) && touch $@

.PHONY: test-agents
test-agents: $(READY) $(AGENTS)/.ready ## the tests that drive real agents, in the versions of a lock file
	@PATH="$(CURDIR)/$(AGENTS)/node_modules/.bin:$$PATH" \
	    $(PYTEST) -m agent tests/agents tests/sandbox -ra

.PHONY: test-frameworks
test-frameworks: $(READY) ## the adapters of agent frameworks, each in an environment of its own
	@$(PY) tools/test_frameworks.py --check

.PHONY: frameworks-table
frameworks-table: $(READY) ## the same, and put what was found into docs/frameworks.md
	@$(PY) tools/test_frameworks.py

.PHONY: test-servers
test-servers: $(READY) ## counts shared through real servers, where redis or valkey and postgres are
	@$(PYTEST) -m 'server and not deep' tests/servers -ra

.PHONY: test-contract
test-contract: $(READY) ## hold `broker serve` against its OpenAPI document, by schemathesis
	@$(PY) tools/contract_test.py

.PHONY: lint
lint: $(READY) ## style, format, types and the direction of imports
	@$(PY) -m ruff check --quiet .
	@$(PY) -m ruff format --quiet --check . || { \
	    $(PY) -m ruff format --check .; echo 'mend it with: make format'; exit 1; }
	@$(PY) -m mypy
	@$(VENV)/bin/lint-imports --no-logo >$(VENV)/lint-imports.txt 2>&1 || { \
	    cat $(VENV)/lint-imports.txt; exit 1; }
	@echo 'lint: style, format, types and imports are in order'

.PHONY: format
format: $(READY) ## rewrite the sources in the project's format
	@$(PY) -m ruff check --quiet --fix . ; $(PY) -m ruff format .

.PHONY: bench
bench: $(READY) ## measure the broker
	@$(PY) bench/run.py
	@$(PY) bench/receipts.py
	@$(PY) bench/pipeline.py
	@$(PY) bench/traces.py
	@$(PY) bench/recording.py
	@$(PY) bench/fleet.py
	@$(PY) bench/budgets.py

.PHONY: bench-agentdojo
bench-agentdojo: $(READY) ## count what scopes stop of four benchmarks of attacked agents
	@$(PY) bench/agentdojo/run.py --check

.PHONY: bench-agents
bench-agents: $(READY) ## measure what the broker costs each agent that is installed, per call
	@$(PY) bench/agents.py

# Ray, and a stand-in for S3 that goes with no S3 client of ours, are needed for nothing else.
FLEET   := $(VENV)/fleet
MOTO    := $(VENV)/moto

$(FLEET)/.ready: pyproject.toml | $(READY)
	@$(PY) -m venv --clear $(FLEET) && \
	$(FLEET)/bin/python $(PIP) install --editable '.[dev,ray]' && touch $@

$(MOTO)/.ready: | $(READY)
	@$(PY) -m venv --clear $(MOTO) && \
	$(MOTO)/bin/python $(PIP) install 'moto[server]>=5.2,<6' && touch $@

.PHONY: test-fleet
test-fleet: $(FLEET)/.ready $(MOTO)/.ready ## receipts at an S3 server and on a Ray cluster, on this machine
	@PATH="$(CURDIR)/$(MOTO)/bin:$$PATH" $(FLEET)/bin/python -m pytest tests/fleet -ra

.PHONY: bench-frameworks
bench-frameworks: $(READY) ## measure what the adapters of frameworks add to a call, once they are set up
	@$(PY) bench/frameworks.py --peers

.PHONY: wheel-test
wheel-test: $(READY) ## build sdist and wheel, and test the wheel without the sources
	@$(PY) tools/wheel_test.py

.PHONY: matrix
matrix: ## every test on each of Python 3.11, 3.12, 3.13 that is found
	@for version in $(MATRIX); do \
	    python=$$(sh tools/find_python $$version 2>/dev/null) || { \
	        echo "Python $$version: not found, left out"; continue; }; \
	    echo "Python $$version"; \
	    [ -x $(VENV)-$$version/bin/python ] || "$$python" -m venv $(VENV)-$$version || exit 1; \
	    $(VENV)-$$version/bin/python $(PIP) install --editable '.[dev]' || exit 1; \
	    $(VENV)-$$version/bin/python -m pytest || exit 1; \
	done

.PHONY: clean
clean: ## remove everything that make has made
	@rm -rf $(VENV) $(VENV)-* build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache \
	    .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
