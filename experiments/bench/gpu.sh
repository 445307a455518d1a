#!/usr/bin/env bash
# Everything that needs a GPU, once, in under eight minutes:  experiments/bench/gpu.sh [folder for the results]
# Uses .venv if there is one, else python3 (PYTHON names another); installs this package there if it is missing.
set -uo pipefail
cd "$(dirname "$0")/../.."
OUT=${1:-results/bench}
PYTHON=${PYTHON:-$([ -x .venv/bin/python ] && echo .venv/bin/python || echo python3)}
export PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
mkdir -p "$OUT"

"$PYTHON" -c 'import torch, sys; sys.exit(None if torch.cuda.is_available() else "torch sees no GPU here")' || exit 1
"$PYTHON" -c 'import smc, experiments.bench.gpu, pytest' || "$PYTHON" -m pip install --quiet --editable . pytest || exit 1

status=0
timeout 120 "$PYTHON" -m pytest -q -rs tests/gpu 2>&1 | tee "$OUT/gpu_tests.txt" || status=1
timeout 350 "$PYTHON" -m experiments.bench.gpu --out "$OUT" --minutes "${MINUTES:-5}" || status=1
exit $status
