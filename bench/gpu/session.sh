#!/bin/bash
# Measures on a machine with a GPU, for so many seconds: session.sh FOLDER SECONDS PART...
#
# What comes out goes into FOLDER while it comes, and what lies there is not measured again: a machine may go at any
# time. Results of another kind of GPU have names of their own. Packages are not downloaded: their wheels lie in
# $WHEELS (README.md, "Without a package registry"). $PUMP_COMMIT names the commit where the checkout has no history.
# Nothing is measured without $ULMS_MANAGED_LIMIT.
set -u
cd "$(dirname "$0")/../.." || exit 1
folder=$1 seconds=$2
shift 2
SECONDS=0
left() { echo $((seconds - SECONDS)); }

export PYTHONUNBUFFERED=1 PYTHONPYCACHEPREFIX=${PYTHONPYCACHEPREFIX:-/tmp/pump-pycache}
unset PYTHONDONTWRITEBYTECODE # a process in three more seconds, where packages were installed uncompiled
make OFFLINE=1 PYTHON=python3 WHEELS="${WHEELS:-wheels}" build | tail -2
export PYTHONPATH=$PWD/build/site:$PWD PATH=$PWD/build/site/bin:$PATH
export PUMP_BUILD_DIR=$PWD/build/dev
python3 -P .ci/gpu_guard.py || exit 1
gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -1)
echo "built in $SECONDS s on $gpu"
kind=${gpu#NVIDIA } && kind=${kind%% *} && kind=${kind,,}

module() { timeout "$(($(left) + 5))" python3 -P -m "$@"; } # -P: the package that was built, not ./pump

# FILE, then what pump-bench is told: as far as the time goes.
bench() {
    local file=$folder/$kind-$1.json
    local resume=()
    [ -f "$file" ] && resume=(--resume)
    shift
    module pump.bench run "$@" --device gpu --json "$file" "${resume[@]}" --limit "$(left)"
}

OURS="--system native,vmm" OTHERS="--system zero-copy,um,save-on-cpu,checkpointing,offload"
ALL="--oversubscription 1,1.5,2,3"

# Those whose time is understood least first (workloads/sizes.py).
PROGRAMS=${PROGRAMS:-$(python3 -c 'from bench.gpu.workloads.sizes import PAIRS; print(*PAIRS)')}
FOUR="--system native,um,vmm,vmm-known --patience 100"
export JAX_COMPILATION_CACHE_DIR=${JAX_COMPILATION_CACHE_DIR:-/tmp/pump-jax}

# One step of a program, as bench/traces/README.md says.
record() {
    local file=$folder/traces/$1.ulms
    [ -f "$file.gz" ] || [ "$(left)" -le 0 ] && return
    mkdir -p "$folder/traces"
    local most=$(($(left) < 100 ? $(left) + 5 : 100))
    timeout "$most" pump run --backend observe --frameworks always --trace "$file" -- \
        python3 -P -m bench.gpu.workloads "$1" 1 3 --uncaptured >"$file.log" 2>&1 || tail -2 "$file.log"
    [ -f "$file" ] && pump trace compress "$file" "$file.gz"
    rm -f "$file"
}

run() { # shellcheck disable=SC2086
    case $1 in
    programs) bench programs $PROGRAMS $FOUR --oversubscription 1.7 ;;
    record) for name in $PROGRAMS; do record "$name"; done ;;
    pressures) bench programs $PROGRAMS $FOUR --oversubscription 1.3,2.5 ;;
    cliffs) python3 -P -m bench.gpu.cliffs "$folder/$kind-programs.json" "$folder"/traces/*.gz ;;
    bar)
        bench bar resnet50 gpt2-medium $OURS $ALL
        bench bar decode-8b $OURS $ALL --rounds 2 # last: in a machine's first minutes its tokens take twice as long
        ;;
    decode) bench decode decode-8b $OURS $ALL --rounds 2 ;;
    beside) bench bar decode-8b resnet50 gpt2-medium $OURS $OTHERS $ALL ;;
    rest) bench rest gpt2-xl --elsewhere bench/results ;;
    lstm) bench lstm lstm --system native,um,vmm ;;
    xl) bench xl gpt2-xl $OURS ;;
    faults) module pytest tests/gpu/test_faults.py tests/gpu/test_ipc.py -q -m gpu ;;
    graphs) module pytest tests/gpu/test_graphs.py -q -m gpu ;;
    tenants) module bench.gpu.tenants --json "$folder/$kind-tenants.json" ;;
    hidden) module pytest tests/gpu/test_hidden.py -q -m gpu -n 6 ;; # each a budget of 512 MiB at most
    workloads) module pytest tests/gpu/test_workloads.py -q -m gpu ;;
    tests) module pytest tests -q -m gpu --ignore tests/gpu/test_hidden.py --ignore tests/gpu/test_workloads.py ;;
    fits) module bench.gpu.fits --backends vmm --programs gpt2-medium,decode --json "$folder/$kind-fits.json" ;;
    share) module bench.gpu.share --json "$folder/$kind-share.json" ;;
    sweep) module bench.gpu.sweep --pages 8MiB,16MiB --json "$folder/$kind-sweep.json" ;;
    busy) module lab.mapping.remap --only busy --json "$folder/$kind-busy.json" ;;
    ddp) module bench.gpu.ddp --json "$folder/${kind}x2-ddp.json" ;;
    fsdp) module bench.gpu.ddp --sharded --json "$folder/${kind}x2-fsdp.json" ;;
    *) echo "no part is called $1" ;;
    esac
}

for part in "$@"; do
    echo "$part, at $SECONDS s"
    [ "$(left)" -gt 0 ] || [ "$part" = cliffs ] && run "$part"
done
