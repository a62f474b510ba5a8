"""Which lemmas a release rests on, and the pages of the documentation with proofs."""

from __future__ import annotations

import re
from typing import Any

# Pages of doc/theory, and lemmas that they prove.
_PAGES = {
    "gaussian_mechanism": "privacy-curve composition relations",
    "floating_point": "grid charge",
    "symmetric_noise": "symmetric-noise",
    "mixed_ledgers": "dominating box-filter least-mu",
    "sensitivities": "second-moment private-center",
    "pairs": "pair-means pair-moment sign-moment",
    "two_stage": "quantile-votes cross-moment projected-moment chosen-branch",
    "whole_covariance": "whole-covariance length-votes",
    "feature_scales": "difference-counts difference-windows phases value-windows"
    " feature-moments",
    "categories": "thresholding",
    "joint_rows": "joint-rows",
    "joint_moments": "joint-moments",
    "streams": "stream",
    "sampled_gradients": "gradient-moments clipped-moments sampled-replacement",
    "spiked": "spiked-law sub-gaussian-rows noisy-projector",
    "user_level": "user-sums projector-sums votes user-gradients",
    "item_models": "answers",
    "federation": "power-product session",
    "groups": "noise-shares",
    "selection": "score-sums run-costs selection-profile exponential-choice "
    "blocks-vote",
}
PAGE_OF = {name: page for page, names in _PAGES.items() for name in names.split()}

# By kind: why the noise suffices for the sensitivity.
_OF_KIND = {
    "gaussian": "privacy-curve charge",
    "correlated-gaussian": "stream charge",
    "sampled-gaussian": "sampled-replacement dominating",
    "shared-gaussian": "noise-shares charge",
    "thresholded-gaussian": "thresholding charge",
    "subsampled-gaussian": "sampled-replacement dominating",
    "private-selection": "run-costs selection-profile",
    "exponential": "exponential-choice",
}

# By name, the steps of a pipeline and numbers apart: what bounds the sensitivity. The
# first that matches counts; a name that none matches leads to the index of lemmas.
_OF_NAME = (
    ("moments correlated-gaussian", "joint-moments"),
    ("moments .* user", "user-sums"),
    ("gradients gaussian", "user-gradients"),
    ("gradients", "gradient-moments clipped-moments"),
    ("(target_)?(differences)", "difference-counts"),
    ("windows", "difference-windows"),
    ("cells", "value-windows"),
    ("(target_)?places", "phases"),
    ("(target_)?moments", "feature-moments"),
    ("categories", "thresholding"),
    ("pair_distance|row_reach|target_reach|quantile", "quantile-votes"),
    ("(far_)?center|(target|feature)_means", "private-center"),
    ("second_moment", "second-moment pair-moment sign-moment"),
    ("(near|far)_length", "length-votes"),
    ("(near|far)_moment", "whole-covariance"),
    ("cross_moment", "cross-moment"),
    ("(weighted|wide|projected)_moment", "projected-moment"),
    ("joint_moment", "joint-rows"),
    ("projector|model_moment", "spiked-law sub-gaussian-rows"),
    ("power", "power-product"),
    ("start", "projector-sums"),
    ("median", "votes"),
    ("(offsets|residuals|factors)", "user-sums answers"),
    ("refit", "run-costs"),
    ("challenger|support|fit", "blocks-vote"),
)


def lemmas_of(mechanism: Any, choice: str, unit: str) -> list[str]:
    """Return the lemmas of a release by name: of its sensitivity, then of its cost."""
    name, kind = mechanism.name.rpartition(": ")[2], mechanism.kind
    key = f"{re.sub(r'_[0-9]+$', '', name)} {kind} {unit}"
    found = next((of for say, of in _OF_NAME if re.match(say, key)), "")
    noisy = kind.endswith(("gaussian", "exponential"))
    names = found.split() * noisy + _OF_KIND.get(kind, "").split()
    if getattr(mechanism, "symmetric", False) and names:
        names.insert(-1, "symmetric-noise")
    if choice and names:
        names.append("chosen-branch")
    return list(dict.fromkeys(names))


def page_of(lemma: str) -> str:
    """Return where the documentation proves a lemma, from its root."""
    return f"theory/{PAGE_OF[lemma]}.html#lemma-{lemma}"
