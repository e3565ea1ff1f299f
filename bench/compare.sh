#!/usr/bin/env bash
# Compares nsde with PyTorch and writes results/speed: bash bench/compare.sh [--quick] [--out DIR]
set -euo pipefail
cd "$(dirname "$0")/.."

venv=${NSDE_VENV:-bench/.venv}
if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
fi
if ! "$venv/bin/python" bench/versions.py; then
    "$venv/bin/python" -m pip install --quiet --requirement bench/requirements.txt
fi

cargo build --release --quiet --package nsde --example speed
target=${CARGO_TARGET_DIR:-target}
exec "$venv/bin/python" bench/compare.py --speed "$target/release/examples/speed" "$@"
