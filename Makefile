# Everything here runs from a clean clone with Python 3.11+, Java 17+ and Maven, and installs only
# into .venv and the user's cache folder.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Stamps of one environment: two installs at once would fight over it.
.NOTPARALLEL:
.PHONY: help demo test test-fast fuzz chaos check bench clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.installed-embedded ## play conversations on an in-process broker (ARGS=--keep, ARGS=--kafka)
	$(BIN)/turnstream demo $(ARGS)

# Coverage of the core is a test of all tests: with ARGS, only some of them run. Most tests of a
# broker wait; each worker starts a broker of its own, and takes whole files.
WORKERS ?= 2
test: $(VENV)/.installed-dev ## run every test, on a real Kafka (WORKERS=, ARGS=)
	@$(BIN)/python -c 'from turnstream.demo.jars import fetch_kafka; fetch_kafka()'
	$(BIN)/pytest $(or $(ARGS),--cov -n $(WORKERS) --dist loadfile --no-loadscope-reorder)

test-fast: $(VENV)/.installed-dev ## run the tests that need no Kafka
	$(BIN)/pytest -m "not kafka" $(ARGS)

EXAMPLES ?= 100000
fuzz: $(VENV)/.installed-dev ## try a hundred thousand arguments of a model, some minutes (EXAMPLES=, ARGS="--seed 2")
	$(BIN)/python -m tests.fuzz --examples $(EXAMPLES) $(ARGS)

# A run of 20,000 turns takes minutes: SEEDS=2 TURNS=3000 for a look, ARGS="--only protections".
SEEDS ?= 20
TURNS ?= 20000
chaos: $(VENV)/.installed-dev ## break processes and brokers in seeded runs, and verify (SEEDS=, TURNS=)
	$(BIN)/python -m tests.chaos --seeds $(SEEDS) --turns $(TURNS) $(ARGS)

check: $(VENV)/.installed-dev ## lint, formatting, types, import arrows
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: $(VENV)/.installed-bench ## measure throughput and latency on a real Kafka
	$(BIN)/python -m benchmarks $(ARGS)

clean: ## remove the environment, caches and builds
	rm -rf $(VENV) build dist htmlcov .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "$(PYTHON) is older than Python 3.11: run make PYTHON=/path/to/a/newer/python" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

# One stamp per extra, renewed when what it installs may have changed.
$(VENV)/.installed-embedded: EXTRA := embedded
$(VENV)/.installed-dev: EXTRA := dev
$(VENV)/.installed-bench: EXTRA := dev,bench
$(VENV)/.installed-embedded $(VENV)/.installed-dev $(VENV)/.installed-bench: $(VENV)/.created pyproject.toml constraints.txt
	$(INSTALL) -e '.[$(EXTRA)]'
	@touch $@
