#!/usr/bin/env bash
# A study of 8 jobs on a real SLURM: one job is killed and requeued, one is preempted, and the report must equal that of
# the same study run in one local process. Brings up a cluster of one node, without cgroups, in a temporary folder.
#   bash tests/cluster/slurm.sh
# Status: 0 as it should be, 1 not so, 77 skipped (no SLURM here, and it could not be installed).
set -euo pipefail
cd "$(dirname "$0")/../.."

PYTHON=${PYTHON:-.venv/bin/python}
export OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false PYTHONPATH=$PWD PYTHONWARNINGS=ignore
STUDY=(task=dates limit=30 method=local_masking,smc seed=0,1)
SHARDS=(shards=2 shard=0,1)  # 8 jobs on the cluster, each with half of the instances of one of 4 runs
SHARE=15

skip() { echo "skipped: $*"; exit 77; }
fail() { echo "FAILED: $*"; exit 1; }

[ "$(id -u)" = 0 ] || skip "only root can start the daemons of SLURM."
if ! command -v slurmctld slurmd munged > /dev/null; then
    command -v apt-get > /dev/null || skip "SLURM is not installed, and this is no Debian."
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends slurm-wlm munge; } \
        > /dev/null 2>&1 || skip "SLURM is not installed, and apt-get could not install slurm-wlm and munge."
fi

BASE=$(mktemp -d)
DAEMONS=()  # what is to be ended, in the order of starting
cleanup() {
    [ -z "${SWEEP:-}" ] || kill "$SWEEP" 2> /dev/null || true
    if [ -e "$BASE/slurm.conf" ]; then  # jobs outlive the daemons: end them first
        timeout 20 scancel --partition=all 2> /dev/null || true
        for _ in {1..20}; do [ -z "$(timeout 5 squeue --noheader 2> /dev/null)" ] && break; sleep 0.5; done
    fi
    for ((i = ${#DAEMONS[@]} - 1; i >= 0; i--)); do
        kill "${DAEMONS[i]}" 2> /dev/null && timeout 20 tail --pid="${DAEMONS[i]}" -f /dev/null || true
    done
    rm -rf "$BASE"
}
trap cleanup EXIT
# Names of places on this machine are of no interest to a reader.
plain() { sed -e "s#$BASE/##g" -e "s#$PWD/##g"; }

# --- one node ----------------------------------------------------------------------------------------------------
chmod 755 "$BASE"
mkdir -p "$BASE"/{munge,state,spool}
head -c 128 /dev/urandom > "$BASE/munge/key"
chmod 600 "$BASE/munge/key"
chown -R munge "$BASE/munge"
runuser -u munge -- munged --foreground --key-file="$BASE/munge/key" --socket="$BASE/munge/socket" \
    --pid-file="$BASE/munge/pid" --seed-file="$BASE/munge/seed" > /dev/null 2>&1 &
DAEMONS+=($!)
for _ in {1..50}; do [ -S "$BASE/munge/socket" ] && break; sleep 0.1; done

cat > "$BASE/slurm.conf" << END
ClusterName=one
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=${SLURMCTLD_PORT:-26817}
SlurmdPort=${SLURMD_PORT:-26818}
AuthType=auth/munge
AuthInfo=socket=$BASE/munge/socket,cred_expire=5
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$BASE/state
SlurmdSpoolDir=$BASE/spool
SlurmctldPidFile=$BASE/slurmctld.pid
SlurmdPidFile=$BASE/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=none
KillWait=1
ReturnToService=2
NodeName=localhost NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
END
export SLURM_CONF=$BASE/slurm.conf
slurmctld -D > "$BASE/slurmctld.log" 2>&1 &
DAEMONS+=($!)
slurmd -D -N localhost > "$BASE/slurmd.log" 2>&1 &
DAEMONS+=($!)
for _ in {1..60}; do [ "$(sinfo --noheader --format=%T 2> /dev/null)" = idle ] && break; sleep 0.5; done
[ "$(sinfo --noheader --format=%T)" = idle ] || { tail -n 20 "$BASE"/slurm*.log; fail "the node did not come up."; }
echo "$ sinfo"
sinfo

# --- the study ---------------------------------------------------------------------------------------------------
"$PYTHON" tests/cluster/tiny_model.py "$BASE/model" > /dev/null 2>&1
RUN=("$PYTHON" -m experiments.run --multirun "results=$BASE/results" tracking=disabled study.report=false
    model=hf "model.id=$BASE/model" "${STUDY[@]}")
LAUNCHER=(hydra/launcher=slurm_cpu hydra.launcher.cpus_per_task=1 hydra.launcher.mem_gb=null hydra.launcher.timeout_min=30)
echo
echo "$ python -m experiments.run --multirun study.name=cluster model=hf model.id=model ${STUDY[*]} ${SHARDS[*]} ${LAUNCHER[*]}"
"${RUN[@]}" study.name=cluster "${SHARDS[@]}" "${LAUNCHER[@]}" > "$BASE/sweep.log" 2>&1 &
SWEEP=$!
RUNS=$BASE/results/cluster

halted() { "$PYTHON" tests/cluster/running_job.py "$RUNS" 3 $((SHARE - 4)) "$@"; }
records() { wc -l < "$1"; }
state() { scontrol show job "$1" 2> /dev/null | grep -o 'JobState=[A-Z_]*' | cut -d= -f2; }

read -r PROCESS _ KILLED KILLED_FILE < <(halted) || { cat "$BASE/sweep.log"; fail "there was no job to kill."; }
kill -9 "$PROCESS"
for _ in {1..100}; do [ "$(state "$KILLED")" = FAILED ] && break; sleep 0.2; done
BEFORE=$(records "$KILLED_FILE")
echo
echo "$ squeue"
squeue --format="%.8i %.10P %.10j %.12T %.20R"
echo "kill -9 of job $KILLED (now $(state "$KILLED")), which had written $BEFORE of $SHARE records; scontrol requeue $KILLED"
scontrol requeue "$KILLED"

read -r PROCESS NUMBER PREEMPTED PREEMPTED_FILE < <(halted "$KILLED") || fail "there was no job to preempt."
BEFORE=$(records "$PREEMPTED_FILE")
# The warning that comes before preemption and before the end of a job's time. To the job's step: while other tasks of its
# array are pending, SLURM 22.05 delivers a signal to the job but calls that an error, and scancel tries again and again.
scancel --signal=USR2 "$NUMBER.0"
kill -CONT "$PROCESS"
timeout 30 tail --pid="$PROCESS" -f /dev/null
echo "preempted job $PREEMPTED, which had written $BEFORE of $SHARE records; it requeues itself"

timeout 900 tail --pid="$SWEEP" -f /dev/null || { squeue; fail "the jobs did not end."; }
wait "$SWEEP" || { cat "$BASE/sweep.log"; fail "the sweep ended with an error."; }
DONE=$(find "$RUNS" -name DONE | wc -l)
for job in "$KILLED" "$PREEMPTED"; do
    restarts=$(scontrol show job "$job" | grep -o 'Restarts=[0-9]*')
    echo "job $job: $(state "$job"), $restarts"
    [ "$restarts" = Restarts=1 ] || fail "job $job was not started again."
done
echo "$DONE of 4 runs complete; records of the killed job: $(records "$KILLED_FILE"), of the preempted one: $(records "$PREEMPTED_FILE")"
[ "$DONE" = 4 ] || fail "not every run is complete."
[ "$(records "$KILLED_FILE")" = "$SHARE" ] && [ "$(records "$PREEMPTED_FILE")" = "$SHARE" ] \
    || fail "a job that went on has lines twice, or lacks some."

# --- the same in one process -------------------------------------------------------------------------------------
echo
echo "$ python -m experiments.run --multirun study.name=local model=hf model.id=model ${STUDY[*]}"
"${RUN[@]}" study.name=local > "$BASE/local.log" 2>&1 || { cat "$BASE/local.log"; fail "the local study ended with an error."; }
echo "$ python tests/cluster/equal_reports.py results/cluster results/local"
"$PYTHON" tests/cluster/equal_reports.py "$RUNS" "$BASE/results/local" | plain || fail "the reports differ."
echo
echo "slurm: 8 jobs, 1 killed and requeued, 1 preempted, reports equal"
