# Everything a user or a contributor runs. `make` alone lists the targets.
#
#   GO, CMAKE, PYTHON3   the tools, where they are not on the PATH under these names
#   VENV                 where the Python environment is made (.venv)
#   HAWKEYE_PYTHON       an interpreter of your own instead of it; packages are installed into its environment
#   TORCH                what pip installs for the tests with torch; TORCH= leaves torch out and skips them
#   BENCH, GOTEST        further arguments of `hawkeye bench` and of `go test`

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.SUFFIXES:

GO ?= go
CMAKE ?= cmake
PYTHON3 ?= python3
VENV ?= .venv
TORCH ?= torch
BENCH ?=
GOTEST ?=
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
export GO

# A run is the same whatever level the caller's environment asks for; the stages that change it say so.
unexport HAWKEYE_ISA

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
LINTERS := 'ruff==0.17.*' 'mypy==2.4.*'

ifdef HAWKEYE_PYTHON
PYTHON := $(HAWKEYE_PYTHON)
# A stamp says what was installed into one environment; another interpreter has stamps of its own.
STAMPS := build/stamps/$(subst /,_,$(HAWKEYE_PYTHON))
else
PYTHON := $(VENV)/bin/python
STAMPS := $(VENV)/.stamps
endif
PIP := $(PYTHON) -m pip --disable-pip-version-check --quiet
HAWKEYE := $(PYTHON) -m hawkeye

GOLDENS := tests/goldens/h200-torch2.11.jsonl
LOGS := build/logs
SKIPPED := build/skipped.txt

# What goes into the wheel.
SOURCES := $(shell find core simd cuda capi include python tests/goldens -type f \
	-not -path '*/_gen/*' -not -path '*/_lib/*' -not -path '*/__pycache__/*' -not -path '*.egg-info/*' \
	-not -name '*_test.go' 2>/dev/null) \
	setup.py pyproject.toml MANIFEST.in README.md LICENSE VERSION go.mod go.sum

# $(call need,PROGRAM,WHAT TO DO) stops with one sentence where a program is missing.
need = command -v $(1) >/dev/null 2>&1 || { echo "$(1) was not found: $(2)." >&2; exit 1; }
need_go = $(call need,$(GO),install Go 1.24 or newer from your package manager or https://go.dev/dl)
need_cc = $(call need,$${CC:-cc},install gcc (Debian and Ubuntu: apt install gcc g++))
need_cmake = $(call need,$(CMAKE),install CMake 3.20 or newer (Debian and Ubuntu: apt install cmake))
need_python = $(call need,$(PYTHON3),install Python 3.9 or newer (Debian and Ubuntu: apt install python3 python3-venv))
# $(call skip,WHAT AND WHY) notes what a run left out; `make test` lists the notes at its end.
skip = { mkdir -p $(dir $(SKIPPED)); echo "$(1)" | tee -a $(SKIPPED) | sed 's/^/skipped: /'; }
# Goes on where the processor runs GOAMD64=v3.
has_v3 = grep -qw avx2 /proc/cpuinfo && grep -qw fma /proc/cpuinfo && grep -qw bmi2 /proc/cpuinfo && grep -qw movbe /proc/cpuinfo
# $(call gotest,LOG,ARGUMENTS) shows failures, skipped tests, and the figures tests print, without every passing name.
define gotest
	mkdir -p $(LOGS); \
	$(GO) test -v $(GOTEST) $(2) 2>&1 | tee $(LOGS)/$(1).log | \
		{ grep -vE '^(=== |PASS$$|\?| *--- PASS)|\[rapid\] OK' || true; }; \
	awk '/^ *[A-Za-z0-9_]+\.go:[0-9]+: / {sub(/^ *[^ ]+ /, ""); why = $$0} /^ *--- SKIP/ {print $$3 ": " why}' \
		$(LOGS)/$(1).log >> $(SKIPPED)
endef

# ---- for everybody ---------------------------------------------------------------------------------------------------

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(STAMPS)/hawkeye ## replay 517 matmuls recorded on an H200 and show what is reproduced
	@$(HAWKEYE) demo

.PHONY: bench
bench: $(STAMPS)/hawkeye ## measure speed beside OpenBLAS, scaling and memory (BENCH=--quick)
	@$(HAWKEYE) bench $(BENCH)

.PHONY: install
install: $(STAMPS)/hawkeye ## build the wheel and install it into .venv
	@echo "$$($(HAWKEYE) --version) is installed for $(PYTHON)"

.PHONY: wheel
wheel: build/stamps/wheel ## build the wheel into dist/
	@ls dist/*.whl

# ---- for contributors ------------------------------------------------------------------------------------------------

TEST_STAGES := test-go test-race test-generated test-python test-levels test-c test-arm64 test-gpu

.PHONY: test
test: ## run every test, at every instruction set of this processor
	@rm -f $(SKIPPED); mkdir -p $(LOGS); : > $(SKIPPED); times=; \
	for stage in $(TEST_STAGES); do \
		echo; echo "---- $$stage"; start=$$SECONDS; \
		$(MAKE) --no-print-directory $$stage; \
		times+="$$(printf '  %-16s %4d s' $$stage $$((SECONDS - start)))"$$'\n'; \
	done; \
	echo; echo "All tests pass:"; printf '%s' "$$times"; \
	if [ -s $(SKIPPED) ]; then echo "Skipped:"; sort -u $(SKIPPED) | sed 's/^/  /'; else echo "Nothing was skipped."; fi

.PHONY: test-go
test-go: ## go vet and go test, compiled for GOAMD64 v1 and v3
	@$(need_go); $(need_cc)
	@$(GO) vet ./...
	@echo "GOAMD64=v1"; export GOAMD64=v1; $(call gotest,go-v1,./...)
	@if [ "$$($(GO) env GOARCH)" != amd64 ]; then $(call skip,GOAMD64=v3: this machine is not amd64); \
	elif $(has_v3); then \
		echo "GOAMD64=v3"; export GOAMD64=v3; $(call gotest,go-v3,./...); \
	else $(call skip,GOAMD64=v3: this processor lacks AVX2 or FMA); fi

.PHONY: test-race
test-race: ## the Go tests of core, cuda and capi under the race detector (short)
	@$(need_go); $(need_cc)
	@$(call gotest,race,-race -short ./core/... ./cuda ./capi/...)

.PHONY: test-generated
test-generated: ## the kernel generator compiles, and the generated files are what it writes
	@$(need_go)
	@cd simd/_gen && $(GO) vet ./... && $(GO) build -o /dev/null ./...
	@$(call regenerate,exit 1)

.PHONY: test-python
test-python: $(STAMPS)/hawkeye $(STAMPS)/test ## pytest on the installed wheel
	@$(PYTHON) -m pytest -q tests/python
	@$(PYTHON) -c 'import torch' 2>/dev/null || $(call skip,the Python tests with torch: it is not installed)

# Recorded later: pairs that share a row, and 300 random products of every kind.
LATER_SETS := tests/goldens/h200-pairs.jsonl tests/goldens/h200-fresh.jsonl

# The fastest level replays the whole golden set, the others its cases of fewer multiply-adds than this, seven in eight.
SMALL_CASE := 3e8
small_cases = $$($(PYTHON) -c 'import json; print(*("--only " + c["id"] for c in map(json.loads, open("$(GOLDENS)")) \
	if "id" in c and c["batch"] * c["m"] * c["n"] * c["k"] < $(SMALL_CASE)))')

.PHONY: test-levels
test-levels: $(STAMPS)/hawkeye ## the golden set and the Go tests at each instruction set of this processor
	@mkdir -p $(LOGS); rm -f $(LOGS)/golden-*.txt; only=; \
	for level in $$($(PYTHON) -c 'import hawkeye; print(*[l for l in hawkeye.instruction_sets() if l != "oracle"])'); do \
		export HAWKEYE_ISA=$$level; echo "HAWKEYE_ISA=$$level"; \
		$(call gotest,level-$$level,-short ./core/... ./capi/...); \
		$(HAWKEYE) golden $(GOLDENS) $$only > $(LOGS)/golden-$$level.txt 2>&1 || { cat $(LOGS)/golden-$$level.txt; exit 1; }; \
		sed -n '/By kernel family/,/^all/p' $(LOGS)/golden-$$level.txt; tail -1 $(LOGS)/golden-$$level.txt; \
		if [ -z "$$only" ]; then for set in $(LATER_SETS); do \
			$(HAWKEYE) golden $$set > $(LOGS)/golden-later.txt 2>&1 || { cat $(LOGS)/golden-later.txt; exit 1; }; \
			sed -n '/^h200/p; $$p' $(LOGS)/golden-later.txt; \
		done; fi; \
		only=$(small_cases); \
	done; \
	for level in avx512 avx2; do \
		[ -f $(LOGS)/golden-$$level.txt ] || $(call skip,$$level: this processor does not have it); \
	done

.PHONY: test-c
test-c: ## the C and C++ tests, on the built and on the installed library
	@$(need_go); $(need_cc); $(need_cmake); mkdir -p $(LOGS)
	@$(CMAKE) -S . -B build/cmake -DCMAKE_BUILD_TYPE=Release -DHAWKEYE_GO="$$(command -v $(GO))" > $(LOGS)/cmake.log || { cat $(LOGS)/cmake.log; exit 1; }
	@$(CMAKE) --build build/cmake -j $(JOBS)
	@ctest --test-dir build/cmake --output-on-failure -j $(JOBS)
	@grep -q 'hawkeye.pc is not tested' $(LOGS)/cmake.log && $(call skip,hawkeye.pc: pkg-config is not installed) || true

.PHONY: test-arm64
test-arm64: ## build for arm64, and run the reference model's tests under qemu
	@$(need_go)
	@export GOARCH=arm64 CGO_ENABLED=0; \
	$(GO) vet ./core/... ./simd/...; \
	if qemu=$$(command -v qemu-aarch64 || command -v qemu-aarch64-static); then \
		$(call gotest,arm64,-short -exec $$qemu ./core/format ./core/step); \
	else $(call skip,arm64: qemu-aarch64 is not installed (Debian and Ubuntu: apt install qemu-user)); fi

.PHONY: test-gpu
test-gpu: $(STAMPS)/hawkeye $(STAMPS)/test ## compare with torch on a GPU of this machine
	@if $(PYTHON) -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then \
		$(PYTHON) tests/gpu/compare_matmul.py; \
	else $(call skip,the comparison with torch on a GPU: this machine has none); fi

.PHONY: lint
lint: $(STAMPS)/lint ## gofmt, go vet, staticcheck, ruff, mypy
	@$(need_go)
	@unformatted=$$($$($(GO) env GOROOT)/bin/gofmt -l $$(find core simd cuda capi -name '*.go')); \
	[ -z "$$unformatted" ] || { echo "gofmt would change:"; echo "$$unformatted"; exit 1; }
	@$(GO) vet ./...
	@$(GO) run $(STATICCHECK) ./...
	@cd simd/_gen && $(GO) vet ./... && $(GO) run $(STATICCHECK) ./...
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m mypy
	@echo "lint: nothing to say"

# What avo writes, before and after: sums of every file of simd that is not the generator's own.
sums = find simd -path simd/_gen -prune -o -type f -print | LC_ALL=C sort | xargs sha256sum
# $(call regenerate,WHAT TO DO WHERE SOMETHING CHANGED)
define regenerate
	before=$$($(sums)); $(GO) generate ./...; after=$$($(sums)); \
	if [ "$$before" = "$$after" ]; then echo "The generated files are what the generator writes."; \
	else \
		echo "Not what the generator writes, and written again:"; \
		diff <(echo "$$before") <(echo "$$after") | sed -n 's/^> *[0-9a-f]*/ /p'; $(1); \
	fi
endef

.PHONY: generate
generate: ## write the assembly kernels again with avo
	@$(need_go)
	@$(call regenerate,true)

.PHONY: golden-plans
golden-plans: $(STAMPS)/hawkeye ## write docs/golden-plans.md, the plan of every golden case
	@mkdir -p $(LOGS); $(HAWKEYE) golden $(GOLDENS) --json > $(LOGS)/plans.json
	@$(PYTHON) tests/goldens/plan_table.py $(LOGS)/plans.json > docs/golden-plans.md

.PHONY: clean
clean: ## remove everything built; .venv stays
	rm -rf build dist python/*.egg-info python/hawkeye/_lib python/hawkeye/_goldens
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis tests/python/.hypothesis
	find python tests -name __pycache__ -type d -prune -exec rm -rf {} +

# ---- the Python environment ------------------------------------------------------------------------------------------

$(STAMPS)/python:
	@$(need_python)
	@$(PYTHON3) -c 'import sys; sys.exit(sys.version_info < (3, 9))' || \
		{ echo "Hawkeye needs Python 3.9 or newer: name one with PYTHON3=." >&2; exit 1; }
ifndef HAWKEYE_PYTHON
	@[ -x $(PYTHON) ] || $(PYTHON3) -m venv $(VENV) > $(VENV).log 2>&1 || \
		{ rm -rf $(VENV) $(VENV).log; echo "$(PYTHON3) cannot make a virtual environment: install its venv module (Debian and Ubuntu: apt install python3-venv)." >&2; exit 1; }
	@rm -f $(VENV).log
	@$(PIP) install --upgrade pip
endif
	@mkdir -p $(STAMPS) && touch $@

build/stamps/wheel: $(SOURCES) | $(STAMPS)/python
	@$(need_go); $(need_cc)
	@echo "Building the wheel"
	@rm -rf build/lib build/bdist.* dist/*.whl  # setuptools would put files of an earlier build into this one
	@$(PIP) wheel --no-deps --wheel-dir dist .
	@mkdir -p $(@D) && touch $@

$(STAMPS)/hawkeye: build/stamps/wheel | $(STAMPS)/python
	@echo "Installing it into $(if $(HAWKEYE_PYTHON),the environment of $(HAWKEYE_PYTHON),$(VENV))"
	@$(PIP) uninstall --yes hawkeye 2>/dev/null  # pip leaves an installed package of the same version as it is
	@$(PIP) install dist/*.whl
	@touch $@

$(STAMPS)/test: | $(STAMPS)/python
	@echo "Installing what the Python tests need (torch is several gigabytes; TORCH= leaves it out)"
	@$(PIP) install 'pytest>=7' 'hypothesis>=6' jsonschema 'setuptools>=64' $(TORCH)
	@touch $@

# numpy, ml_dtypes, rich and typer for their types.
$(STAMPS)/lint: | $(STAMPS)/python
	@$(PIP) install $(LINTERS) numpy ml_dtypes rich typer
	@touch $@
