"""How likely is the model to call a tool at all, given that what it says is valid?

python -m experiments.bench.tool_calls

On prompts of the task `tools`, where the model may call one of several tools or answer in prose (the first prompt of each
set of tools, the shortest of them): the posterior
probability of calling by SMC, beside an independent estimate (unconstrained samples, of which those in the language are
kept), and what local masking does. Writes results/bench/tool_calls.json and tool_calls.md, prompt by prompt.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import numpy as np
from scipy import stats

from experiments.bench.common import command, parsed, parser, store_page, timed
from experiments.tasks import Instance
from experiments.tasks.bfcl_data import Entry
from experiments.tasks.tools import entries, prompt, to_instance
from smc import Everything, HFModel, SMCResult, SMCSampler, ToolCalls, baselines
from smc.constraints.xgrammar_engine import XGrammarConstraint
from smc.resampling import log_sum_exp

RUNS = 3
"""Independent runs of SMC."""


@dataclass(frozen=True)
class Sizes:
    """How much of everything: particles of one SMC run; unconstrained samples, and how many are drawn at a time; samples of
    local masking."""

    particles: int = 32
    samples: int = 128
    batch: int = 64
    local: int = 32


QUICK = dict(prompts=1, max_tokens=16)
"""The settings of --quick, and its sizes."""
QUICK_SIZES = Sizes(particles=4, samples=8, batch=8, local=4)


@dataclass(frozen=True)
class Row:
    """One prompt.

    Attributes:
        log_evidence: log Z by SMC: how likely the unmasked model is to say something valid within the tokens allowed.
        posterior, error: probability of a call by SMC, with its standard error over runs.
        kept, calls: unconstrained samples that ended in the language, and those among them that are calls.
        local: share of calls among the samples of local masking that finished.
        censored: share of SMC's mass that was still open at the limit.
    """

    instance: str
    log_evidence: float
    posterior: float
    error: float
    kept: int
    calls: int
    local: float
    censored: float

    @property
    def share(self) -> float:
        """The independent estimate."""
        return self.calls / self.kept if self.kept else float("nan")

    @property
    def share_error(self) -> float:
        """Its standard error if the posterior estimate is true (the error of a score test: never 0 by luck)."""
        return float(np.sqrt(self.posterior * (1 - self.posterior) / self.kept)) if self.kept else float("nan")

    @property
    def z(self) -> float:
        """The difference in standard errors of both."""
        error = float(np.hypot(self.error, self.share_error))
        return (self.posterior - self.share) / error if error else 0.0


def probability_of_calling(results: list[SMCResult], constraint: ToolCalls) -> tuple[float, float]:
    """The posterior probability of a call over independent runs, masses averaged, and its jackknife standard error."""
    masses = np.array(
        [
            [
                np.exp(
                    log_sum_exp(np.array([s.log_mass for s in r.sequences if bool(constraint.calls(s.text)) in kinds]))
                )
                for kinds in ((True,), (True, False))
            ]
            for r in results
        ]
    )
    total = masses.sum(axis=0)
    without = (total - masses)[:, 0] / (total - masses)[:, 1]
    n = len(results)
    return float(total[0] / total[1]), float(np.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum()))


def measure(model: HFModel, instance: Instance, max_tokens: int, sizes: Sizes) -> Row:
    """Run one prompt by SMC, unconstrained and by local masking."""
    constraint: ToolCalls = instance.constraint
    language = constraint.compile(model.vocabulary)
    assert isinstance(language, XGrammarConstraint)
    control = model.vocabulary.special_ids

    def smc(seed: int) -> SMCResult:
        sampler = SMCSampler(
            model,
            constraint,
            n_particles=sizes.particles,
            branching="sample",
            max_tokens=max_tokens,
            seed=seed,
            stop_fraction=0,
        )
        return sampler.run(instance.prompt, key=instance.id)

    def free(seed: int) -> SMCResult:
        return baselines.local_masking(
            model, Everything(), instance.prompt, n_particles=sizes.batch, max_tokens=max_tokens, seed=1000 + seed
        )

    with timed("  SMC"):
        runs = [smc(seed) for seed in range(RUNS)]
    posterior, error = probability_of_calling(runs, constraint)
    with timed("  unconstrained"):
        drawn = [s for seed in range(sizes.samples // sizes.batch) for s in free(seed).sequences]
    # in the language as the mask has it (compact, no control tokens) and valid: what SMC conditions on
    kept = [s for s in drawn if not control & {*s.tokens} and language.generates(s.data) and language.accepts(s.data)]
    local = baselines.local_masking(
        model, constraint, instance.prompt, n_particles=sizes.local, max_tokens=max_tokens, seed=2000
    )
    mass = np.array([[log_sum_exp(np.array([s.log_mass for s in r.sequences])), r.log_censored_mass] for r in runs])
    finished, censored = np.exp(mass).sum(axis=0)
    return Row(
        instance=instance.id,
        log_evidence=float(np.log(finished / RUNS)),
        posterior=posterior,
        error=error,
        kept=sum(s.count for s in kept),
        calls=sum(s.count for s in kept if constraint.calls(s.text)),
        local=local.expectation(lambda text: float(bool(constraint.calls(text)))),
        censored=float(censored / (finished + censored)),
    )


def chosen(model: HFModel, count: int) -> list[Instance]:
    """The first prompt of each set of tools, and of these the shortest."""
    first: dict[tuple[str, ...], Entry] = {}
    for entry in entries("live_multiple").values():
        first.setdefault(tuple(function["name"] for function in entry.functions), entry)
    length = {entry.id: len(model.encode(prompt(entry.functions, entry.question))) for entry in first.values()}
    return [to_instance(entry) for entry in sorted(first.values(), key=lambda entry: length[entry.id])[:count]]


def page(rows: list[Row], max_tokens: int, sizes: Sizes) -> str:
    """The measurements as Markdown."""
    lines = [
        "| prompt | posterior P(call), SMC | unconstrained: calls / valid | share | difference, standard errors "
        "| local masking | log Z | still open |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        lines.append(
            f"| {r.instance} | {r.posterior:.3f} ± {r.error:.3f} | {r.calls} / {r.kept} | {r.share:.3f} ± {r.share_error:.3f} "
            f"| {r.z:+.1f} | {r.local:.3f} | {r.log_evidence:.2f} | {r.censored:.0%} |"
        )
    chi2 = sum(r.z**2 for r in rows)
    expected = sum(r.posterior * r.kept for r in rows)
    spread = float(np.sqrt(sum(r.kept**2 * (r.error**2 + r.share_error**2) for r in rows if r.kept)))
    verdict = (
        f"All prompts together: {sum(r.calls for r in rows)} calls among {sum(r.kept for r in rows)} valid unconstrained samples, "
        f"where the posteriors expect {expected:.1f} ± {spread:.1f}. Sum of squared differences {chi2:.1f} on {len(rows)} "
        f"prompts: p = {stats.chi2.sf(chi2, len(rows)):.2f} if both estimate the same."
    )
    return (
        "# The probability of calling a tool\n\n"
        f"SmolLM2-135M-Instruct in float32, task `tools` (several tools, or prose), at most {max_tokens} tokens; conditional on "
        f"ending within them. SMC: `sample`, {RUNS} runs of {sizes.particles} particles, jackknife error over runs. Unconstrained: "
        f"{sizes.samples} samples, those in the language kept, binomial error. Local masking: {sizes.local} samples.\n\n"
        f"Made by `python -m experiments.bench.tool_calls`.\n\n" + "\n".join(lines) + f"\n\n{verdict}\n"
    )


def main() -> None:
    """Measure, print and store after every prompt."""
    made = parser(__doc__)
    made.add_argument("--prompts", type=int, default=10, help="how many prompts (default 10)")
    made.add_argument("--max-tokens", type=int, default=48, help="tokens before the stop (default 48)")
    options = parsed(made, QUICK)
    sizes = QUICK_SIZES if options.quick else Sizes()
    model = HFModel.load("smollm2-135m")
    options.out.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    for instance in chosen(model, options.prompts):
        with timed(instance.id):
            rows.append(measure(model, instance, options.max_tokens, sizes))
        (options.out / "tool_calls.json").write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
        text = store_page(options.out / "tool_calls.md", page(rows, options.max_tokens, sizes), options.quick)
    print(text)


if __name__ == "__main__":
    command(main)
