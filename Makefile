# The life of the repository, one line each.  On a fresh clone every target works alone: each makes .venv if it is
# missing, from pinned and hashed requirements.
PYTHON ?= python3
PY := .venv/bin/python

.PHONY: .venv demo test check prove bridges bench docs dist wheel-test requirements clean

# Only the environment.
.venv: .venv/.installed

.venv/.installed: requirements/dev.txt pyproject.toml
	test -x $(PY) || $(PYTHON) -m venv .venv
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(PY) -m pip check
	touch $@

# The main job, real: a dozen commands of different fates, and every last word brought home.
demo: .venv/.installed
	$(PY) -m lastword demo

# A file of tests at a time, on as many processes; WORKERS=0 for one process, as a debugger wants it.
WORKERS ?= 2
test: .venv/.installed
	$(PY) -m pytest -m "not prove" -n $(WORKERS) --dist loadfile

# Lint, types, import rules, docs.
check: .venv/.installed
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	! grep -rnE '^\s*(import lastword|from lastword)' --include='*.py' __main__.py _readonly.py _runtime.py _sqlite.py adapters notifier session supervisor
	$(PY) -m mypy
	$(PY) -m pyright
	PATH="$(CURDIR)/.venv/bin:$$PATH" $(PY) -m pyright --verifytypes lastword --ignoreexternal
	PATH="$(CURDIR)/.venv/bin:$$PATH" lint-imports --no-cache
	$(MAKE) docs

docs: .venv/.installed
	$(PY) -m sphinx -W --keep-going -q -b html docs docs/_build/html

# The long crash, fault and load suites; their figures are printed.  CI=true: a tool that is missing fails, and skips
# nothing.
prove: .venv/.installed
	failed=0; CI=true $(PY) -m pytest -m prove -s || failed=1; $(MAKE) bridges || failed=1; exit $$failed

# The bridges to agent SDKs, each against the real one in an environment of its own.
BRIDGES := anthropic langchain openai-agents pydantic-ai
bridges:
	for name in $(BRIDGES); do .ci/bridge $$name || exit 1; done

# Paired figures, each in one run; it fails where a median has missed a bar, after all have run.
bench: .venv/.installed
	missed=0; for file in bench/[a-z]*.py; do echo "== $$file" && $(PY) $$file || missed=1; done; exit $$missed

# The sdist, and the wheel built from that sdist.
dist: .venv/.installed
	rm -rf dist
	$(PY) -m build --no-isolation

# That wheel, alone in a new environment, against the same tests; PYTHONS="python3.12 python3.13" for others.
wheel-test: .venv/.installed
	.ci/wheel-test $(PYTHONS)

# Pin anew what requirements/*.in and pyproject.toml ask for (needs uv; the files name no registry host).
requirements:
	uv pip compile --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		--extra cli --extra mcp --extra screen --extra trio -o requirements/dev.txt pyproject.toml requirements/dev.in
	for name in $(BRIDGES); do \
		uv pip compile --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
			--extra trio -o requirements/bridge-$$name.txt pyproject.toml requirements/bridge-$$name.in || exit 1; done

clean:
	rm -rf .venv .bridges dist docs/_build .mypy_cache .pytest_cache .ruff_cache .hypothesis
