# The project's commands; each sets up first what it needs. `make demo` needs the base installation only, the others all.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
FEATURES ?= data/features
VIDEO ?= data/big_buck_bunny_252p.mp4

# Modules are compiled once, and not in each of the hundreds of processes that tests start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup setup-base demo test test-slow test-minutes test-lowest faults check format docs generated default-model benchmark-scenes gpu-check \
	reproduce-table1 clean

setup: $(VENV)/.installed

setup-base: $(VENV)/.installed-base

$(VENV)/.installed-base: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@ $(VENV)/.installed-base

demo: setup-base
	$(BIN)/python -m pipelines.datasets.synthetic demo/video.mp4
	$(BIN)/bassl predict demo/video.mp4 --overwrite --min-scene 8 --output demo/found.json --report --quiet
	$(BIN)/bassl score demo/found.json demo/video.scenes.json
	@echo
	@echo "The video: demo/video.mp4. Open demo/found.html to look at its scenes and to correct them."

# A process for each core: threads of their own would only wait for each other.
test: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist worksteal

# Tests of more than ten seconds each: several processes, clusters, kills.
test-slow: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow --numprocesses auto --dist worksteal

# Tests that train for minutes each.
test-minutes: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m minutes --numprocesses auto

# The test suite with the lowest versions of packages that pyproject.toml admits.
test-lowest:
	$(PYTHON) -m venv $(VENV)/lowest
	$(VENV)/lowest/bin/pip install --quiet uv
	$(VENV)/lowest/bin/uv pip install --quiet --python $(VENV)/lowest/bin/python --resolution lowest-direct --editable '.[dev]'
	OMP_NUM_THREADS=1 $(VENV)/lowest/bin/python -m pytest --numprocesses auto --dist worksteal

# Faults of machines, files and videos by the hundred; prints how many were tried, held and broken.
faults: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/faults -m faults --numprocesses 0

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/windows
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The site of all pages and the Python API: open site/index.html. The variable silences an advertisement.
docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

$(VENV)/.installed-docs: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@

# What a program writes: types of options, outputs of the README and of the notebook.
generated: setup
	$(BIN)/python -m recipes.documentation

# Trains the model that ships with the package again, from a folder of per-shot features (see data/README.md). With one
# thread the order of summation, and so the last digits of the weights, do not depend on the number of cores.
default-model: setup
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m recipes.default_model $(FEATURES)

# AP and F1 from video to scenes, for the history in docs/benchmarks.md. VIDEO= is Big Buck Bunny (see data/README.md).
benchmark-scenes: setup
	$(BIN)/python benchmarks/scenes.py $(VIDEO)

# Speed, memory and numbers on a GPU, in eight minutes at most; without one, what needs none.
gpu-check: setup
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/gpu_check.py

# Table 1 of the paper, measured: on MovieNet in data/movienet, or on DATA=FOLDER, or on videos that are generated.
# ROWS=, GPUS=, EPOCHS= and SEEDS= are the options of `bassl reproduce`.
reproduce-table1: setup
	$(BIN)/bassl reproduce table1 $(if $(DATA),--data "$(DATA)") $(if $(ROWS),--rows "$(ROWS)") \
		$(if $(GPUS),--gpus $(GPUS)) $(if $(EPOCHS),--epochs $(EPOCHS)) $(if $(SEEDS),--seeds $(SEEDS))

clean:
	rm -rf demo site .mypy_cache .pytest_cache .ruff_cache
