"""What went wrong between a sweep and its cluster, in words."""

from __future__ import annotations

AGAIN = "Finished instances are kept: run the same command again to do the rest."


def launch_failure(error: BaseException) -> str | None:
    """What a user should be told of an error of submitit, on its way from the launcher; None if it is not one.

    There are three kinds: no SLURM here, SLURM refused the jobs, and a job that ended without leaving a result (killed, or
    out of time once too often).
    """
    said = " ".join(str(error).split())
    if isinstance(error, RuntimeError) and "srun" in said and "slurm cluster" in said:
        return (
            "There is no SLURM here (the command srun is not found), and hydra/launcher asks for it. Run this command on a login "
            "node of the cluster, or leave the launcher out: the jobs then run here, one after the other."
        )
    if not type(error).__module__.startswith("submitit."):
        return None
    if type(error).__name__ == "FailedSubmissionError" or said.startswith("sbatch:"):
        return (
            f"SLURM did not take the jobs: {said[:400]} Options of jobs are given as hydra.launcher.<option>=<value> (partition, "
            "account, qos, gpus_per_node, timeout_min, mem_gb, ...)."
        )
    return f"A job ended without a result: {said[:250]} Its log is in the study's folder, under .submitit. {AGAIN}"
