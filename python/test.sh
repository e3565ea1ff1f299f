#!/usr/bin/env bash
# Every check of the Python package: a fresh virtual environment, the wheel, tests, types.
#
#   bash python/test.sh          what needs neither PyTorch nor Ray
#   bash python/test.sh --all    everything; PyTorch takes 5.5 GB
#
# Where PyTorch or Ray cannot be downloaded, what needs them is skipped, loudly; all else still runs.
#
# It needs Rust and Python 3.10 or newer (PYTHON names another one than python3).
set -euo pipefail
cd "$(dirname "$0")"

wanted=()
case "${1:-}" in
  "") ;;
  --all) wanted=(torch ray) ;;
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
# Large downloads break off now and then: pip goes on where they broke, and we begin again a few times.
fetch() {
  local attempt
  for attempt in 1 2 3; do
    "$python" -m pip install --quiet --retries 10 --resume-retries 10 "$@" && return
    sleep $((10 * attempt))
  done
  return 1
}
fetch "$wheel[test]"
skipped=()
for extra in "${wanted[@]}"; do
  fetch "$wheel[$extra]" || skipped+=("$extra")
done

step "the command line, to compare with"
cargo build --quiet --release --manifest-path ../Cargo.toml -p nsde-cli
NSDE_CLI=$(cargo metadata --no-deps --format-version 1 --manifest-path ../Cargo.toml |
  "$python" -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')/release/nsde
export NSDE_CLI

step "types"
"$python" -m mypy src tests
files=()
# Without PyTorch or Ray, only what does not need them.
has() { "$python" -c "import $1" 2>/dev/null; }
for file in tests/*.py; do
  case $file in
    *torch*) has torch || continue ;;
    *distributed*) has ray || continue ;;
  esac
  files+=("$file")
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
for extra in "${skipped[@]}"; do
  echo "!! SKIPPED: the tests that need $extra, because it could not be downloaded" >&2
done
