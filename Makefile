# Everything one can do here. `make demo`, `make test` and `make test-all` set up what they need themselves.
PYTHON   ?= python3
VENV     := .venv
BIN      := $(VENV)/bin
READY    := $(VENV)/.ready
# Processes that check types beside the first.
CHECKERS := 2
# What coverage is measured of: `core`, or the `whole`, which takes the tests twice the time.
MEASURED := core
# Processes that run the tests. Each collects all of them for itself, which takes a processor as long as a thousand do.
TESTERS  := 2
PYTEST   = $(BIN)/pytest -n $(TESTERS) --dist worksteal

# Kept bytecode is a third of what collecting the tests and starting the program costs.
export PYTHONDONTWRITEBYTECODE =

.PHONY: help demo test test-all checks lint types unit unit-core unit-whole browser slow pages bench figures format clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV) (once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group dev
	@$(BIN)/python -m tests.telemetry.promtool >/dev/null
	@touch $@

demo: $(READY)  ## 1,000 jobs end to end on the embedded emulator
	@rm -rf demo && mkdir demo
	$(BIN)/orchestrator run examples/prompts.jsonl --endpoint local:examples/handlers.py:caption \
		--listen 127.0.0.1:0 --ledger demo/orchestrator.db --output demo/results.jsonl
	@echo "the first three lines of demo/results.jsonl:"
	@head -n 3 demo/results.jsonl

test: $(READY)  ## before each commit: lint, types, import rules, the tests that are not slow, coverage of core
	@$(BIN)/python -m tests.costs $(MAKE) --no-print-directory checks

test-all: $(READY)  ## everything that is checked: what `make test` checks, the slow tests, pages in a browser, coverage of the whole
	@$(BIN)/python -m tests.costs $(MAKE) --no-print-directory checks slow pages MEASURED=whole

# The tests wait now and then: in what they leave of the processors the types are checked, which are told of at the end.
checks: lint
	@nice -n 19 $(MAKE) --no-print-directory types CHECKERS=0 >$(VENV)/types.txt 2>&1 & types=$$!; \
		$(MAKE) --no-print-directory unit-$(MEASURED); tests=$$?; wait $$types; types=$$?; \
		cat $(VENV)/types.txt; exit $$((tests | types))

lint: $(READY)  ## ruff and import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

types: $(READY)  ## mypy --strict, and pyright over what users see
	$(BIN)/mypy --num-workers=$(CHECKERS)
	$(BIN)/basedpyright

ifeq ($(LEDGER),postgresql)
unit: $(READY)
	$(PYTEST) tests/postgres $(addprefix tests/ledger/,postgres processes sites copying administration)
	$(PYTEST) -k postgresql tests/conformance
else
unit: unit-core  ## the tests that are not slow, with the coverage of core; LEDGER=postgresql: all of any ledger, on a server
endif

unit-core: $(READY)
	$(PYTEST) -m 'not slow' --cov=orchestrator/core --cov-report=term --cov-fail-under=100 tests/core
	$(PYTEST) -m 'not slow' --ignore=tests/core

# Of core nothing is left to be reached once its own tests are through: to measure it again is a fifth of what all takes.
unit-whole: $(READY)
	$(PYTEST) -m 'not slow' --cov --cov-report= tests/core
	$(BIN)/coverage report --fail-under=100 --include='orchestrator/core/*'
	UNMEASURED='orchestrator/core/*' $(PYTEST) -m 'not slow' --cov --cov-append --cov-report= --ignore=tests/core
	$(BIN)/coverage report --fail-under=95

browser: $(READY)  ## a browser for the tests, where there is none yet: Debian's, as root, or Playwright's own
	@$(BIN)/python -m tests.dashboard.browser.install

# Playwright keeps an event loop in its process, beside which no other test can have one: pages are looked at by a command of their own.
# What Hypothesis reads of every module wherever one of its tests is collected takes eight seconds of a processor in a new
# tree, in each process: few of the slow ones are such, and have it read when they begin.
# They wait for more than half of their time, so that four processes are for two processors.
slow: TESTERS := 4
slow: $(READY)  ## the slow tests alone, without those in a browser
	$(PYTEST) -p no:hypothesispytest -m slow -o faulthandler_timeout=500 --ignore=tests/dashboard/browser

pages: $(READY) browser  ## looks at each page in a browser
	$(BIN)/pytest -m slow -o faulthandler_timeout=500 tests/dashboard/browser

bench: $(READY)  ## prints the speed and memory figures
	$(BIN)/python -m tests.benchmarks

figures: $(READY)  ## measures every promise anew, in some hours, and writes docs/why/guarantees.md
	$(BIN)/python -m tests.benchmarks --record
	$(BIN)/python -m tests.hostile --record
	$(BIN)/python -m tests.limits --record
	$(BIN)/python -m tests.limits.take_overs --record
	$(BIN)/python -m tests.narrow --record
	$(BIN)/python -m tests.crashes --record
	$(BIN)/python -m tests.firing --seeds 200 --kills 100 --record
	$(BIN)/python -m tests.failover --faults 200 --worlds 2 --record
	$(BIN)/python -m tests.failover.keepers --record
	$(BIN)/python -m tests.postgres.interrupted_commits --record
	$(BIN)/python -m tests.postgres.every_order --record
	$(BIN)/python -m tests.emulator.long_jobs --record
	$(BIN)/python -m tests.planted --record
	$(BIN)/python -m tests.simulation --seeds 1000 --record
	$(BIN)/python -m tests.simulation --scenario engines --seeds 1000 --record
	$(BIN)/python -m tests.simulation --scenario flows --seeds 200 --record
	$(BIN)/python -m tests.simulation.many --record
	$(BIN)/python -m tests.simulation.questions --record

format: $(READY)  ## let ruff format and sort
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## removes the environment and every cache
	rm -rf $(VENV) dist demo .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage .coverage.*
	find . -name __pycache__ -prune -exec rm -rf {} +
