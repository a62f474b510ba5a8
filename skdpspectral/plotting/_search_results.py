"""Which parameter is the privacy budget, and what a search says about it."""

from __future__ import annotations

import math

import numpy as np
from sklearn.utils.validation import check_is_fitted


def epsilon_parameters(estimator) -> list[str]:
    """Names of the parameters that are the epsilon of a private estimator.

    Parameters
    ----------
    estimator : estimator
        Possibly a pipeline or another meta-estimator.

    Returns
    -------
    list of str
        As ``set_params`` takes them. An estimator is taken as private if it has
        ``privacy_plan``: other estimators use the name epsilon for other things.
    """
    params = estimator.get_params(deep=True)
    names = [n for n in params if n == "epsilon" or n.endswith("__epsilon")]
    owners = {n: params.get(_owner(n), estimator) for n in names}
    return sorted(n for n, owner in owners.items() if hasattr(owner, "privacy_plan"))


def _owner(param_name: str) -> str:
    """Name of the nested estimator that has a parameter; empty for the outermost."""
    return param_name.rpartition("__")[0]


def resolve_parameter(param_name, candidates, known) -> str:
    """Return the parameter to vary, or an error that names the candidates.

    Parameters
    ----------
    param_name : str or None
        The user's choice.
    candidates : list of str
        What None may stand for, if it is one.
    known : collection of str
        What the user may choose.

    Returns
    -------
    str
        Name of one parameter.

    Raises
    ------
    ValueError
        If the choice is unknown, or None and there is not exactly one candidate.
    """
    if param_name is not None:
        if param_name in known:
            return param_name
        raise ValueError(
            f"param_name={param_name!r} is not among the parameters; "
            f"candidates: {candidates or sorted(known)}"
        )
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        raise ValueError(
            f"several parameters are privacy budgets: {candidates}; choose one of "
            "them as param_name"
        )
    raise ValueError(
        "no parameter is the epsilon of a private estimator; give param_name, one "
        f"of {sorted(known)}"
    )


def fold_scores(search, metric=None) -> np.ndarray:
    """Held-out scores of a fitted search.

    Parameters
    ----------
    search : fitted search
        With ``cv_results_``.
    metric : str or None, default=None
        Which of several metrics; None takes the one that `search` refits by.

    Returns
    -------
    ndarray of shape (n_candidates, n_folds)
        One row a candidate.

    Raises
    ------
    ValueError
        If the metric is not among the results.
    """
    results = search.cv_results_
    prefix = "mean_test_"
    metrics = [key.removeprefix(prefix) for key in results if key.startswith(prefix)]
    if metric is None:
        metric = search.refit if isinstance(search.refit, str) else "score"
    if metric not in metrics:
        raise ValueError(f"metric must be one of {sorted(metrics)}, got {metric!r}")
    folds = range(search.n_splits_)
    return np.column_stack([results[f"split{fold}_test_{metric}"] for fold in folds])


def candidate_epsilons(search, param_name: str) -> np.ndarray:
    """Epsilon of every candidate of a fitted search; infinity without privacy.

    Parameters
    ----------
    search : fitted search
        With ``cv_results_``.
    param_name : str
        The parameter. A candidate that does not set it has the estimator's own, or
        none at all where it replaces the private estimator by another.

    Returns
    -------
    ndarray of shape (n_candidates,)
        Positive numbers.
    """
    own = search.estimator.get_params(deep=True).get(param_name)
    owner = _owner(param_name)

    def epsilon_of(params):
        if param_name not in params and owner in params:
            # The candidate put another estimator in the owner's place.
            return getattr(params[owner], "epsilon", None)
        return params.get(param_name, own)

    values = [epsilon_of(params) for params in search.cv_results_["params"]]
    return np.array([math.inf if v is None else v for v in values], dtype=np.float64)


def best_scores_per_epsilon(epsilons, scores) -> tuple[np.ndarray, np.ndarray]:
    """Keep, at each epsilon, the candidate of the highest mean score.

    Parameters
    ----------
    epsilons : ndarray of shape (n_candidates,)
        With repetitions where a search varies other parameters too.
    scores : ndarray of shape (n_candidates, n_folds)
        One row a candidate. A mean that is NaN loses against every number.

    Returns
    -------
    epsilons : ndarray of shape (n_epsilons,)
        Distinct, ascending.
    scores : ndarray of shape (n_epsilons, n_folds)
        One row an epsilon.
    """
    means = scores.mean(axis=1)
    means = np.where(np.isnan(means), -math.inf, means)
    # Epsilons ascend and, within one of them, means descend.
    order = np.lexsort((-means, epsilons))
    distinct, first = np.unique(epsilons[order], return_index=True)
    return distinct, scores[order[first]]


def best_of_private_searches(searches) -> tuple[list, list, list, str | None]:
    """Return budgets, best scores, their errors by noise, and the name of the score.

    Parameters
    ----------
    searches : fitted PrivateSearchCV, or sequence of them
        With one and the same score.

    Returns
    -------
    epsilons, scores, stds : list of float
        An entry a search.
    score : str or None
        What they measured; None without searches.
    """
    searches = [searches] if hasattr(searches, "get_params") else list(searches)
    for search in searches:
        if not hasattr(search, "_selects_privately"):
            raise TypeError("searches must be of the class PrivateSearchCV")
        check_is_fitted(search, "best_score_")
    names = sorted({search.scorer_.score for search in searches})
    if len(names) > 1:
        raise ValueError(f"searches must have the same score, got {names}")
    found = [(s.privacy_.epsilon, s.best_score_, s.best_score_std_) for s in searches]
    epsilons, scores, stds = np.reshape(found, (-1, 3)).T.tolist()
    return epsilons, scores, stds, names[0] if names else None
