#!/usr/bin/env bash
# Moves and merges the modules of a clean worktree as mapping.py says, then checks the result without Spark.
#   scripts/move_modules/apply.sh WORKTREE
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=$(cd "$here/../../.venv/bin" && pwd)
cd "$1"
test -z "$(git status --porcelain)" || { echo 'the worktree has changes: commit them first'; exit 1; }
"$bin/python" "$here/codemod.py" "$PWD"
"$bin/ruff" check --quiet
"$bin/ruff" format --check --quiet
PYTHONPATH=src "$bin/lint-imports" --no-cache
"$bin/mypy" --no-error-summary
"$bin/python" "$here/proof.py" "$PWD"
