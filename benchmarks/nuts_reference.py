"""Draw from the exact posterior of the difficulty fit's model, the reference of its tests.

    python benchmarks/nuts_reference.py tests/data/nuts

needs `pip install numpyro==0.22.0 jax==0.10.2`; the package itself needs neither. The model is that
of ``harmony_utils/difficulty/fit.py``: abilities N(0, 1); slope and intercept of an item from a
normal population; its mean and covariance with the fit's weak normal-inverse-Wishart prior. Every
draw is put on the scale of the fit, on which the abilities have mean 0 and standard deviation 1.
Takes some minutes on one core. Per matrix a CSV of posterior means and standard deviations is
written, and one ``about.json`` with diagnostics, seeds and versions.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from harmony_utils.difficulty import (
    Responses,
    responses_from_matrix,
    responses_from_table,
    simulate_panel,
)
from harmony_utils.difficulty.fit import POPULATION_PRIOR, raw_scores
from harmony_utils.stages.panel import recorded_panel

SAMPLING = {"num_warmup": 1000, "num_samples": 2500, "num_chains": 2}
SEED = 0


def real_panel() -> Responses:
    """Return the recorded panel as it was when the draws were made; it has grown since."""
    panel = recorded_panel("openbookqa")
    panel = panel[panel["respondent"] != "smollm2-135m, letter"]
    table = panel.rename(columns={"respondent": "model", "native_id": "item"})
    return responses_from_table(table[["model", "item", "correct"]]).select(items=range(60))


def missing_panel() -> Responses:
    """Return a simulated matrix with a fifth of its cells missing and a model that is all right."""
    values = simulate_panel(16, 50, missing=0.2, random_state=22).responses.values.copy()
    values[0] = np.where(np.isnan(values[0]), np.nan, 1.0)
    return responses_from_matrix(values)


def matrices() -> dict[str, Responses]:
    """Return the matrices: simulated, recorded, with missing cells."""
    return {
        "simulated": simulate_panel(24, 60, random_state=21).responses,
        "recorded": real_panel(),
        "missing": missing_panel(),
    }


def posterior(responses: Responses) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Return draws on the fit's scale, and the sampler's diagnostics."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.diagnostics import summary
    from numpyro.infer import MCMC, NUTS, init_to_value

    seen = ~np.isnan(responses.values)
    answers = jnp.asarray(np.nan_to_num(responses.values))
    n_models, n_items = answers.shape
    weight, centre = POPULATION_PRIOR["weight"], jnp.asarray(POPULATION_PRIOR["mean"])
    scale = weight * jnp.asarray(POPULATION_PRIOR["covariance"])

    def model() -> None:
        ability = numpyro.sample("ability", dist.Normal(0, 1).expand([n_models]).to_event(1))
        flat = dist.ImproperUniform(dist.constraints.real_vector, (), (2,))
        log_sd = numpyro.sample("log_sd", flat)
        correlation = numpyro.sample("correlation", dist.Uniform(-1, 1))
        sd = jnp.exp(log_sd)
        away = jnp.sqrt(1 - correlation**2)
        root = sd[:, None] * jnp.array([[1.0, 0.0], [correlation, away]])
        precision = jnp.linalg.inv(root @ root.T)
        log_det = 2 * (log_sd.sum() + jnp.log(away))
        # |S|**-1/2 exp(-tr(weight S0 S^-1) / 2), whose mode is the fit's update with the prior of
        # the mean; 3 log sd is the change of variables from S to log sd and correlation
        numpyro.factor("population", 3 * log_sd.sum() - 0.5 * log_det)
        numpyro.factor("wishart", -0.5 * jnp.trace(scale @ precision))
        mean = numpyro.sample(
            "mean", dist.MultivariateNormal(centre, scale_tril=root / weight**0.5)
        )
        raw = numpyro.sample("raw", dist.Normal(0, 1).expand([n_items, 2]).to_event(2))
        slope, intercept = (mean + raw @ root.T).T
        logits = ability[:, None] * slope + intercept
        right = dist.Bernoulli(logits=logits).mask(jnp.asarray(seen))
        numpyro.sample("right", right.to_event(2), obs=answers)

        middle, spread = ability.mean(), ability.std()
        change = jnp.array([[spread, 0.0], [middle, 1.0]])
        numpyro.deterministic("ability_", (ability - middle) / spread)
        numpyro.deterministic("slope_", slope * spread)
        numpyro.deterministic("intercept_", intercept + slope * middle)
        numpyro.deterministic("difficulty_", (-intercept / slope - middle) / spread)
        numpyro.deterministic("population_mean_", change @ mean)
        turned = change @ root @ root.T @ change.T
        numpyro.deterministic("population_covariance_", turned[jnp.tril_indices(2)])

    # the mirror image, all signs turned, is a second mode; the fit takes that of the raw scores
    raw = raw_scores(responses.values)
    start = init_to_value(values={"ability": raw / raw.std(), "mean": centre})
    kernel = NUTS(model, target_accept_prob=0.9, init_strategy=start)
    sampler = MCMC(kernel, chain_method="sequential", progress_bar=False, **SAMPLING)
    sampler.run(jax.random.PRNGKey(SEED), extra_fields=("diverging",))
    chains = sampler.get_samples(group_by_chain=True)
    kept = {name[:-1]: np.asarray(draws) for name, draws in chains.items() if name.endswith("_")}
    return kept, {
        "n_divergent": int(sampler.get_extra_fields()["diverging"].sum()),
        "summary": summary(kept),
    }


def table(
    name: str, responses: Responses, kept: dict[str, np.ndarray], diagnostics: dict
) -> pd.DataFrame:
    """Return one row for each parameter: mean, standard deviation, quantiles, convergence."""
    labels = {
        "ability": list(responses.models),
        "population_mean": ["slope", "intercept"],
        "population_covariance": ["slope slope", "slope intercept", "intercept intercept"],
    }
    parts = []
    for kind, draws in kept.items():
        flat = draws.reshape(-1, draws.shape[-1])
        low, median, high = np.quantile(flat, [0.025, 0.5, 0.975], axis=0)
        about = {"mean": flat.mean(0), "sd": flat.std(0), "low": low, "median": median}
        about |= {
            "high": high,
            "r_hat": diagnostics[kind]["r_hat"],
            "ess": diagnostics[kind]["n_eff"],
        }
        first = {"matrix": name, "parameter": kind, "of": labels.get(kind, list(responses.items))}
        parts.append(pd.DataFrame({**first, **about}))
    return pd.concat(parts, ignore_index=True)


def main(folder: Path) -> None:
    """Write the draws' summaries and what made them."""
    import jax
    import numpyro

    numpyro.enable_x64()
    parts, about = [], {}
    for name, responses in matrices().items():
        started = time.process_time()
        kept, diagnostics = posterior(responses)
        rows = table(name, responses, kept, diagnostics["summary"])
        parts.append(rows)
        about[name] = {
            "n_models": len(responses.models),
            "n_items": len(responses.items),
            "n_right": float(np.nansum(responses.values)),
            "n_missing": int(np.isnan(responses.values).sum()),
            "n_divergent": diagnostics["n_divergent"],
            "largest_r_hat": round(float(rows["r_hat"].max()), 4),
            "smallest_ess": round(float(rows["ess"].min())),
            "seconds": round(time.process_time() - started),
        }
        print(name, about[name], flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    pd.concat(parts).to_csv(folder / "posterior.csv", index=False, float_format="%.4f")
    found = {
        "command": "python benchmarks/nuts_reference.py tests/data/nuts",
        "sampling": SAMPLING,
        "seed": SEED,
        "versions": {
            "python": platform.python_version(),
            "numpyro": numpyro.__version__,
            "jax": jax.__version__,
            "numpy": np.__version__,
        },
        "matrices": about,
    }
    (folder / "about.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
