# `make` lists what there is. Each target creates the virtual environment and installs what it needs by itself.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
DEMO   := $(VENV)/.demo
# One more than there are processors: tests wait for processes and clocks a good part of their time.
WORKERS ?= $(shell expr $$(nproc 2>/dev/null || echo 2) + 1)

# Many tests start programs. Without compiled modules each of them would compile all its imports again, which doubles the
# time of the tests. They are kept outside the sources, for those who do not want them there.
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(VENV)/pycache

.DEFAULT_GOAL := help
.PHONY: help install demo test api-fuzz clients acceptance coverage contract stall growth soak crossings cluster chaos upgrade check format docs site screenshots recording bench bench-smoke bench-shared bench-peers new-project lock chart release audit clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*?## ' $(MAKEFILE_LIST) | sort | awk -F ':.*?## ' '{printf "  \033[1m%-12s\033[0m %s\n", $$1, $$2}'

install: $(READY) ## create .venv from PYTHON (default python3) and install the locked dependencies

$(READY): requirements.lock pyproject.toml apps/pyproject.toml
	@PYTHON=$(PYTHON) VENV=$(VENV) tools/install requirements.lock
	@touch $@ $(DEMO)

# What the demo needs is a fifth of what development needs. In an environment for development it is there already.
$(DEMO): requirements-demo.lock pyproject.toml apps/pyproject.toml
	@PYTHON=$(PYTHON) VENV=$(VENV) tools/install requirements-demo.lock
	@touch $@

demo: $(if $(wildcard $(READY)),$(READY),$(DEMO)) ## run everything in one process on an embedded PostgreSQL; Ctrl-C ends it
	@exec $(BIN)/onceward up onceward_apps.demo:app

test: $(READY) ## run the tests on a real PostgreSQL
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m 'not slow' $(ARGS)

clients: $(READY) ## write the generated parts of the client packages (clients/python, clients/typescript)
	@$(BIN)/python tools/clients.py $(ARGS)

api-fuzz: $(READY) ## call every operation of the HTTP API with made-up requests for 10 minutes: no 5xx, no undocumented status; ARGS="--minutes 2 --seed 7"
	@$(BIN)/python tools/api_fuzz.py $(ARGS)

acceptance: $(READY) ## print every acceptance item of the apps with pass or fail; ARGS=engagement for one app
	@$(BIN)/python tools/acceptance.py --workers $(WORKERS) $(ARGS)

coverage: $(READY) ## check how much of an app its tests execute: 85 % of lines, 80 % of branches, 90 % of functions; APP=engagement
	@$(BIN)/python tools/app_coverage.py $(or $(APP),engagement) $(ARGS)

contract: $(READY) ## run the contract test of the webhook pipeline; dumps and logs go to contract-artifacts
	@ONCEWARD_TEST_ARTIFACTS=contract-artifacts $(BIN)/python -m pytest -n 0 tests/contract $(ARGS)

stall: $(READY) ## freeze a process at every gate of every kind of work while another one finishes it
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -k 'stalls or frozen' tests/stalls tests/coursegen tests/engagement $(ARGS)

growth: $(READY) ## ask every page and list of a small organization beside a large one; ARGS=1000000 rows of each kind
	@ONCEWARD_TEST_GROWTH=$(or $(ARGS),100000) $(BIN)/python -m pytest -n 0 -q tests/growth -k thorough

new-project: $(READY) ## install the wheel in an empty environment, create a project with `onceward new`, test it and start it; ARGS=--tutorial follows the tutorial too
	@$(BIN)/python tools/new_project.py $(ARGS)

soak: $(READY) ## 10 minutes of steady load, memory must stay flat; ARGS=--short for 20 seconds
	@$(BIN)/python tools/soak.py $(ARGS)

crossings: $(READY) ## random sequences of all verbs with workers that stop, die and freeze; ARGS="--minutes 60 --seed 7"
	@$(BIN)/python tools/crossings.py $(ARGS)

cluster: $(READY) ## three PostgreSQL servers under Patroni, two web nodes and three workers, until Ctrl-C
	@exec $(BIN)/python -m tools.chaos.interactive

chaos: $(READY) ## break the cluster under load and check that nothing is lost or done twice; ARGS="--seed 7 --minutes 5"
	@exec $(BIN)/python -m tools.chaos $(ARGS)

upgrade: $(READY) ## upgrade a running installation under load and check that nothing is lost or done twice; ARGS="--old 0.1.0" or a wheel
	@exec $(BIN)/python -m tools.upgrade $(ARGS)

check: $(READY) ## ruff, pyright, import-linter
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/pyright
	@$(BIN)/lint-imports

format: $(READY) ## let ruff put the code in order
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

site: $(READY) ## build the documentation as a site into .site; a broken link or a page without a place fails
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

docs: $(READY) ## rewrite the tables of settings, commands and metrics from the code
	@$(BIN)/python docs/tables.py

screenshots: $(READY) ## take a picture of every page of the dashboard, of the desks and of the public pages (needs Chromium)
	@$(BIN)/python tools/screenshots.py $(ARGS)
	@$(BIN)/python tools/screenshots.py --demo

recording: $(READY) ## record the moving picture of the README in a browser (needs Chromium)
	@$(BIN)/python tools/recording.py $(ARGS)

bench-smoke: $(READY) ## run every bench case once, tiny
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m slow tests/bench/test_smoke.py $(ARGS)

bench: $(READY) ## measure, next to the peers that are installed
	@$(BIN)/onceward bench $(ARGS)

bench-shared: $(READY) ## measure everything that shared commits change, next to the peers and to ourselves without them; ARGS=--quick
	@for case in "work drain-row" "work drain-row-2" "work drain-row-update" "work drain-ordered" "work drain-tx" "work drain-1" "work drain-2" \
	    "work latency" "work latency-across" "ingest inline" "ingest end-to-end" "checkout sale"; do $(BIN)/onceward bench $$case $(ARGS) || exit 1; done

bench-peers: $(READY) ## install what we measure ourselves against, each in its own directory below .bench
	@if [ -x benchmarks/install-peers ]; then benchmarks/install-peers; else echo "no peers to install"; fi

lock: $(READY) ## resolve the dependencies anew into requirements.lock, requirements-demo.lock and deploy/requirements.lock (of the image)
	@$(BIN)/uv pip compile pyproject.toml apps/pyproject.toml --all-extras --group dev --universal --python-version 3.11 \
	  --no-emit-package onceward --generate-hashes --no-header --no-annotate --quiet -o requirements.lock
	@$(BIN)/uv pip compile pyproject.toml apps/pyproject.toml --extra testing --extra desk --extra files --extra mail --extra push --universal \
	  --python-version 3.11 --no-emit-package onceward --constraints requirements.lock --generate-hashes --no-header --no-annotate --quiet \
	  -o requirements-demo.lock
	@echo 'hatchling>=1.25' | $(BIN)/uv pip compile pyproject.toml apps/pyproject.toml - --extra files --extra mail --extra otel --extra push \
	  --universal --python-version 3.11 \
	  --no-emit-package onceward --constraints requirements.lock --generate-hashes --no-header --no-annotate --quiet -o deploy/requirements.lock

chart: $(READY) ## render the Helm chart into deploy/kubernetes, one file for each size (needs Helm, or helm-python-sdk)
	@$(BIN)/python tools/chart.py

# The tools come from the package index each time and are not part of the environment.
release: $(READY) ## build and check what is published, into dist/: VERSION=0.1.0, and ARGS=--dry-run from a tree with changes
	@$(BIN)/python tools/release.py build $(VERSION) $(ARGS)

audit: $(READY) ## check the dependencies against known vulnerabilities, write an SBOM to artifacts/sbom.json, search the files for secrets; needs the internet
	@$(BIN)/python tools/find_secrets.py
	@mkdir -p artifacts
	@$(BIN)/uv tool run --quiet --from 'cyclonedx-bom>=7,<8' cyclonedx-py requirements deploy/requirements.lock --of JSON -o artifacts/sbom.json
	@$(BIN)/uv tool run --quiet 'pip-audit>=2.10,<3' --strict --require-hashes --disable-pip -r deploy/requirements.lock
	@$(BIN)/uv tool run --quiet 'pip-audit>=2.10,<3' --strict --require-hashes --disable-pip -r requirements.lock

clean: ## remove the environment and caches; the data in .onceward stay
	@rm -rf $(VENV) .pytest_cache .ruff_cache .import_linter_cache .hypothesis
