#!/usr/bin/env bash
# A training script on a cluster of parameter servers, by Slurm: one task of the cluster in each task
# of the job. The first PARAMETER_SERVERS tasks serve, the next is the chief, the others are workers.
#
#   PARAMETER_SERVERS=2 sbatch --ntasks=6 configs/cluster/slurm.sh train.py --epochs 3
#
# When the workers have ended, so does the job, and the servers with it.
#SBATCH --job-name=graph_opt
#SBATCH --cpus-per-task=8
#SBATCH --kill-on-bad-exit=1
set -euo pipefail

export PARAMETER_SERVERS=${PARAMETER_SERVERS:-1}
export FIRST_PORT=${FIRST_PORT:-22200}
if [ "${1:-}" != --task ]; then
  exec srun --kill-on-bad-exit=1 "$0" --task "$@"
fi
shift

# Where each task of the job listens: its node, and a port of its own on that.
place() {
  python3 - <<'PYTHON'
import json
import os
import subprocess

count = int(os.environ["SLURM_NTASKS"])
own = int(os.environ["SLURM_PROCID"])
servers = int(os.environ["PARAMETER_SERVERS"])
first_port = int(os.environ["FIRST_PORT"])
if servers < 1 or count < servers + 1:
    raise SystemExit("--ntasks={} is too few for {} servers and a chief".format(count, servers))
listed = ["scontrol", "show", "hostnames", os.environ["SLURM_JOB_NODELIST"]]
nodes = subprocess.check_output(listed, text=True).split()
# `8(x2),4` is 8 tasks on each of two nodes and 4 on the next.
tasks_of_nodes = []
for part in os.environ["SLURM_STEP_TASKS_PER_NODE"].split(","):
    tasks, _, times = part.partition("(x")
    tasks_of_nodes += [int(tasks)] * int(times.rstrip(")") or 1)
addresses = [
    "{}:{}".format(node, first_port + place)
    for node, tasks in zip(nodes, tasks_of_nodes)
    for place in range(tasks)
]
jobs = {"ps": addresses[:servers], "chief": addresses[servers : servers + 1]}
if addresses[servers + 1 :]:
    jobs["worker"] = addresses[servers + 1 :]
task = next(
    {"type": job, "index": index}
    for job, places in jobs.items()
    for index, address in enumerate(places)
    if address == addresses[own]
)
print(json.dumps({"cluster": jobs, "task": task}))
PYTHON
}

TF_CONFIG=$(place)
export TF_CONFIG
echo "task $SLURM_PROCID: $TF_CONFIG" >&2
command=(graph-opt run --config "${CONFIG:-configs/async_and_group_embedding.pbtxt}" "$@")

# A server serves until it is ended: each worker leaves a file when it has ended, and the servers wait
# for these.
ended=$SLURM_SUBMIT_DIR/.graph_opt_ended_$SLURM_JOB_ID
mkdir -p "$ended"
if [ "$SLURM_PROCID" -ge "$PARAMETER_SERVERS" ]; then
  trap 'touch "$ended/$SLURM_PROCID"' EXIT
  "${command[@]}"
  exit
fi
"${command[@]}" &
server=$!
while kill -0 "$server" 2>/dev/null; do
  if [ "$(find "$ended" -type f | wc -l)" -ge $((SLURM_NTASKS - PARAMETER_SERVERS)) ]; then
    kill "$server"
    wait "$server" || true
    exit 0
  fi
  sleep "${LOOK_SECONDS:-2}"
done
wait "$server"
