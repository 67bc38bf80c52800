# Sets up, tests and builds the project; everything generated goes to build/. Requires bash, make, a
# C++17 compiler, and a Python of tools/setup/releases.txt, with its venv module.
#
#   TF          release of TensorFlow, of those in tools/setup/releases.txt (default: the first of these);
#               each has an environment of its own
#   PYTHON      interpreter for the virtual environment (default: the newest suitable one)
#   WORKERS     number of processes that run tests (default: one more than cores, as tests often wait;
#               at most 8)
#   TESTS       what `make test` runs (default: all tests): "tests/rules tests/session"
#   SHARE       which part of the slow tests to run: 3/8 is the third of eight (default: all)
#   TENSORFLOW  tensorflow-cpu (default) or tensorflow, the wheel for GPUs
#   SOAK_SECONDS, SOAK_SEED  how long `make soak` kills tasks (600), and which (any)
#   FUZZ_SECONDS, FUZZ_SEED  how long `make fuzz` tries models (600), and which (any)
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := help

HOME_RELEASE := $(shell tools/setup/release.sh default)
TF ?= $(HOME_RELEASE)
PYTHON ?=
WORKERS ?= $(shell expr $$(nproc) + 1)
TESTS ?= tests
SHARE ?=
TENSORFLOW ?= tensorflow-cpu
SOAK_SECONDS ?= 600
SOAK_SEED ?=
FUZZ_SECONDS ?= 600
FUZZ_SEED ?=

# Compiled modules are kept, even where a machine is set up otherwise: tests start many processes.
unexport PYTHONDONTWRITEBYTECODE

# The two wheels contain the same files, so each gets its own environment.
ifeq ($(TENSORFLOW),tensorflow-cpu)
DEVICE := cpu
VENV := build/venv$(if $(filter-out $(HOME_RELEASE),$(TF)),-tf$(TF))
else ifeq ($(TENSORFLOW),tensorflow)
DEVICE := gpu
VENV := build/venv-gpu
else
$(error TENSORFLOW=$(TENSORFLOW) is neither tensorflow-cpu (the default) nor tensorflow)
endif

ifneq ($(TF),$(HOME_RELEASE))
ifneq ($(TENSORFLOW),tensorflow-cpu)
$(error TENSORFLOW=$(TENSORFLOW) is set up with TensorFlow $(HOME_RELEASE) only)
endif
# Later releases have Keras 3, and Keras 2 as well if they are told.
export TF_USE_LEGACY_KERAS ?= 1
endif

PINS := constraints/$(TF).txt
RUN := $(VENV)/bin/python
WHEEL_TOOLS := build/venv-wheel
PIP := tools/setup/quietly.sh $(VENV)/setup.log $(RUN) -m pip
INSTALL := tools/setup/install.sh $(VENV) $(TF)
PYTEST := $(RUN) -m pytest -q -ra
PARALLEL := -n $(WORKERS) --maxprocesses=8 --dist worksteal
ifneq ($(SHARE),)
IN_SHARE := --splits $(lastword $(subst /, ,$(SHARE))) --group $(firstword $(subst /, ,$(SHARE))) \
  --splitting-algorithm least_duration
endif
NATIVE_SOURCES := $(shell find ops_src -type f -not -path '*/__pycache__/*')
CLANG_FORMATTED := $(shell find ops_src tests tools -name '*.cc' -o -name '*.h' -o -name '*.cu')
HOROVOD_TESTS := $(shell grep -l NEEDS_HOROVOD -r tests --include='test_*.py')
COMPILED_TESTS := $(shell grep -l compiled_once -r tests --include='test_*.py')
# What every release of TensorFlow is tested with: all that runs with one. Not tests of C++ that knows no TensorFlow, nor
# of the documentation, the tools and the page of a graph.
RELEASE_TESTS := $(addprefix tests/,checking cli config contrib conversion cost deeprec distributed_embeddings dynamic \
  embedding embedding_variable examples export graph input inspect launch optimizers passes releases reporting rules \
  runtime serving session sharding sok strategy table_files) $(filter-out $(COMPILED_TESTS),$(wildcard tests/ops/test_*.py))

.PHONY: help setup demo demo-horovod test test-release test-horovod test-releases test-slow test-all browser cross lint format bench figures peers gpu-check soak fuzz docs horovod wheel wheel-check lock clean
help: ## List these targets
	@sed -n 's/^\([a-z%-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

setup: $(VENV)/.tests-compiled $(if $(filter $(HOME_RELEASE),$(TF)),$(VENV)/.with-lint) ## Set up and compile all that tests and lint need

# TensorFlow's information, and a warning for each traced step without a GPU, would tear the progress
# bars.
demo: export TF_CPP_MIN_LOG_LEVEL ?= 2
demo: $(VENV)/.built ## Train the demo model with a stock session and with graph_opt, and compare them
	@$(RUN) -m tools.demo

demo-horovod: export TF_CPP_MIN_LOG_LEVEL ?= 2
demo-horovod: $(VENV)/.built $(VENV)/.with-horovod ## Train the demo model on two ranks of Horovod, in several ways
	@$(RUN) -m tools.demo.ranks

test: $(VENV)/.$(if $(filter tests,$(TESTS)),tests-compiled,built) $(VENV)/.with-test ## Run the quick tests
	@$(PYTEST) $(PARALLEL) -m "not slow" $(TESTS)

test-release: export TF_CPP_MIN_LOG_LEVEL ?= 2
test-release: $(VENV)/.built $(VENV)/.with-test ## Train the demo briefly, and run what each release of TensorFlow is tested with
	@$(RUN) -m tools.demo --rounds 9 --adam-only build/releases/$(TF)/demo.json
	@$(PYTEST) $(PARALLEL) -m "not slow or example" --junit-xml build/releases/$(TF)/tests.xml $(RELEASE_TESTS)

test-horovod: $(VENV)/.built $(VENV)/.with-test $(VENV)/.with-horovod ## Run the tests of ranks of Horovod, with any release of TensorFlow
	@$(PYTEST) $(PARALLEL) -m horovod $(HOROVOD_TESTS)

test-releases: build/venv/.built ## Do so with all releases, and write what came of it to docs/releases.md (hours)
	@build/venv/bin/python -m tools.releases

# With all groups, as tests of what is not installed are skipped.
test-slow: $(VENV)/.tests-compiled $(VENV)/.with-bench $(VENV)/.with-docs $(VENV)/.with-horovod build/old_libraries/libstdc++.so ## Run the slow tests, or a SHARE=3/8 of them
	@failed=0; \
	$(PYTEST) $(PARALLEL) $(IN_SHARE) --durations=10 --durations-min=30 -m "slow and not alone" tests || failed=1; \
	$(PYTEST) $(IN_SHARE) -m "slow and alone" tests || failed=1; \
	exit $$failed

test-all: test test-slow ## Run all tests

browser: ## Install the browser that tests of pages use (Debian or Ubuntu, as root)
	@tools/setup/browser.sh

cross: $(VENV)/.created ## Install what tests on an emulated aarch64 use (Debian or Ubuntu, as root)
	@tools/setup/aarch64.sh $(VENV) $(TF) build/aarch64/$(TF)

lint: $(VENV)/.with-lint $(VENV)/.with-test ## Check style, types and formatting without changing anything
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy
	@$(VENV)/bin/clang-format --dry-run -Werror $(CLANG_FORMATTED)

format: $(VENV)/.with-lint ## Format the sources the way `make lint` expects
	@$(RUN) -m ruff check --fix .
	@$(RUN) -m ruff format .
	@$(VENV)/bin/clang-format -i $(CLANG_FORMATTED)

bench: $(VENV)/.built $(VENV)/.with-test $(VENV)/.with-bench $(VENV)/.with-horovod peers ## Run all benchmarks and write the figures to build/bench/
	@$(RUN) -m tools.bench

figures: $(VENV)/.built $(VENV)/.with-bench ## Update the figures in docs/ from build/bench/
	@$(RUN) -m tools.bench.publish

peers: $(VENV)/.created ## Install the competitors of the group_lookup benchmark, as far as possible
	@tools/setup/peers.sh build/peers $(RUN)

bench-group_lookup bench-dynamic: peers
bench-collectives bench-scaling: $(VENV)/.with-horovod
bench-deeprec: $(VENV)/.with-test
bench-%: $(VENV)/.built $(VENV)/.with-bench ## Run one benchmark: adam, deeprec, train, ... (docs/benchmarks.md)
	@$(RUN) -m tools.bench $*

gpu-check: $(VENV)/.installed ## Build the GPU kernels, then check and time them on a GPU
	@$(RUN) -m tools.gpu_check

soak: export TF_CPP_MIN_LOG_LEVEL ?= 2
soak: $(VENV)/.built ## Train on a cluster whose tasks are killed at random, and count batches
	@$(RUN) -m tools.soak --seconds $(SOAK_SECONDS) $(if $(SOAK_SEED),--seed $(SOAK_SEED))

fuzz: export TF_CPP_MIN_LOG_LEVEL ?= 2
fuzz: $(VENV)/.built $(VENV)/.with-test ## Try random models of all kinds with fresh seeds, and print what fails
	@$(RUN) -m tools.fuzz --seconds $(FUZZ_SECONDS) $(if $(FUZZ_SEED),--seed $(FUZZ_SEED))

docs: $(VENV)/.built $(VENV)/.with-docs ## Update the tables in docs/, and build the documentation as a site in build/docs/
	@$(RUN) -m tools.docs

horovod: $(VENV)/.built $(VENV)/.with-horovod ## Build Horovod into the environment (takes a few minutes)

wheel: $(VENV)/.built build/old_libraries/libstdc++.so ## Build a portable wheel in build/dist/, and its bill of materials (CycloneDX)
	@rm -rf build/unchecked_wheel
	@GRAPH_OPT_PORTABLE=1 $(PIP) wheel --no-deps --no-build-isolation -w build/unchecked_wheel .
	@tools/setup/portable_wheel.sh $(WHEEL_TOOLS) build/unchecked_wheel/*.whl build/dist
	@tools/setup/bill.sh $(WHEEL_TOOLS) $(TF) $(DEVICE) build/unchecked_wheel/*.whl build/dist
	@ls build/dist/*

wheel-check: $(VENV)/.created $(WHEEL_TOOLS)/.installed ## Install that wheel in a clean environment, train with it, look at what it needs
	@$(RUN) -m tools.wheel_check --tensorflow $(TF) --tools $(WHEEL_TOOLS)

# With the default environment's uv, which Python 3.7 has no wheels of.
lock: build/venv/.created ## Update all pinned dependencies of a release of TensorFlow in constraints/
	@tools/setup/lock.sh build/venv $(TF) $(HOME_RELEASE)

clean: ## Remove everything generated, including the environments
	@rm -rf build *.egg-info graph_opt/*/*.so

# Of one release for all: Python 3.7 has none of these tools.
$(WHEEL_TOOLS)/.installed: pyproject.toml constraints/$(HOME_RELEASE).txt
	@tools/setup/environment.sh $(WHEEL_TOOLS) $(HOME_RELEASE)
	@echo "==> $(WHEEL_TOOLS): installing what wheels are linked and checked with"
	@tools/setup/install.sh $(WHEEL_TOOLS) $(HOME_RELEASE) wheel
	@touch $@

build/old_libraries/libstdc++.so: tools/setup/old_libraries.py $(WHEEL_TOOLS)/.installed
	@tools/setup/require_compiler.sh
	@echo "==> build/old_libraries: writing stubs of old libraries to link against"
	@tools/setup/quietly.sh build/old_libraries.log $(WHEEL_TOOLS)/bin/python $< $(@D)

# Each set-up step leaves a stamp in the environment and runs again when one of its inputs is newer
# than the stamp. The script of the first step always runs, but touches its stamp only if it created
# the environment.
.PHONY: FORCE
$(VENV)/.created: FORCE
	@tools/setup/environment.sh $(VENV) $(TF) $(PYTHON)

# TensorFlow is installed before the package itself, whose ops are compiled against it, and whose files
# have no hashes.
$(VENV)/.installed: $(VENV)/.created pyproject.toml setup.py $(PINS)
	@tools/setup/require_compiler.sh
	@echo "==> $(VENV): installing $(TENSORFLOW) and the other dependencies (a few minutes the first time)"
	@$(INSTALL) build $(DEVICE) demo
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.built: $(VENV)/.installed $(NATIVE_SOURCES) graph_opt/cli/release.py
	@tools/setup/require_compiler.sh
	@echo "==> graph_opt: compiling the ops"
	@tools/setup/quietly.sh $(VENV)/setup.log $(RUN) setup.py build_ext --inplace
	@touch $@

$(VENV)/.tests-compiled: $(VENV)/.built $(VENV)/.with-test $(CLANG_FORMATTED) $(COMPILED_TESTS)
	@echo "==> build/compiled_tests: compiling the C++ tests"
	@tools/setup/quietly.sh $(VENV)/setup.log $(PYTEST) $(PARALLEL) --setup-only -m "not slow" $(COMPILED_TESTS)
	@touch $@

$(VENV)/.with-horovod: $(VENV)/.installed tools/setup/horovod.sh
	@tools/setup/require_compiler.sh
	@echo "==> $(VENV): installing Horovod, compiled for TensorFlow $(TF) (minutes the first time)"
	@tools/setup/horovod.sh $(VENV) $(TF)
	@touch $@

$(VENV)/.with-%: $(VENV)/.installed
	@echo "==> $(VENV): installing what $* needs"
	@$(INSTALL) $*
	@touch $@
