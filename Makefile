# Everything runs from .venv, which the first target that needs it creates; VENV=folder is another one, for another PYTHON.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
# Sets have the same order each time, too. Who is done takes from others, since some tests take a hundred times as long.
TEST := PYTHONHASHSEED=0 $(BIN)/python -m pytest -n auto --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help classes demo test test-all explore bare check release chaos bench bench-merge bench-engine bench-receiving bench-streams bench-manager bench-tasks bench-defragment bench-reconfigure bench-shards bench-hosts bench-neighbours bench-placement bench-adapt bench-adapt-live bench-console bench-peers slow mutate paper-000 paper-001 paper-002 paper-003 paper-004 schema client docs console templates screenshots docs-rest docs-tasks helm manifests lock clean

help:  ## list the targets
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /|/' | awk -F'|' '{printf "  make %-16s %s\n", $$1, $$2}'

# The lock has every package, so nothing is to be resolved. uv takes less than half of pip's CPU for it. Of pip's settings
# it learns the index alone; where that is not enough, pip does it. All cores compile faster than either does.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps
$(READY): requirements.lock pyproject.toml client/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Braid needs Python 3.11 or later; set PYTHON=/path/to/it")'
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { $(PYTHON) -c 'import sys; print("%s makes no virtual environments; run: apt install python%d.%d-venv, or set PYTHON=/path/to/another" % (sys.executable, *sys.version_info[:2]), file=sys.stderr)'; exit 1; }
	test -x $(BIN)/pip || $(PYTHON) -m venv --clear $(VENV)
	@awk '/^[^ ]/ { on = /^uv==/ } on' requirements.lock > $(VENV)/uv.txt
	@index="$${PIP_INDEX_URL:-$$($(BIN)/python -m pip config get global.index-url 2>/dev/null)}"; set -x; \
	{ $(PIP) --require-hashes -r $(VENV)/uv.txt && \
	  $(BIN)/uv pip install --quiet --python $(BIN)/python $${index:+--default-index "$$index"} --no-deps --require-hashes -r requirements.lock; \
	} || $(PIP) --no-compile --require-hashes -r requirements.lock
	$(BIN)/python -m compileall -q -j 0 $(VENV)/lib
	$(PIP) -e client -e .
	@touch $(READY)

classes: $(READY)  ## archive the classes of Spark once, in a minute, so that it starts in half the time
	@$(BIN)/python -m engine.machines.class_archiver

demo: $(READY)  ## replay dataflows of RIoTBench with sharing and without, and write a report
	@$(BIN)/braid demo

test: $(READY)  ## run the tests for every change, the same each time; less than ten minutes
	$(TEST) $(PYTEST_ARGS)

test-all: classes  ## run all tests that continuous integration runs; up to half an hour
	$(TEST) -m "not chaos and not slow and not bare" $(PYTEST_ARGS)

explore: $(READY)  ## search with other examples each time, until Ctrl-C or a failure; SEED=... repeats a round
	@$(BIN)/python -m tests.explore $(if $(SEED),--seed $(SEED)) $(PYTEST_ARGS)

bare: $(READY)  ## run demo, first submission and some tests with mosquitto, Java, PostgreSQL and chromium hidden
	.ci/bare

check: $(READY)  ## lint, types, import contracts, links and examples in the documentation
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q -n auto tests/documentation

release: check  ## make the release VERSION=1.2.3: build, check and use it elsewhere, then commit and tag it here; publishes nothing
	@$(BIN)/python -m tests.releases.release $(VERSION)

chaos: classes  ## kill drivers, workers and brokers for up to an hour, and look for what was lost
	$(BIN)/python -m pytest -m chaos $(PYTEST_ARGS) tests/chaos tests/integration

slow: classes  ## run the tests that take too long even for continuous integration
	$(BIN)/python -m pytest -m slow -n auto $(PYTEST_ARGS)

bench: bench-merge bench-engine bench-receiving bench-streams bench-shards bench-hosts bench-neighbours bench-manager bench-tasks bench-defragment bench-reconfigure bench-planner bench-placement bench-adapt bench-adapt-live bench-console bench-peers  ## run all benchmarks

bench-merge: $(READY)  ## measure merge and unmerge up to a million running tasks
	$(BIN)/python -m benchmarks.merge

bench-engine: classes  ## measure batches, throughput, latency, swaps, start and state of real jobs
	$(BIN)/python -m benchmarks.engine

bench-receiving: classes  ## measure the CPU of receiving a stream of raw events; BEFORE=folder compares with that checkout
	$(BIN)/python -m benchmarks.reception $(BEFORE)

bench-streams: $(READY)  ## measure what 1,000 raw streams and 5,000 between jobs cost a host at rest, and what others notice of a stuck one
	$(BIN)/python -m benchmarks.streams

bench-manager: classes  ## measure submissions, what follows them, and the start of a manager
	$(BIN)/python -m benchmarks.manager

bench-tasks: $(READY)  ## measure every task type alone: events per second and core
	$(BIN)/python -m benchmarks.tasks

bench-defragment: classes  ## measure how long outputs stand still while jobs are consolidated, and what it saves
	$(BIN)/python -m benchmarks.defragmentation

bench-reconfigure: classes  ## measure how soon reconfigurations take effect; BEFORE=folder compares CPU with that checkout
	$(BIN)/python -m benchmarks.reconfiguration $(BEFORE)

bench-planner: classes  ## measure planning, what it saves by reuse, and what planned pipelines and new plans cost at run time
	$(BIN)/python -m benchmarks.planner

bench-placement: classes  ## measure planning of groups, pipelines on hosts by how they are cut, and whole services with plan and pack
	$(BIN)/python -m benchmarks.placement

bench-shards: classes  ## measure what shards gain and cost, and how soon a running job has another number of them
	$(BIN)/python -m benchmarks.shards

bench-hosts: classes  ## measure how soon a lost machine is replaced, and what copies of its hosts cost
	$(BIN)/python -m benchmarks.machines

bench-neighbours: classes  ## measure what quiet dataflows notice of a greedy one beside them, attack by attack
	$(BIN)/python -m benchmarks.neighbours

bench-adapt: $(READY)  ## simulate dataflows that adapt, and the machines they rent
	$(BIN)/python -m benchmarks.adaptation

bench-adapt-live: classes  ## measure what running dataflows keep by adapting under a wave of events, and what slower jobs save
	$(BIN)/python -m benchmarks.adaptation_live

bench-console: $(READY)  ## measure frames of the running graph in chromium
	$(BIN)/python -m benchmarks.console

bench-peers: classes  ## measure the same dataflows on Braid, Node-RED, plain PySpark and PyFlink; an hour or more, QUICK=1 three minutes
	$(BIN)/python -m benchmarks.peers $(if $(QUICK),--quick)

# Interrupted, the same call goes on where it was.
paper-000:  ## measure what the paper on planned pipelines did, and write its page into docs/evidence; FULL=1 measures all of it
paper-001:  ## likewise of the paper on groups of operators
paper-002:  ## likewise of the paper on reconfigurations
paper-003:  ## likewise of the thesis on dataflows that adapt
paper-004:  ## likewise of the paper on shared tasks; less than an hour, with FULL=1 three to four hours
paper-000 paper-001 paper-002 paper-003 paper-004: classes
	$(BIN)/python -m benchmarks.papers $(@:paper-%=%) $(if $(FULL),--full)

mutate: $(READY)  ## mutation testing of a sample of dags/ and merge/; takes about half an hour of one core, and MODULES="dags.schema merge.jobs" less
	$(BIN)/python -m tests.mutation $(MODULES)

schema: $(READY)  ## write docs/dataflow.schema.json anew
	$(BIN)/braid schema > docs/dataflow.schema.json

client: $(READY)  ## generate the sync connection of the client from the async one
	$(BIN)/python -m tests.braid_client.sync_client

docs: $(READY)  ## build the documentation as a site in build/site
	$(BIN)/zensical build --clean --strict

console:  ## bundle anew what the console has from npm, in the versions of its lock; needs node
	cd manager/console/vendor && npm ci --ignore-scripts --no-audit --no-fund && node bundle.mjs && rm -r node_modules

templates: $(READY)  ## write the console's templates of RIoTBench anew
	$(BIN)/python -m tests.console.riotbench_templates

screenshots: classes  ## take the console's pictures for docs/console.md anew, and film the walk
	BRAID_SCREENSHOTS=docs/console $(BIN)/python -m pytest -q -m "full or not full" tests/console/test_walk.py tests/console/test_screenshots.py

docs-rest: $(READY)  ## write docs/rest.md anew
	$(BIN)/python -m tests.documentation.rest_reference

docs-tasks: $(READY)  ## write docs/task-library.md anew
	$(BIN)/python -m tests.documentation.task_library

helm: $(READY)  ## install Helm's own engine, 250 MB, for tests of the chart and `make manifests`
	@$(PIP) helm-python-sdk==0.2.2

manifests: helm  ## write deploy/kubernetes anew from the chart in deploy/helm
	$(BIN)/python -m tests.deploy.manifests

lock: $(READY)  ## pin the newest versions that pyproject.toml allows
	$(BIN)/uv pip compile --universal --python-version 3.11 --all-extras --generate-hashes --upgrade --no-header \
		--no-emit-index-url --no-emit-find-links --no-emit-package braid-client pyproject.toml --output-file requirements.lock

clean:  ## remove the virtual environment and every cache
	rm -rf .venv .cache build/site .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
