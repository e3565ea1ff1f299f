#!/usr/bin/env bash
# Every check of the Python package: a fresh virtual environment, the wheel, tests, types.
#
#   bash python/test.sh          what needs neither PyTorch nor Ray
#   bash python/test.sh --all    everything; PyTorch takes 5.5 GB
#
# It needs Rust and Python 3.10 or newer (PYTHON names another one than python3).
set -euo pipefail
cd "$(dirname "$0")"

all=no
case "${1:-}" in
  "") ;;
  --all) all=yes ;;
  *) echo "test.sh: unknown argument $1; there is --all" >&2; exit 2 ;;
esac
step() { printf '\n== %s\n' "$*"; }

room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT

step "a fresh virtual environment"
"${PYTHON:-python3}" -m venv "$room/venv"
python=$room/venv/bin/python
"$python" -m pip install --quiet --upgrade pip

step "the wheel"
"$python" -m pip wheel --quiet --no-deps --wheel-dir "$room/dist" .
wheel=$(echo "$room"/dist/nsde-*-abi3-*.whl)
extras=test
[ "$all" = no ] || extras=test,torch,ray
"$python" -m pip install --quiet "$wheel[$extras]"

step "the command line, to compare with"
cargo build --quiet --release --manifest-path ../Cargo.toml -p nsde-cli
NSDE_CLI=$(cargo metadata --no-deps --format-version 1 --manifest-path ../Cargo.toml |
  "$python" -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')/release/nsde
export NSDE_CLI

step "types"
"$python" -m mypy src tests
files=()
# Without PyTorch and Ray, only what does not need them.
[ "$all" = yes ] || for file in tests/*.py; do
  case $file in *torch*|*distributed*) ;; *) files+=("$file") ;; esac
done
"$python" -m pyright --pythonpath "$python" "${files[@]}"

step "tests"
# In a copy, so that it is the wheel that is tested, not the sources beside it.
mkdir -p "$room/docs" "$room/python"
cp ../docs/python.md "$room/docs"
cp ../README.md "$room"
cp -r tests tutorial.py pyproject.toml "$room/python"
cd "$room/python"
"$python" -m pytest -q tests
