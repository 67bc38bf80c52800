mode=$1; shift
cd /work/wt/lead
perf record -o /tmp/lead/prof/$mode.data -F 499 -g build/venv/bin/python -m tools.bench.training --workload wide --mode $mode --ps --delay-ms 1 --data-dir /tmp/fresh/build/data --steps 300 --summary-steps 0 "$@" > /tmp/lead/prof/$mode.log 2>&1
