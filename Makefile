# The front door: every target does its own set-up. HACKING.md says more.
#
# On a machine without a package registry (a GPU node):  make OFFLINE=1 PYTHON=python3 WHEELS=dir test

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
# Looked up before .venv/bin comes first on PATH.
override PYTHON := $(shell command -v $(PYTHON) || echo $(PYTHON))
QUIETLY := .ci/quietly
SOURCES := $(shell find broker share csrc hooks emulator tests/c pump -type f -not -path '*/__pycache__/*' -not -name '*.md') \
           CMakeLists.txt pyproject.toml
# One build tree for the package, the core and the C tests.
CONFIG := --config-settings=build-dir=build/dev --config-settings=cmake.define.ULMS_TESTS=ON
INSTALL := install --no-deps --no-build-isolation $(CONFIG)

ifdef OFFLINE
SITE := $(CURDIR)/build/site
TOOLS := build/site/.tools
INSTALLED := build/site/.installed
PY := $(PYTHON) -P
export PYTHONPATH := $(SITE)$(if $(PYTHONPATH),:$(PYTHONPATH))
export PATH := $(SITE)/bin:$(PATH)
export OFFLINE
else
TOOLS := .venv/.tools
INSTALLED := .venv/.installed
PY := .venv/bin/python -P
export PATH := $(CURDIR)/.venv/bin:$(PATH)
endif

export PUMP_BUILD_DIR := $(CURDIR)/build/dev
# Without byte code every process of Python compiles what it imports.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/build/pycache

.PHONY: help demo check test lint audit bench gpu soak format build wheels clean

help: ## list the targets
	@echo "PUMP: run CUDA programs that need more GPU memory than there is. make TARGET:"; echo
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(INSTALLED) ## a program on the emulated device, and recorded training steps in virtual time
	@$(PY) tests/emu/demo.py
	@echo; $(PY) -m pump.bench run gpt2-medium decode-8b resnet50 --device sim --plots build/bench

# They load libraries that keep something for each thread, together more than a program has room for that has begun.
check test bench: export GLIBC_TUNABLES := glibc.rtld.optional_static_tls=16384

check: $(INSTALLED) ## the inner loop, two minutes: lint, C tests, quick unit tests
	@$(PY) .ci/steps.py lint c check

test: $(INSTALLED) ## everything CI runs: lint, C tests, sanitizers, Python tests
	@$(PY) .ci/steps.py lint c sanitizers emu alone unit

lint: $(TOOLS) ## formatting, ruff, mypy, codespell
	@$(PY) .ci/steps.py lint

# Wheels with the vendor's headers and libraries: the newest, or as in AUDIT_CUDNN=nvidia-cudnn-cu12==8.9.7.29.
AUDIT_CUDA ?= nvidia-cuda-runtime nvidia-cuda-runtime-cu12
AUDIT_CUBLAS ?= nvidia-cublas nvidia-cublas-cu12
AUDIT_CUDNN ?= nvidia-cudnn-cu13
AUDIT_NCCL ?= nvidia-nccl-cu13
# The compiler and the disassembler of machine code, and libraries with much of it.
AUDIT_CODE ?= nvidia-cuda-nvrtc nvidia-cuda-nvdisasm bitsandbytes cupy-cuda13x

audit: $(INSTALLED) ## compare the tables with the vendor's headers, libraries and machine code: downloads 1.8 GB of wheels
	@$(PY) .ci/audit.py $(AUDIT_CUDA) $(AUDIT_CUBLAS) $(AUDIT_CUDNN) $(AUDIT_NCCL) $(AUDIT_CODE)

bench: $(INSTALLED) ## the micro-benchmarks
	@$(PY) -m pytest bench/micro --benchmark-sort=name --told build/micro.json

soak: $(INSTALLED) ## random programs for MINUTES (30), on all cores, until one differs from its native run
	@PYTHONPATH=.$${PYTHONPATH:+:$$PYTHONPATH} $(PY) -m tests.soak --minutes $(or $(MINUTES),30)

gpu: $(INSTALLED) ## the tests that need a real GPU; wants ULMS_MANAGED_LIMIT of 8GiB or less
	@$(PY) .ci/gpu_guard.py
	@$(PY) -m pytest tests -m gpu

format: $(TOOLS) ## format C and Python
	@$(PY) .ci/steps.py format

build: $(INSTALLED) ## the package, into .venv (OFFLINE: build/site)

wheels: $(INSTALLED) ## wheels of both machines into dist/, tried in bare systems; three minutes
	@$(PY) .ci/requirements.py wheels >build/wheels.txt
	@$(QUIETLY) wheel-tools $(PY) -m pip install -r build/wheels.txt
	@$(PY) .ci/wheels.py
	@PUMP_WHEELS=dist $(PY) -m pytest tests/emu/test_wheels.py -rA

clean: ## remove what was built, .venv too
	rm -rf build dist .venv

ifdef OFFLINE

$(TOOLS): pyproject.toml
	@mkdir -p build/site
	@$(if $(WHEELS),$(QUIETLY) wheels $(PYTHON) -m pip install --no-index --no-deps --upgrade --target build/site $(WHEELS)/*.whl)
	@$(PYTHON) .ci/check_machine.py
	@touch $@

$(INSTALLED): $(TOOLS) $(SOURCES)
	@$(QUIETLY) build $(PYTHON) -m pip $(INSTALL) --no-index --upgrade --target build/site .
	@touch $@

else

$(TOOLS): pyproject.toml .ci/requirements.py
	@$(PYTHON) .ci/check_machine.py
	@$(QUIETLY) venv $(PYTHON) -m venv --clear .venv
	@.venv/bin/python .ci/requirements.py >.venv/requirements.txt
	@$(QUIETLY) tools .venv/bin/python -m pip install -r .venv/requirements.txt
	@touch $@

$(INSTALLED): $(TOOLS) $(SOURCES)
	@$(QUIETLY) build .venv/bin/python -m pip $(INSTALL) --editable .
	@touch $@

endif
