# Prerequisites: Python 3.11 or newer, make; Java 17 for Spark; git 2.38 for the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TESTS ?= tests
# Another Spark than the default, such as SPARK=4.0: its tests have an environment of their own.
SPARK ?=
SPARK_VENV := $(if $(SPARK),.venv-spark-$(SPARK),$(VENV))

.PHONY: help demo demo-local test test-unit test-spark lint format types check-python check-demo-tools check-test-tools clean

help: ## show the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

demo: check-demo-tools $(VENV)/demo.stamp ## set up and run the main job: real data through PySpark; needs Java 17
	@$(BIN)/python -m jobs.demo

demo-local: $(VENV)/demo-local.stamp ## a story with conflicts and a revert on the same data, without Spark and Java
	@$(BIN)/python -m jobs.demo_local

test: check-test-tools $(VENV)/dev.stamp ## set up and run all tests
	@$(BIN)/python -m pytest $(TESTS)

test-unit: $(VENV)/dev.stamp ## the quick tests: no JVM, no processes, not every order and failure
	@$(BIN)/python -m pytest -m "not spark and not processes and not exhaustive" -n auto $(TESTS)

test-spark: check-test-tools $(SPARK_VENV)/dev.stamp ## the tests that need Spark; SPARK=4.0 or 4.1 for another than 4.2
	@$(SPARK_VENV)/bin/python -m pytest -m spark $(TESTS)

lint: $(VENV)/dev.stamp ## style
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(VENV)/dev.stamp ## strict types
	@$(BIN)/mypy

format: $(VENV)/dev.stamp ## put the code into the project's style
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

$(VENV)/demo.stamp: pyproject.toml | check-python
	@$(PYTHON) -m venv $(VENV)
	@echo "installing lakespark, PySpark and the demo's data into $(VENV); PySpark is large, so that this takes a while ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[demo,spark]'
	@touch $@

$(VENV)/demo-local.stamp: pyproject.toml | check-python
	@$(PYTHON) -m venv $(VENV)
	@echo "installing lakespark and the demo's data into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[demo]'
	@touch $@

$(VENV)/dev.stamp: pyproject.toml | check-python
	@$(PYTHON) -m venv $(VENV)
	@echo "installing lakespark with its test tools into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

.venv-spark-%/dev.stamp: pyproject.toml | check-python
	@$(PYTHON) -m venv .venv-spark-$*
	@echo "installing lakespark with its test tools and Spark $* into .venv-spark-$* ..."
	@.venv-spark-$*/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[test,spark]' 'pyspark[connect]==$*.*'
	@touch $@

check-python:
	@$(PYTHON) scripts/check_tools.py python

check-demo-tools: check-python
	@$(PYTHON) scripts/check_tools.py java || { echo "make demo-local needs no Java" >&2; exit 1; }

check-test-tools:
	@$(PYTHON) scripts/check_tools.py python java git

clean: ## remove everything that the targets made
	rm -rf $(VENV) .venv-spark-* demo-lake build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
