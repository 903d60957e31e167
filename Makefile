# Everything from a fresh machine with Python 3.11 and Java 17: `make demo` shows it, `make test` proves it.
.DEFAULT_GOAL := help
.PHONY: help setup test pytest lint demo bench soak mutants lock
bin := .venv/bin

help:
	@echo 'make setup   a .venv beside this file with tidemill in it; what the others call first'
	@echo 'make demo    a table fed three times, with counts and proof'
	@echo 'make test    all checks: ruff, mypy, import-linter, pytest'
	@echo 'make lint    all checks but pytest'
	@echo 'make bench   how fast it is, against a plain MERGE (takes long)'
	@echo 'make soak    what takes long: random histories by the hundred, and a cluster of processes'
	@echo 'make mutants bugs planted in the rules of view maintenance: the fuzzer has to find each'
	@echo 'make lock    renew requirements.lock from pyproject.toml'

setup:
	@scripts/bootstrap

# Lint runs beside pytest: it takes seconds where the tests wait for Spark.
test:
	@$(MAKE) --no-print-directory -j2 lint pytest

# Tests call make themselves, which must not take itself for a part of this one. They start many Pythons:
# without bytecode, which some environments forbid, each would compile Tidemill again.
pytest: setup
	@echo '· pytest'
	@env -u MAKEFLAGS -u MAKELEVEL -u PYTHONDONTWRITEBYTECODE $(bin)/pytest $(ARGS)

lint: setup
	@echo '· ruff'
	@$(bin)/ruff check --quiet
	@$(bin)/ruff format --check --quiet || { $(bin)/ruff format --check; exit 1; }
	@echo '· mypy --strict'
	@$(bin)/mypy --no-error-summary
	@echo '· import-linter'
	@$(bin)/lint-imports --no-cache >.venv/imports.txt || { cat .venv/imports.txt; exit 1; }

demo: setup
	@$(bin)/python examples/demo.py

bench: setup
	@$(bin)/python benchmarks/run.py $(ARGS)

soak: export TIDEMILL_WHOLE_ENGINE = yes
soak: setup
	@$(bin)/pytest -m slow $(ARGS)
	@$(bin)/pytest tests/acceptance/test_incremental_equals_full.py --histories 400 $(ARGS)
	@$(bin)/pytest tests/parquet/test_kills.py --kills 300 --rounds 50 $(ARGS)

mutants: setup
	@$(bin)/python tests/ivm/mutants.py

# No address of a registry and no path of this machine may enter the lock (docs/adr/0002).
lock: setup
	@env -u UV_FIND_LINKS -u UV_INDEX_URL -u UV_DEFAULT_INDEX -u UV_INDEX -u UV_EXTRA_INDEX_URL \
	    $(bin)/uv pip compile pyproject.toml --group dev --upgrade --universal --python-version 3.11 \
	    --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
	    --quiet --output-file requirements.lock
	@echo '  requirements.lock is renewed; make setup installs it'
