# `make help` lists the targets.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
FUZZ_SECONDS ?= 0

# The system's CMake if there is one, else the one that .dev gets from PyPI.
CMAKE   = $(or $(shell command -v cmake),$(abspath $(BIN)/cmake))
NATIVE := native/CMakeLists.txt native/agent.map $(wildcard native/src/* native/fit/*)
CXX_SOURCES := $(wildcard native/fit/*.cpp native/fit/*.h native/src/*.cpp native/src/*.h native/tests/*.cpp native/tests/*.h)
SOURCES := src tests benchmarks docs examples web
# The pages need npm; without it everything else works.
NPM    := $(shell command -v npm)
WEB    := $(wildcard web/*.json web/*.ts web/src/*.ts* web/src/*/*.ts* web/style/*.css)
JOBS   := $(shell nproc)
# Older thread sanitizers do not start where addresses are randomised more than they expect.
STEADY := $(shell setarch --addr-no-randomize true 2>/dev/null && echo setarch --addr-no-randomize)
# The variant `plain` is what `make agent` installs; all others have the tests.
native-options = -DTTMEM_WERROR=ON -DTTMEM_NATIVE_TESTS=$(if $(filter plain,$(1)),OFF,ON) \
  -DTTMEM_SANITIZE=$(filter address thread,$(notdir $(1)))
# Builds .cache/native/<variant>; prints only errors.
native-build = $(CMAKE) -G "Unix Makefiles" -S native -B .cache/native/$(1) $(call native-options,$(1)) $(2) >/dev/null \
	  && $(CMAKE) --build .cache/native/$(1) --parallel $(JOBS) >/dev/null

.DEFAULT_GOAL := help
.PHONY: help demo check test setup agent native-test native-test-aarch64 web web-types web-test lint format bench fuzz pictures \
  screens man docs wheel clean

help:  ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
	  || { echo "ttmem needs Python 3.10 or newer; set PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "python3 lacks venv; on Debian and Ubuntu: apt install python3-venv"; exit 1; }

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	@echo "setting up $(VENV), which takes a minute and is done once" >&2
	@$(PIP) --editable '.[top]' \
	  || { echo "pip could not install ttmem: is PyPI, or what PIP_INDEX_URL names, within reach?"; exit 1; } >&2
	@$(BIN)/python -c 'from ttmem.agent import missing_reason as m; m() and print("note:", m())'
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml
	@TTMEM_REQUIRE_AGENT=1 $(PIP) --config-settings=cmake.define.TTMEM_WEB=OFF --editable '.[dev]'
	@command -v cmake >/dev/null || $(PIP) cmake
	@touch $(VENV)/.installed $@

# When a source changes, CMake rebuilds what pip has built, in the same place.
$(VENV)/.agent: $(VENV)/.dev $(NATIVE)
	@$(call native-build,plain)
	@$(CMAKE) --install .cache/native/plain \
	  --prefix "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')" >/dev/null
	@touch $@

# The pages: built in web/dist, installed where ttmem.pages finds them.
web/node_modules/.made: web/package.json web/package-lock.json
	@cd web && npm ci --ignore-scripts --silent
	@touch $@

web/dist/live.js: web/node_modules/.made $(WEB)
	@cd web && rm -rf dist && npm run --silent build
	@touch $@

$(VENV)/.web: $(VENV)/.dev $(if $(NPM),web/dist/live.js)
ifeq ($(NPM),)
	@echo "note: there is no npm, so the pages of ttmem report and ttmem web are not built"
else
	@folder=$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')/ttmem/pages/bundle \
	  && mkdir -p "$$folder" && cp web/dist/* "$$folder"
endif
	@touch $@

demo: $(VENV)/.installed  ## set up, then run a server, simulated devices and the dashboard
	@$(BIN)/ttmem demo

test: $(VENV)/.agent $(VENV)/.web  ## set up, then run every test
	@$(BIN)/python -m pytest --numprocesses $(JOBS) --maxprocesses 8 --dist worksteal $(PYTEST_ARGS)

check: $(VENV)/.agent $(VENV)/.web lint  ## lint, and short unit tests without fuzzing; `make test` runs everything
	@TTMEM_TESTS=brief $(BIN)/python -m pytest --quiet --numprocesses $(JOBS) --maxprocesses 8 --dist worksteal \
	  --ignore-glob 'tests/unit/test_fuzz*' tests/unit

setup: $(VENV)/.agent $(VENV)/.web  ## create .venv with the development tools

agent: $(VENV)/.agent  ## rebuild and install the native agent after a change
	@$(BIN)/python -c 'from ttmem.agent import require; print(require())'

web: $(VENV)/.web  ## rebuild and install the pages after a change in web/
	@$(if $(NPM),ls -l web/dist | awk '/(js|css)$$/ {print $$9 ": " $$5 " bytes"}')

web-types: $(VENV)/.dev  ## write web/src/documents.ts, the types of the pages, from the Python schema
	@$(BIN)/python web/generate_documents.py

web-test: web/node_modules/.made  ## check the types of the pages and run their unit tests
	@cd web && npm run --silent types && npm run --silent test

native-test: native-test-plain native-test-address native-test-thread  ## run the agent's own tests, also under sanitizers

# Built where the Python tests look for it (native/tests/build.py), with the same lock.
native-test-%: $(VENV)/.dev
	@echo "native tests: $*"
	@mkdir -p .cache/native/tests/$*
	@flock .cache/native/tests/$*/.lock sh -c '$(call native-build,tests/$*)'
	@cd .cache/native/tests/$* && $(STEADY) $(dir $(CMAKE))ctest --output-on-failure --no-tests=error

# In emulation. Debian's packages are g++-aarch64-linux-gnu and qemu-user-static.
native-test-aarch64: $(VENV)/.dev
	@echo "native tests: aarch64"
	@$(call native-build,aarch64,-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
	  -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ \
	  '-DCMAKE_CROSSCOMPILING_EMULATOR=qemu-aarch64-static;-L;/usr/aarch64-linux-gnu')
	@cd .cache/native/aarch64 && $(dir $(CMAKE))ctest --output-on-failure --no-tests=error

lint: $(VENV)/.dev $(if $(NPM),web/node_modules/.made)  ## run ruff, mypy --strict, clang-format, and tsc on the pages
	@$(BIN)/ruff check $(SOURCES)
	@$(BIN)/ruff format --check $(SOURCES)
	@$(BIN)/mypy --strict
	@$(BIN)/clang-format --dry-run --Werror $(CXX_SOURCES)
	@$(if $(NPM),cd web && npm run --silent types)

format: $(VENV)/.dev  ## format with ruff and clang-format, and apply ruff's fixes
	@$(BIN)/ruff check --fix --quiet $(SOURCES) || true
	@$(BIN)/ruff format --quiet $(SOURCES)
	@$(BIN)/clang-format -i $(CXX_SOURCES)

bench: $(VENV)/.agent $(VENV)/.web  ## run the benchmarks and compare them with their budgets
	@$(BIN)/python -m benchmarks

fuzz: $(VENV)/.dev  ## fuzz decoders, account and server until stopped (FUZZ_SECONDS=60 for a limit)
	@$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS)

pictures: $(VENV)/.agent $(VENV)/.web  ## regenerate the pictures in docs/ from real screens
	@PYTHONPATH=. $(BIN)/python docs/pictures/make.py
	@PYTHONPATH=. $(BIN)/python docs/pictures/pages.py

# Tests that compare screens with files mention `make screens` in their docstrings.
screens: $(VENV)/.agent $(VENV)/.web  ## regenerate the screens in tests/data; then read the diff
	@TTMEM_RENEW_SCREENS=1 $(BIN)/python -m pytest --quiet --numprocesses $(JOBS) \
	  $$(grep --files-with-matches '^`make screens`' tests/unit/test_*.py tests/integration/test_*.py)
	@git diff --stat -- tests/data

man: $(VENV)/.dev  ## write the manual page build/ttmem.1, from the command-line parsers
	@mkdir -p build
	@$(BIN)/python docs/man_page.py > build/ttmem.1

docs: $(VENV)/.docs  ## build the documentation site in build/site; fails on broken links
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict --site-dir build/site
	@echo "build/site/index.html"

$(VENV)/.docs: $(VENV)/.installed
	@$(PIP) --editable '.[docs]'
	@touch $@

wheel: $(VENV)/.dev web/dist/live.js  ## build the files of a release: dist/*.tar.gz and a manylinux wheel
	@rm -rf dist build/wheel
	@$(BIN)/python -c 'from scikit_build_core.build import build_sdist; build_sdist("dist")' >/dev/null
	@TTMEM_REQUIRE_AGENT=1 TTMEM_REQUIRE_WEB=1 \
	  $(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir build/wheel .
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist build/wheel/*.whl 2>/dev/null >/dev/null
	@ls dist

clean:  ## remove everything that was built
	rm -rf $(VENV) .cache build dist web/dist web/node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis
