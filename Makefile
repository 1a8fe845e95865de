# make demo       triage the example tickets on this machine, offline once the models are here
# make test       lint, types and tests
# make test-slow  the long tests: whole ticket sets, reference implementations
# make bench      accuracy, learning, latency, schemas, router, queue, the engine beside peers
#
# TORCH_INDEX_URL names another package index for torch. On Linux the default index has a CUDA build
# of several gigabytes; the CPU build is enough:
#   make demo TORCH_INDEX_URL=https://download.pytorch.org/whl/cpu

PYTHON ?= python3
TORCH_INDEX_URL ?=
VENV := .venv
# Whatever else lies in the folder is nobody's business.
CODE := conftest.py weighbridge tests bench
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --disable-pip-version-check \
	--constraint constraints.txt $(if $(TORCH_INDEX_URL),--extra-index-url $(TORCH_INDEX_URL))
SHARED ?= ../shared
DRAWS := $(wildcard $(SHARED)/data/tickets/banking77-draw0 $(SHARED)/data/tickets/banking77-draw1 \
	$(SHARED)/data/tickets/clinc150-domains)
SUITES := $(and $(wildcard $(SHARED)/data/json-schema-test-suite),$(wildcard $(SHARED)/data/maskbench),\
	$(SHARED)/data/json-schema-test-suite $(SHARED)/data/maskbench)

.PHONY: demo test test-slow check bench clean
.DEFAULT_GOAL := demo

$(VENV)/local: pyproject.toml constraints.txt
	@echo "Installing into $(VENV): torch alone is some 200 MB without CUDA, several GB with it."
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) --editable ".[local]"
	touch $@

$(VENV)/dev: $(VENV)/local
	$(PIP_INSTALL) --editable ".[dev]"
	touch $@

demo: $(VENV)/local
	$(BIN)/weighbridge model pull
	$(BIN)/weighbridge triage examples/tickets.jsonl --config examples/weighbridge.toml

check: $(VENV)/dev
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy

test: $(VENV)/dev check
	$(BIN)/weighbridge model pull
	$(BIN)/python -m pytest --quiet

test-slow: $(VENV)/dev
	$(BIN)/weighbridge model pull
	$(BIN)/python -m pytest --quiet -m slow

bench: $(VENV)/dev
	$(BIN)/weighbridge model pull
	$(BIN)/python -m bench.engine --shared $(SHARED)
	$(foreach draw,$(DRAWS),$(BIN)/python -m bench.accuracy $(draw) --shots 0 &&) true
	$(foreach draw,$(DRAWS),$(BIN)/python -m bench.learning_curve $(draw) &&) true
	$(if $(DRAWS),$(BIN)/python -m bench.story $(firstword $(DRAWS)))
	$(BIN)/python -m bench.triage
	$(BIN)/python -m bench.latency
	$(BIN)/python -m bench.injection
	$(BIN)/python -m bench.overhead
	$(BIN)/python -m bench.soak --calls 20000
	$(BIN)/python -m bench.queue
	$(foreach draw,$(firstword $(DRAWS)),$(BIN)/python -m bench.learning_time $(draw))
	$(if $(SUITES),$(BIN)/python -m bench.schemas $(SUITES))
	$(if $(SUITES),$(BIN)/python -m bench.schemas_plans $(SUITES))

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis weighbridge-demo.db*
