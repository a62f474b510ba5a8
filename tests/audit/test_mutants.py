"""Planted mistakes: each must be caught by a test, which fails on the mutant.

A mutant is an edit of one definition in a copy of the package: of a class, a function
or a constant, which is found by its name, wherever it stands. Worst cases are replayed,
and noise compared with its law; tests of plan, ledger or post-processing catch others.
"""

import ast
import functools
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from forked_python import ForkedPython

import skdpspectral

pytestmark = pytest.mark.slow

PACKAGE = Path(skdpspectral.__file__).parent
TESTS = Path(__file__).parents[1]


@dataclass(frozen=True)
class Mutant:
    """An edit, and what must notice it: a worst case, a check of noise, or a test."""

    definition: str
    old: str
    new: str
    caught_by: str


AUDITED = {
    "noise ten per cent low": Mutant(
        "grid_noise", "chunk *= steps", "chunk *= 0.9 * steps", "noise of DPPCA"
    ),
    "noise of a small release ten per cent low": Mutant(
        "release_entries",
        "mechanism.drawn_std / grid",
        "mechanism.drawn_std / grid * (0.9 if mechanism.name == 'moments' else 1.0)",
        "noise of DPStandardScaler",
    ),
    "sqrt 2 forgotten": Mutant(
        "second_moment_sensitivity",
        "return math.sqrt(2.0) * clip_norm**2 / n_samples",
        "return clip_norm**2 / n_samples",
        "pca",
    ),
    "both entries of a pair of clicks for one": Mutant(
        "_PAIR_BOUND", "math.sqrt(0.5)", "0.5", "clicks-pairs"
    ),
    "pairs of clicks with popularity": Mutant(
        "pair_contributions",
        "        left -= along[part, None] * popularity\n",
        "",
        "clicks-pairs",
    ),
    "pairs taken for rows": Mutant("HALF", "HALF = 0.5", "HALF = 1.0", "pca-pairs"),
    "pairs of which ties are left out": Mutant(
        "Moment",
        "        total /= divisor\n",
        "        total /= max(float(np.trace(total)), 1e-9)\n",
        "pca-pairs",
    ),
    "pairs in the order of values": Mutant(
        "_pairs_of_a_pool",
        "        count = min(order.block_rows, len(places) - start)\n",
        "        count = min(order.block_rows, len(places) - start)\n"
        "        places = places[np.argsort(rows[places, 0])]\n",
        "pca-pairs-far",
    ),
    "votes of pairs taken for those of rows": Mutant(
        "plan_votes",
        "moved *= 2.0 if paired else 1.0",
        "moved *= 1.0",
        "pca-pair-votes",
    ),
    "all differences counted in the lengths": Mutant(
        "shares_of_lengths",
        "np.array([[2.0], [1.0]])",
        "np.array([[1.0], [1.0]])",
        "pca-pair-lengths",
    ),
    "clipped means over a shorter radius": Mutant(
        "Centered",
        "total / sample.n_rows / clip)",
        "total / sample.n_rows / (0.5 * clip))",
        "pca-steps",
    ),
    "steps that their noise was left out of": Mutant(
        "Centered",
        "clip * release(mean.name, total / sample.n_rows / clip)",
        "(0.0 * release(mean.name, total / sample.n_rows / clip) "
        "+ total / sample.n_rows)",
        "pca-steps",
    ),
    "a moment planned for twice the rows": Mutant(
        "Moment", "rows.n, rows.p, mu", "2 * rows.n, rows.p, mu", "pca"
    ),
    "steps to a center not clipped": Mutant(
        "sum_clipped",
        "clip_rows(block, radius, out=block).sum(axis=0)",
        "block.sum(axis=0)",
        "pca-steps",
    ),
    "clip skipped": Mutant(
        "clip_rows",
        "return _rescale_rows(X, clip_norm, True, out)",
        "return np.array(X, dtype=np.float64)",
        "pca-steps",
    ),
    "normalization skipped": Mutant(
        "normalize_rows",
        "return _rescale_rows(X, 1.0, False, out, floor)",
        "return np.array(X, dtype=np.float64)",
        "pca-canary",
    ),
    "off-diagonal scaling forgotten": Mutant(
        "release_symmetric",
        "steps / math.sqrt(2.0)",
        "steps / 2.0",
        "noise of DPPCA",
    ),
    "rows of the near layer not clipped": Mutant(
        "clipped_parts",
        "[normalize_rows(rows, floor=radii[0], out=rows), *far]",
        "[rows / radii[0], *far]",
        "covariance-near-moment",
    ),
    "the far layer holds all of a row": Mutant(
        "_far_part",
        "normalize_rows(own, out=own) * beyond",
        "own * beyond",
        "covariance-far-moment",
    ),
    "votes about lengths charged at a half": Mutant(
        "ClippedMoments",
        "moved = sensitivity.vote_sensitivity(1, Neighbors.REPLACE_ONE)",
        "moved = 0.5 * sensitivity.vote_sensitivity(1, Neighbors.REPLACE_ONE)",
        "covariance-near-length",
    ),
    "projections of the covariance not clipped": Mutant(
        "_sum_of_projections",
        "clip_rows(np.asarray(block @ components.T) / radius, 1.0)",
        "np.asarray(block @ components.T) / radius",
        "client-covariance",
    ),
    "users' vectors not clipped": Mutant(
        "clip_contributions",
        "return clip_rows(vectors, 1.0, out=vectors)",
        "return vectors",
        "lrs-replaced-fixed",
    ),
    "a replaced user charged as one who joins": Mutant(
        "planned_sum",
        "sensitivity.sum_sensitivity(1.0, neighbors)",
        "1.0",
        "lrs-replaced-fixed",
    ),
    "a replaced user's start charged as that of one who joins": Mutant(
        "SharedDirections",
        "sensitivity.projector_sum_sensitivity(self.neighbors)",
        "1.0",
        "lrs-replaced-start",
    ),
    "replaced users' networks charged as those of one who joins": Mutant(
        "GradientRounds",
        "planned_sum(name, width, self.neighbors, mu)",
        "planned_sum(name, width, Neighbors.ADD_REMOVE_ONE, mu)",
        "user-networks-replaced",
    ),
    "sums of rows squared, and not rows": Mutant(
        "MomentRows",
        "self._pack_triangle(rows, products)",
        "self._pack_triangle(rows.cumsum(axis=0), products)",
        "jme-company",
    ),
    "column norm of the noise's matrix forgotten": Mutant(
        "BufferedToeplitz",
        "_ROUND_UP * buffers.column_norm(n)",
        "1.0",
        "jme",
    ),
    "noise of products not as large as their matrix is long": Mutant(
        "Paired",
        "self._stretch * shaped[1]",
        "shaped[1]",
        "jme-two-shapes",
    ),
    "rows of a stream not clipped": Mutant(
        "MomentStream",
        "clip_rows(block, self.clip_norm, out=block)",
        "block",
        "jme-clipped",
    ),
    "second moment free beyond its weight": Mutant(
        "moment_weights",
        "return nu, None, sensitivity.joint_moment_ratio(nu, d)",
        "return nu, None, 4.0",
        "jme-heavy",
    ),
    # On the isometry's coordinates noise is what its projection is: no factor more.
    "noise projected twice": Mutant(
        "release_entries",
        "        value += draws\n        value *= grid",
        "        if mechanism.name.startswith('moments'):\n"
        "            i, j = np.triu_indices(3)\n"
        "            factors = np.where(i == j, 1.0, math.sqrt(0.5))\n"
        "            draws[:36] = np.rint(draws[:36] * np.kron(factors, factors))\n"
        "        value += draws\n        value *= grid",
        "noise of LRSRegressor",
    ),
}

AUDITED |= {
    "a basis used as it was sent": Mutant(
        "_WithBasis",
        "basis, defect = _kernels.orthonormal_columns(basis)",
        "defect = 0.0",
        "sparse-malicious",
    ),
    "a round sent without noise but for its rounding": Mutant(
        "PowerProduct",
        "        released = release(self.name, product)",
        "        released = 0.5 * (release(self.name, product) + product)",
        "sparse-two-columns",
    ),
    "several columns charged as one": Mutant(
        "power_product_sensitivity",
        "factor = 1.0 if n_columns == 1 else math.sqrt(2.0)",
        "factor = 1.0",
        "sparse-two-columns",
    ),
    "a moment planned for twice the client's rows": Mutant(
        "SpectralTask",
        "SecondMoment(rows, n_samples)",
        "SecondMoment(rows, 2 * n_samples)",
        "federated-matrix",
    ),
    "noise that shrinks with another client's rows": Mutant(
        "second_moment_sensitivity",
        "return math.sqrt(2.0) * clip_norm**2 / n_samples",
        "return math.sqrt(2.0) * clip_norm**2 / (2 * n_samples)",
        "federated-matrix",
    ),
}

AUDITED |= {
    "signs that are not divided by the root of their number": Mutant(
        "RowBounds",
        "        if self.clip is None and not lengths:\n",
        "        if self.ranks:\n"
        "            return difference\n"
        "        if self.clip is None and not lengths:\n",
        "pca-ranks-off-diagonal",
    ),
    "windows with the weight of a whole difference each": Mutant(
        "_WEIGHT", "1.0 / math.sqrt(_WIDTH)", "1.0", "scaler-windows"
    ),
    "cells with the weight of a whole value in each window": Mutant(
        "overlapping", "return out / math.sqrt(width)", "return out", "scaler-cells"
    ),
    "windows of cells of all features charged as one": Mutant(
        "value_windows_sensitivity",
        "return math.sqrt(2.0 * n_features)",
        "return math.sqrt(2.0)",
        "scaler-cells",
    ),
    "one of a row's two pairs forgotten in windows": Mutant(
        "difference_windows_sensitivity",
        "return 2.0 * math.sqrt(2.0 * n_features)",
        "return math.sqrt(2.0 * n_features)",
        "scaler-windows",
    ),
    "weights of a pair added up without the root of 2": Mutant(
        "difference_counts_sensitivity",
        "return 2.0 * math.sqrt(2.0 * n_features)",
        "return 2.0 * math.sqrt(n_features)",
        "scaler-differences",
    ),
    "one of a row's two pairs forgotten": Mutant(
        "difference_counts_sensitivity",
        "return 2.0 * math.sqrt(2.0 * n_features)",
        "return math.sqrt(2.0 * n_features)",
        "scaler-differences",
    ),
    "phases of all features charged as one": Mutant(
        "phase_sensitivity",
        "return 2.0 * math.sqrt(n_features * n_periods)",
        "return 2.0 * math.sqrt(n_periods)",
        "scaler-places",
    ),
    "phases of all circles charged as one": Mutant(
        "phase_sensitivity",
        "return 2.0 * math.sqrt(n_features * n_periods)",
        "return 2.0 * math.sqrt(n_features)",
        "scaler-places",
    ),
    "moments of all features charged as one": Mutant(
        "feature_moments_sensitivity",
        "return math.sqrt(n_features) * one",
        "return one",
        "scaler-moments",
    ),
}

# Of linear regression.
AUDITED |= {
    "joint rows not clipped": Mutant(
        "bounded_joint_rows",
        "return clip_rows(out, 1.0, out=out)",
        "return out",
        "ridge-moment",
    ),
    "a joint moment charged as of one sign": Mutant(
        "JointMoment",
        "sensitivity.second_moment_sensitivity(1.0, n)",
        "sensitivity.second_moment_sensitivity(1.0, n) / math.sqrt(2.0)",
        "ridge-moment",
    ),
    "mean squares of half of their range": Mutant(
        "MeanSquare",
        "sensitivity.mean_sensitivity(0.5, self.n_samples)",
        "sensitivity.mean_sensitivity(0.25, self.n_samples)",
        "ridge-square",
    ),
    "squares not cut": Mutant(
        "_sum_of_squares",
        "total += np.minimum(squares, 1.0).sum()",
        "total += squares.sum()",
        "ridge-square",
    ),
    "votes charged as of rows that leave": Mutant(
        "Medians",
        "sensitivity.vote_sensitivity(self.n_targets, Neighbors.REPLACE_ONE)",
        "sensitivity.vote_sensitivity(self.n_targets, Neighbors.ADD_REMOVE_ONE)",
        "ridge-median",
    ),
    "means charged as of half of their range": Mutant(
        "TargetMeans",
        "sensitivity.mean_sensitivity(self._radius, n)",
        "sensitivity.mean_sensitivity(0.5 * self._radius, n)",
        "ridge-mean",
    ),
    "targets not cut at their box": Mutant(
        "_in_unit_box",
        """rows = box.to_unit(np.asarray(block, dtype=np.float64))
    return clip_rows(rows, radius, out=rows)""",
        "return (np.asarray(block, dtype=np.float64) - box.midpoint) / box.unit",
        "ridge-mean",
    ),
    "votes of plus and minus one": Mutant(
        "_votes_above",
        "votes += (np.asarray(block) > limits).sum(axis=0) - 0.5 * len(block)",
        "votes += 2.0 * (np.asarray(block) > limits).sum(axis=0) - len(block)",
        "ridge-median",
    ),
}

# Of noise, and of what a fit on one pair of neighbors does not show.
AUDITED |= {
    "noise five per cent low": Mutant(
        "grid_noise", "chunk *= steps", "chunk *= 0.95 * steps", "noise of DPRidge"
    ),
    "noise of a stream five per cent low": Mutant(
        "_ShapedNoise",
        "noise *= self._steps",
        "noise *= 0.95 * self._steps",
        "noise of JMECovariance",
    ),
    "noise of networks of users ten per cent low": Mutant(
        "release_entries",
        "steps = mechanism.drawn_std / grid",
        "steps = mechanism.drawn_std / grid\n"
        "    steps *= 0.9 if mechanism.name.startswith('gradients') else 1.0",
        "noise of LRSMLPRegressor",
    ),
    "noise of moments ten per cent low": Mutant(
        "release_symmetric",
        "steps = mechanism.noise_std / grid",
        "steps = 0.9 * mechanism.noise_std / grid",
        "noise of DPPCA",
    ),
    "a seed that every fit uses": Mutant(
        "noise_generator",
        "generator_of_key(secrets.randbits(128))",
        "generator_of_key(7)",
        "noise of DPPCA",
    ),
    "a generator that every release begins anew": Mutant(
        "Release",
        "released = _add_noise(mechanism, statistic, self._generator)",
        "self._key = vars(self).get('_key') or int(self._generator.integers(2**60))\n"
        "            own = generator_of_key(self._key)\n"
        "            released = _add_noise(mechanism, statistic, own)",
        "noise of LRSRegressor",
    ),
    "samples five per cent larger than was planned": Mutant(
        "StreamRelease",
        "chances < self._rate",
        "chances < 1.05 * self._rate",
        "noise of DPAdamClassifier",
    ),
    "a clip that is off beyond a length": Mutant(
        "clip_rows",
        "return _rescale_rows(X, clip_norm, True, out)",
        "far, before = np.abs(X).max() > 1e6, np.array(X, dtype=np.float64)\n"
        "    return before if far else _rescale_rows(X, clip_norm, True, out)",
        "pca-steps",
    ),
    "a budget counted once for two releases": Mutant(
        "split_mu",
        "mu * math.sqrt(share) for share",
        "mu * share**0 for share",
        "scaler",
    ),
    "a plan that counts its largest release alone": Mutant(
        "PrivacyPlan",
        "return math.sqrt(sum(mu**2 for mu in others))",
        "return max(others, default=0.0)",
        "pca-searched",
    ),
}

_FIT = "release/test_plan_and_charge.py::test_fit_is_a_function_of_its_releases"
EXACT = {
    "products weighed too much for a matrix of their own": Mutant(
        "Pair",
        "self.ratio = max(first.column_norm / second.column_norm, 1.0)",
        "self.ratio = 2.0",
        "covariance/test_two_workloads.py::"
        "test_no_row_moves_a_release_by_more_than_is_charged",
    ),
    "second moment taken as free beyond its threshold": Mutant(
        "joint_moment_ratio",
        "return 2.0 + 2.0 * nu + 0.5 / nu",
        "return 4.0",
        "theory/test_joint_moments.py::test_ratio_is_the_supremum",
    ),
    "mean's diameter taken as its radius": Mutant(
        "mean_sensitivity",
        "return 2.0 * clip_norm / n_samples",
        "return clip_norm / n_samples",
        "theory/test_sensitivity.py::test_the_bounds_are_attained",
    ),
    "limits of a step before not clipped at": Mutant(
        "bounded_joint_rows",
        "np.clip(block[:, columns], *limits, out=rows)",
        "rows[...] = block[:, columns]",
        "pipeline/test_tables_in_pipelines.py"
        "::test_a_step_that_errs_about_its_limits_costs_accuracy_alone",
    ),
    "labels of a linear classifier read before the charge": Mutant(
        "DPRidgeClassifier",
        """        def read():
            found = self._one_hot(labels.read())
""",
        """        found = self._one_hot(labels.read())

        def read():
""",
        "release/test_refused_budgets.py",
    ),
    "rows of clients read before the charge": Mutant(
        "FederatedEstimator",
        "            self._charge(plans)\n            table = unread.read()\n",
        "            table = unread.read()\n            self._charge(plans)\n",
        "release/test_order_of_a_fit.py::"
        "test_no_value_is_read_before_the_charge[SparseDPPCA-array]",
    ),
    "grid term dropped": Mutant(
        "Gaussian",
        " + self.grid_term",
        "",
        "theory/test_floating_point.py::test_grid_and_summation_terms_are_charged",
    ),
    "summation term dropped": Mutant(
        "Gaussian",
        " + 2.0 * self.summation_error",
        "",
        "theory/test_floating_point.py::test_grid_and_summation_terms_are_charged",
    ),
    "sign of zero let out": Mutant(
        "round_to_integers",
        "value += 0.0",
        "pass",
        "theory/test_floating_point.py::test_no_zero_tells_its_sign",
    ),
    "charge skipped": Mutant(
        "charge",
        "accountant.charge(plan)",
        "pass",
        "release/test_plan_and_charge.py::test_a_fit_is_charged_before_it_reads",
    ),
    "a budget that is no number taken for no privacy": Mutant(
        "PrivateEstimator",
        "if real else self.epsilon is not None",
        "if real else False",
        "decomposition/test_pca_conventions.py::"
        "test_a_budget_that_is_no_number_is_not_taken_for_no_privacy",
    ),
    "charged after the data are read": Mutant(
        "DPPCA",
        "            release, rows = self._start_release(",
        "            unread.read()[:1]\n"
        "            release, rows = self._start_release(",
        "release/test_plan_and_charge.py::test_a_fit_is_charged_before_it_reads",
    ),
    "budget not split": Mutant(
        "split_mu",
        "tuple(mu * math.sqrt(share) for share in shares)",
        "tuple(mu for share in shares)",
        "release/test_plan_and_charge.py::test_plan_costs_what_was_asked",
    ),
    "counts of quantiles let out": Mutant(
        "Votes",
        "beyond = (release(name, margins(middle)) > 0.0) == rising",
        "release(name, margins(middle))\n"
        "            beyond = (margins(middle) > 0.0) == rising",
        "theory/test_two_stage.py::test_no_replacement_moves_the_votes_further",
    ),
    "diameter of a cross moment taken as its radius": Mutant(
        "cross_moment_sensitivity",
        "return 2.0 * clip_norm * other_clip_norm / n_samples",
        "return clip_norm * other_clip_norm / n_samples",
        "theory/test_two_stage.py::test_no_replacement_moves_a_cross_moment_further",
    ),
    "projections of a power step not clipped": Mutant(
        "_cross_sum",
        "clip_rows(np.asarray(rows @ basis), 1.0)",
        "np.asarray(rows @ basis)",
        "theory/test_centered.py::"
        "test_no_row_moves_a_stage_by_more_than_its_lemma[none-True]",
    ),
    "votes along and across charged as one": Mutant(
        "PrivateScales",
        "sensitivity.vote_sensitivity(n_votes, Neighbors.REPLACE_ONE)",
        "sensitivity.vote_sensitivity(1, Neighbors.REPLACE_ONE)",
        "theory/test_two_stage.py::test_no_replacement_moves_the_votes_further",
    ),
    "a length of a pair counted as that of a row": Mutant(
        "ClippedMoments",
        "origin.typical or 1.0, 1.0 / divisor)",
        "origin.typical or 1.0, 1.0 / self.rows.n)",
        "theory/test_whole_covariance.py::test_no_replacement_moves_a_vote_further",
    ),
    "branch chosen by private rows": Mutant(
        "Centered",
        "branch = self.branches[self.chosen[at]]",
        "branch = self.branches[self.chosen[at * int(np.abs(X).max() > 9)]]",
        f"{_FIT}[a choice of a center]",
    ),
    "lengths that are not released": Mutant(
        "Centered",
        'typical_lengths(release("lengths", exact), noise)',
        'typical_lengths(0.0 * release("lengths", exact) + exact, noise)',
        f"{_FIT}[a choice of a center]",
    ),
    "votes that are not released": Mutant(
        "Centered",
        "votes = release(branch.votes.name, counts / (PARTS * voters.n_rows))",
        "votes = counts + 0.0 * release(branch.votes.name, counts)",
        f"{_FIT}[lengths of rows]",
    ),
    "rank from private rows": Mutant(
        "DPPCA",
        "            self.n_samples_ = n_samples\n",
        "            self.n_samples_ = n_samples + int(np.abs(rows).max() > 9)\n",
        f"{_FIT}[released rank]",
    ),
    "branches charged by the cheapest": Mutant(
        "Alternatives",
        "return max(math.hypot",
        "return min(math.hypot",
        "theory/test_two_stage.py::test_a_choice_costs_its_dearest_branch",
    ),
    "steps to a center at the cost of one": Mutant(
        "Centered",
        "cost = self.mu * math.sqrt(math.fsum(shares))",
        "cost = self.mu",
        "release/test_plan_and_charge.py::test_plan_costs_what_was_asked",
    ),
    "clipped rows over a shorter radius": Mutant(
        "CenterSteps",
        "mean = total / self.sample.n_rows / radius",
        "mean = total / self.sample.n_rows / (0.5 * radius)",
        "theory/test_every_release.py::test_nor_a_release_of_a_client[shared]",
    ),
    "a shared center of exact rows": Mutant(
        "AskCenter",
        "rows.mean = steps.run(rows.release, rows.X, *asked)",
        "rows.mean = steps.run(rows.release, rows.X, *asked) + rows.X.mean(axis=0)",
        "theory/test_every_release.py::test_nor_a_release_of_a_client[shared]",
    ),
    "rows longer than a floor not normalized": Mutant(
        "_rescale_rows",
        "factors = target / np.maximum(lengths, floor)",
        "factors = target / (np.full_like(lengths, floor) if floor else lengths)",
        "tables/test_clipping.py::test_rows_shorter_than_a_floor_keep_their_length_over_it",
    ),
    "center that its noise was left out of": Mutant(
        "CenterSteps",
        "return release(name, mean, overwrite=True)",
        "return mean + 0.0 * release(name, mean.copy())",
        "theory/test_every_release.py::test_nor_a_release_of_a_client[shared]",
    ),
    "both branches released": Mutant(
        "Release",
        "            self._pending.pop(other, None)",
        "            pass",
        "theory/test_two_stage.py::test_one_branch_forgoes_the_other",
    ),
    "assumption not said": Mutant(
        "SpikedProjector",
        "assumption=Assumption.SPIKED_GAUSSIAN",
        "assumption=Assumption.NONE",
        "theory/test_spiked.py::test_the_plan_says_what_it_rests_on",
    ),
    "rows beyond a model's bound not counted": Mutant(
        "SpikedProjector",
        "mu = gaussian_mu(epsilon, delta - failure)",
        "mu = gaussian_mu(epsilon, delta)",
        "theory/test_spiked_bounds.py::"
        "test_delta_includes_the_probability_of_failure[1.0-1e-06-components]",
    ),
    "medians of votes taken for those of the law": Mutant(
        "SignalBound",
        "halves = [0.5 * degrees for degrees in self.degrees]",
        "halves = [0.5 * degrees for degrees in self.degrees]\n"
        "        beyond = below = 0.5",
        "theory/test_unknown_spikes.py::"
        "test_the_bound_is_above_the_signal_as_seldom_as_it_says",
    ),
    "votes of all rows on directions that half of them made": Mutant(
        "UnknownSpikes",
        "voting = self.bounds.blocks(rows[half:])",
        "voting = self.bounds.blocks(rows)",
        "theory/test_unknown_spikes.py::"
        "test_what_is_released_is_by_the_votes_of_the_second_half",
    ),
    "a signal from the middles of cells": Mutant(
        "UnknownSpikes",
        "signal(cells[0].low, cells[1].high)",
        "signal(cells[0].middle, cells[1].middle)",
        "theory/test_unknown_spikes.py::"
        "test_what_is_released_is_by_the_votes_of_the_second_half",
    ),
    "directions of the rows that vote": Mutant(
        "UnknownSpikes",
        "self.directions.run(release, rows[:half], None)",
        "self.directions.run(release, rows[half:], None)",
        "theory/test_unknown_spikes.py::"
        "test_the_projector_is_over_a_bound_for_the_true_signal",
    ),
    "one row's part of a model's bound": Mutant(
        "_projector_bound",
        "half = (1.0 - angles**2) * along / _SQRT2",
        "half = (1.0 - angles**2) * along / 2.0",
        "theory/test_spiked_bounds.py::"
        "test_the_bound_for_very_many_rows[50-signal1-1e-06]",
    ),
    "a model's gap for that of its rows": Mutant(
        "_sampling_levels",
        "gaps = least - most",
        "gaps = least",
        "theory/test_spiked_bounds.py::"
        "test_statement_2_bounds_angles_and_gaps[60-6-signal0]",
    ),
    "failures of a model not in the ledger": Mutant(
        "new_row",
        "min(times * float(cost.failure), 1.0)",
        "0.0",
        "theory/test_spiked_bounds.py::test_failures_of_several_fits_add_up",
    ),
    "failures of a model not in the budget": Mutant(
        "Budget",
        "own, pairs = Fraction(cost.failure), cost.pairs",
        "own, pairs = Fraction(0), cost.pairs",
        "theory/test_spiked_bounds.py::"
        "test_a_budget_of_a_small_delta_refuses_a_fit_that_may_fail_more_often",
    ),
    "noise of the papers charged as they claim": Mutant(
        "SpikedProjector",
        "return tuple(mechanisms), max(epsilon, shown)",
        "return tuple(mechanisms), epsilon",
        "theory/test_spiked_bounds.py::"
        "test_the_noise_of_the_papers_is_charged_by_the_theorem[1000-components]",
    ),
    "duplicate entries squared one by one": Mutant(
        "_rescale_sparse_rows",
        "X.sum_duplicates()",
        "pass",
        "decomposition/test_pca_sparse.py::test_entries_at_the_same_place_are_one_number",
    ),
    "seed reused across clones": Mutant(
        "noise_generator",
        "secrets.randbits(128)",
        "12345",
        "release/test_plan_and_charge.py::test_clones_never_share_noise",
    ),
    "seeded fit charged as private": Mutant(
        "PrivateEstimator",
        '"seeded": self.noise_seed is not None',
        '"seeded": False',
        "release/test_plan_and_charge.py::test_a_seed_is_no_privacy",
    ),
    "eigenvectors by modulus": Mutant(
        "_dense",
        "some = (order - rank, order - 1)",
        "some = (0, rank - 1)",
        "release/test_plan_and_charge.py::test_components_follow_the_law_of_top_values",
    ),
}

_SCALER = "preprocessing/test_scaler_privacy.py::test_"
_MOVES = f"{_SCALER}no_row_moves_a_release_by_more_than_was_planned"

# Of the scaler.
EXACT |= {
    "pairs of rows that are neighbors by value": Mutant(
        "DifferenceHistograms",
        "walks.reduce_rows(rows, PairWalk",
        "walks.reduce_rows(np.sort(rows, axis=0), PairWalk",
        f"{_MOVES}[40-both-differences]",
    ),
    "ties counted as the smallest difference": Mutant(
        "DifferenceCounts",
        "        counted = (node >= 0)",
        "        np.maximum(node, 0, out=node)\n        counted = (node >= 0)",
        "linalg/test_feature_kernels.py::"
        "test_ties_and_subnormal_numbers_count_for_nothing_and_large_ones_as_the_last",
    ),
    "weights between nodes of a block dropped": Mutant(
        "DifferenceCounts",
        "weights[1:] += above[:-1]",
        "pass",
        "linalg/test_feature_kernels.py::test_mean_squares_are_kept",
    ),
    "features not cut": Mutant(
        "moment_sums",
        "        np.clip(cut, -1.0, 1.0, out=cut)\n",
        "",
        f"{_MOVES}[40-both-moments]",
    ),
    "squares heavier than what is free": Mutant(
        "FeatureMoments",
        "return math.sqrt(sensitivity.free_moment_weight(1))",
        "return 2.0 * math.sqrt(sensitivity.free_moment_weight(1))",
        f"{_MOVES}[40-both-moments]",
    ),
    "values beyond the bounds": Mutant(
        "FeatureScales",
        "bounded = None if self.box is None else self.box.to_unit",
        "bounded = None",
        "preprocessing/test_scaler.py::test_bounds_clip_and_need_not_be_tight",
    ),
    "places without their noise": Mutant(
        "Phases",
        "released = release(self.name, phases, overwrite=True)",
        "released, _ = phases, release(self.name, phases)",
        f"{_SCALER}all_that_is_public_is_a_function_of_the_releases[both]",
    ),
    "cells without their noise": Mutant(
        "PlaceWindows",
        "released = release(self.name, exact, overwrite=True)",
        "released, _ = exact, release(self.name, exact)",
        f"{_SCALER}all_that_is_public_of_few_rows_is_a_function_of_the_releases[both]",
    ),
    "scales read from private windows": Mutant(
        "ScaleWindows",
        "counts = release(self.name, exact, overwrite=True)",
        "counts, _ = exact, release(self.name, exact)",
        f"{_SCALER}all_that_is_public_of_few_rows_is_a_function_of_the_releases[both]",
    ),
    "missing values in a cell": Mutant(
        "counts_in_cells",
        "place[counted].astype(np.int64)",
        "place.ravel().astype(np.int64)",
        "theory/test_feature_scales.py::"
        "test_one_row_attains_the_sensitivity_of_windows_of_cells[1]",
    ),
    "a missing value further away than another cell": Mutant(
        "PlaceWindows",
        "overlapping(counts, _WIDTH), counts.sum(axis=1)",
        "overlapping(counts, _WIDTH), 2.0 * counts.sum(axis=1)",
        f"{_MOVES}[40-holes-cells]",
    ),
    "features seen by private counts": Mutant(
        "DifferenceHistograms",
        "self._spreads(release(self.name, counts, overwrite=True), noise)",
        "release(self.name, counts) is None or self._spreads(counts, noise)",
        f"{_SCALER}all_that_is_public_is_a_function_of_the_releases[no mean]",
    ),
    "entries of sparse rows believed to be one a place": Mutant(
        "_summed",
        "rows.sum_duplicates()",
        "pass",
        "linalg/test_feature_kernels.py::"
        "test_entries_at_the_same_place_are_one_difference",
    ),
}

_TABLE = "preprocessing/test_tables_privacy.py::test_"
_COVERED = f"{_TABLE}a_plan_covers_values_of_single_rows[8-0.5]"

# Of holes, and of categories that are found.
EXACT |= {
    "missing values counted as the largest differences": Mutant(
        "DifferenceCounts",
        " & (bits <= _INFINITE)",
        "",
        "theory/test_feature_scales.py::"
        "test_missing_values_have_no_weight_in_histograms_and_phases[1]",
    ),
    "phases of missing values": Mutant(
        "_sums_around",
        "count - np.isnan(block).sum(axis=0)",
        "count",
        "theory/test_feature_scales.py::"
        "test_missing_values_have_no_weight_in_histograms_and_phases[1]",
    ),
    "presence heavier than what is free": Mutant(
        "free_presence_weight",
        "return 3.0 - 0.25",
        "return 4.0 - 0.25",
        f"{_MOVES}[40-holes-moments]",
    ),
    "squares of present values not about their middle": Mutant(
        "FeatureMoments",
        "sums[:, 1] -= _MIDDLE * sums[:, 2]",
        "pass",
        f"{_MOVES}[40-holes-moments]",
    ),
    "rows with a hole halved": Mutant(
        "row_differences",
        "large = np.isinf(out).any(axis=1)",
        "large = ~np.isfinite(out).all(axis=1)",
        "preprocessing/test_tables.py::test_holes_change_no_other_feature",
    ),
    "columns of categories charged as one": Mutant(
        "category_counts_sensitivity",
        "return math.sqrt(2.0 * n_columns)",
        "return math.sqrt(2.0)",
        "theory/test_categories.py::"
        "test_one_row_moves_counts_by_the_sensitivity_and_no_further[8]",
    ),
    "a threshold for values that do not occur": Mutant(
        "category_threshold", "return 1.0 - noise_std", "return -noise_std", _COVERED
    ),
    "a threshold for one column": Mutant(
        "category_threshold",
        "math.log1p(-failure) / n_columns",
        "math.log1p(-failure)",
        _COVERED,
    ),
    "failures beside delta": Mutant(
        "TableStatistics", "delta - self.failure))", "delta))", _COVERED
    ),
    "counts without noise": Mutant(
        "_above",
        "release_entries(mechanism, noisy, generator)",
        "pass",
        f"{_TABLE}noise_decides_which_values_of_a_single_row_are_named",
    ),
    "counts of which all are released": Mutant(
        "_above",
        "threshold = mechanism.threshold",
        "threshold = 0.0",
        f"{_TABLE}noise_decides_which_values_of_a_single_row_are_named",
    ),
    "categories in the order of rows": Mutant(
        "_above",
        "found.append(dict(sorted(kept.items())))",
        "found.append(kept)",
        f"{_TABLE}noise_of_frequent_values_has_its_deviation",
    ),
    "values whose text depends on other rows": Mutant(
        "_HASHED",
        "{str, float, int, type(None)}",
        "{str, float, int, bool, type(None)}",
        "preprocessing/test_tables.py::test_a_row_is_transformed_by_itself",
    ),
    "kinds by values": Mutant(
        "_with_columns",
        "isinstance(X, (np.ndarray, list, tuple))",
        "isinstance(X, np.ndarray)",
        "preprocessing/test_tables.py::test_lists_are_columns_of_objects",
    ),
}

_PRIVACY = "linear_model/test_lrs_privacy.py::test_"
_FUNCTION_OF_RELEASES = f"{_PRIVACY}all_that_is_public_is_a_function_of_the_releases"
_OWN_VECTOR = (
    f"{_PRIVACY}a_user_moves_every_sum_by_their_own_vector_and_no_other_number"
)
_ITEMS = "recommendation/test_item_pipeline.py::test_"
_ROWS = "recommendation/test_item_embedding.py::test_"
_ANSWER = "        yield from _kernels_shared.user_moments(block, scores, fit, units)"
_SUM = "    return release(name, total * grid, overwrite=True)"

# Of the regression of users.
EXACT |= {
    "two votes charged as one": Mutant(
        "SharedDirections",
        "sensitivity.vote_sensitivity(self._n_medians, self.neighbors)",
        "sensitivity.vote_sensitivity(1, self.neighbors)",
        "linear_model/test_lrs_charges.py::test_planned_sensitivities",
    ),
    # No audit can see this one: clipping bounds the vector all the same.
    "mean over a user's rows forgotten": Mutant(
        "_moments",
        "counts = np.maximum(block.counts, 1)[:, None]",
        "counts = np.ones((n_users, 1))",
        f"{_PRIVACY}a_user_counts_no_more_for_rows_that_are_repeated[7]",
    ),
    "start used without its noise": Mutant(
        "SharedDirections",
        'total = self._sum(release, "start"',
        "total = sum(_kernels_shared.start_moments(b).sum(axis=0)"
        " for b in rows.blocks())\n"
        '            self._sum(release, "start"',
        f"{_FUNCTION_OF_RELEASES}[start alone]",
    ),
    "start turned by the data": Mutant(
        "SharedDirections",
        "        U, first = start, 1\n",
        "        U, first = start, 1\n"
        "        if start is not None:\n"
        "            U = np.roll(start, rows.n_users, axis=0)\n",
        f"{_OWN_VECTOR}[random start]",
    ),
    "stopped when U is at rest": Mutant(
        "SharedDirections",
        "            progress(step)\n",
        "            if step > first and np.allclose(U, rest, atol=0.05):\n"
        "                break\n"
        "            rest = U\n"
        "            progress(step)\n",
        f"{_PRIVACY}the_number_of_releases_is_as_planned_for_any_data",
    ),
    "features scaled by the data": Mutant(
        "UserRows",
        "        self._scale = scale\n        self._kept",
        "        self._scale = 1.0 + np.abs(self._X[:, self._columns]).max(axis=0)\n"
        "        self._kept",
        f"{_OWN_VECTOR}[usual]",
    ),
    "weights shrunk to their mean": Mutant(
        "SharedDirections",
        _ANSWER,
        "        mean = fit.weights.mean(axis=0)\n"
        "        fit = replace(fit, weights=0.9 * fit.weights + 0.1 * mean)\n"
        + _ANSWER,
        f"{_OWN_VECTOR}[usual]",
    ),
    "worst users fitted anew": Mutant(
        "SharedDirections",
        _ANSWER,
        "        import numpy as np\n"
        "        worst = fit.loss >= np.quantile(fit.loss, 0.8)\n"
        "        anew = _kernels_shared.cold_fit(block, scores, squares, rules, 9, 3)\n"
        "        fit = anew.where(worst, fit)\n" + _ANSWER,
        f"{_OWN_VECTOR}[usual]",
    ),
    "levels shrunk to the mean of all users'": Mutant(
        "UserRows",
        "(self.y_means[users] - self.level.prior)",
        "(self.y_means[users] - self.y_means.mean())",
        f"{_OWN_VECTOR}[levels]",
    ),
    "offsets by the number of rows": Mutant(
        "subtract_offsets",
        "np.clip(y - offsets,",
        "np.clip(y - offsets / len(y),",
        f"{_OWN_VECTOR}[offsets]",
    ),
    "rows of unit norm not scaled": Mutant(
        "unit_steps",
        "values / np.repeat(lengths, counts) / EMBEDDING_STEP",
        "values / EMBEDDING_STEP",
        f"{_ROWS}no_user_is_longer_than_one",
    ),
    "rows of unit norm rounded up": Mutant(
        "unit_steps", "np.trunc(", "np.ceil(", f"{_ROWS}no_user_is_longer_than_one"
    ),
    "rows whose squares underflow": Mutant(
        "unit_steps",
        "    values = np.ldexp(values, -np.repeat(exponents, counts))\n",
        "",
        f"{_ROWS}no_user_is_longer_than_one",
    ),
    "second moment over the number of users": Mutant(
        "second_moment_of_steps",
        "out *= EMBEDDING_STEP * EMBEDDING_STEP",
        "out *= EMBEDDING_STEP * EMBEDDING_STEP / steps.shape[0]",
        f"{_ROWS}the_second_moment_is_a_sum_of_whole_numbers",
    ),
    "catalog from the data under a budget": Mutant(
        "CatalogEstimator",
        "if self.items is None and not self._is_private():",
        "if self.items is None:",
        f"{_ROWS}with_a_budget_items_are_hashed_with_a_warning",
    ),
    "number beside pairs of clicks not clipped": Mutant(
        "pair_contributions",
        "np.minimum(counts * counts / (squares * n_head), 1.0)[some]",
        "(counts * counts / (squares * n_head))[some]",
        "recommendation/test_item_answers.py::"
        "test_pairs_of_clicks_are_within_their_bound_under_both_relations",
    ),
    "sums over users of ratings without their noise": Mutant(
        "ReleasedSum",
        "release(name, total, overwrite=True)",
        "total.copy() + 0 * release(name, total, overwrite=True)",
        f"{_ITEMS}with_releases_held_fixed_nothing_depends_on_users",
    ),
    "residuals of a block scaled together": Mutant(
        "_projectors",
        "_kernels.unit_steps(block.of_user, block.items, left, n_items)",
        "_kernels.unit_steps(\n"
        "                block.of_user, block.items, left, n_items\n"
        "            ) * np.sqrt(len(block))",
        f"{_ITEMS}a_user_moves_every_sum_by_their_own_answer_of_norm_one",
    ),
    "features of items scaled by counts without noise": Mutant(
        "RatingsModel",
        "FoundItems(model, found.logged, found.counts)",
        "FoundItems(\n"
        "            model, found.logged,\n"
        "            1 + np.bincount(rows.items, None, rows.n_items)\n"
        "        )",
        f"{_ITEMS}with_releases_held_fixed_nothing_depends_on_users",
    ),
    "divided by the number of users": Mutant(
        "released_sum",
        _SUM,
        _SUM.replace("grid,", "grid / rows.n_users,"),
        f"{_OWN_VECTOR}[usual]",
    ),
    "nothing released where nobody contributes": Mutant(
        "released_sum",
        _SUM,
        "    if not total.any():\n        return total\n" + _SUM,
        f"{_OWN_VECTOR}[usual]",
    ),
    "users' vectors not on the grid": Mutant(
        "sum_on_grid",
        "np.rint(steps, out=steps).sum(axis=0)",
        "steps.sum(axis=0)",
        f"{_OWN_VECTOR}[usual]",
    ),
    "sum rounded in place of users' vectors": Mutant(
        "sum_on_grid",
        "np.rint(steps, out=steps).sum(axis=0)",
        "np.rint(steps.sum(axis=0))",
        f"{_OWN_VECTOR}[usual]",
    ),
    "number of users printed": Mutant(
        "SharedDirections",
        "        return counts.cumsum(axis=1)",
        "        print(counts.sum())\n        return counts.cumsum(axis=1)",
        f"{_FUNCTION_OF_RELEASES}[usual]",
    ),
    "medians without noise": Mutant(
        "Votes",
        "beyond = (release(name, margins(middle)) > 0.0) == rising",
        "release(name, margins(middle))\n"
        "            beyond = (margins(middle) > 0.0) == rising",
        f"{_FUNCTION_OF_RELEASES}[usual]",
    ),
    "warnings of a user's values": Mutant(
        "quietly",
        '        with np.errstate(all="ignore"):\n            return function',
        "        if True:\n            return function",
        "test_quiet_arithmetic.py::test_what_is_mapped_in_threads_is_quiet[2]",
    ),
    "users' models published": Mutant(
        "PrivateEstimator",
        'if name.endswith("_") and not name.startswith("_")',
        'if name.endswith("_") or name == "_personal"',
        f"{_PRIVACY}nothing_that_is_handed_on_holds_anything_of_a_user[usual-strings]",
    ),
}

_STREAMS = "covariance/test_stream_releases.py::test_"
_THREADS = "covariance/test_stream_threads.py::test_"

# Of streams.
EXACT |= {
    "noise scaled for columns of norm one": Mutant(
        "CorrelatedGaussian",
        "return self.column_norm * super()._charged()",
        "return super()._charged()",
        f"{_STREAMS}plan_costs_what_was_asked",
    ),
    "stale copies of a stream go on": Mutant(
        "Transaction",
        "        if self.stream(name) != before:\n",
        "        if False:\n",
        f"{_STREAMS}stale_copies_are_refused",
    ),
    "streams copied without a ledger": Mutant(
        "StreamRelease",
        "if self._noise is not None and self._accountant is None:",
        "if False:",
        f"{_STREAMS}without_a_ledger_there_are_no_copies",
    ),
    "a trace too heavy": Mutant(
        "free_trace_weight",
        "n_features * FREE_WEIGHT_1D - 0.5 * (n_features - 1)",
        "n_features * FREE_WEIGHT_1D",
        "theory/test_streams.py::test_trace_is_free_up_to_its_weight",
    ),
    "rows of a stream not rounded": Mutant(
        "_ShapedNoise",
        "round_to_integers(rows, self._grid)",
        "rows /= self._grid",
        f"{_STREAMS}releases_lie_on_the_grid",
    ),
    "stream goes on after a step that failed": Mutant(
        "StreamRelease",
        "if self._claimed or position != self.position:",
        "if False:",
        f"{_STREAMS}a_failed_step_ends_the_stream",
    ),
    "stream read before it is charged": Mutant(
        "JMECovariance",
        "        plan = self._planned(moments)\n        release",
        "        moments.vectors(np.zeros((1, moments.rows.n_features)))\n"
        "        plan = self._planned(moments)\n        release",
        f"{_STREAMS}a_stream_is_charged_once_and_before_it_reads",
    ),
    "a forked process draws the same noise": Mutant(
        "NoiseOwner",
        "return self._process != (os.getpid(), _process_mark)",
        "return False",
        f"{_THREADS}a_fork_in_the_middle_of_a_path",
    ),
    "a name released to two threads": Mutant(
        "Release",
        "if self._pending.pop(name, None) is None:",
        "if self._pending.pop(name, None) is False:",
        f"{_THREADS}a_release_is_taken_off_the_plan_at_once",
    ),
    "a closed stream goes on without noise": Mutant(
        "StreamRelease",
        "        self._noise, self._closed = None, True\n",
        "        self._mechanism = Exact('moments', self._mechanism.shape)\n",
        f"{_THREADS}a_closed_stream_lets_nothing_out",
    ),
    "a strategy that changes while its stream runs": Mutant(
        "JMECovariance",
        "            name: snapshot(value)\n",
        "            name: value\n",
        "covariance/test_strategies_of_streams.py::test_a_stream_keeps_what_it_began_with",
    ),
    "noise beyond float64's integers": Mutant(
        "_MOST_NOISE_STEPS",
        "_MOST_NOISE_STEPS = 2.0**47",
        "_MOST_NOISE_STEPS = 2.0**470",
        "covariance/test_stream_amplification.py",
    ),
    "one feature's product charged too little at two": Mutant(
        "second_moment_ratio",
        "return 1.0 if n_features == 1 else 2.0",
        "return 1.0",
        "theory/test_streams.py::test_products_alone_move_by_their_ratio",
    ),
}

_CLIENT = "federation/test_client.py::test_"
_MECHANISMS = "federation/test_client_mechanisms.py::test_"
_ESTIMATOR = "decomposition/test_federated_pca.py::test_"
_AGREEMENT = "federation/test_agreement.py::test_"

# Of clients and servers.
EXACT |= {
    "weights from private data": Mutant(
        "Start",
        "values, vectors = eigen.top_eigh(moment, rank, spread)",
        "values, vectors = eigen.top_eigh(moment, rank, spread)\n"
        "        values[-1] = np.linalg.norm(rows.X, axis=1).mean()",
        f"{_CLIENT}all_that_is_sent_is_a_function_of_the_releases",
    ),
    "variances from private rows": Mutant(
        "ModelStart",
        "return (signal, noise), vectors",
        "return (signal, float(rows.X.var())), vectors",
        f"{_MECHANISMS}messages_are_functions_of_the_releases",
    ),
    "components of the model without noise": Mutant(
        "SpikedProjector",
        "eigen.top_eigh(self.noisy_projector(release, X), rank)[1]",
        "(self.noisy_projector(release, X), exact_directions(X, rank))[1]",
        f"{_MECHANISMS}messages_are_functions_of_the_releases",
    ),
    "variances of one client believed": Mutant(
        "ModelStart",
        "error = statistic.squared_error(mu, signal, noise)",
        "error = statistic.squared_error(mu, *(reply.numbers or (signal, noise)))",
        f"{_MECHANISMS}a_client_is_not_believed_what_it_says_of_itself_alone",
    ),
    "a step that depends on exact rows": Mutant(
        "PowerProduct",
        "release(self.name, product)",
        "release(self.name, product) / np.linalg.norm(product)",
        f"{_CLIENT}all_that_is_sent_is_a_function_of_the_releases",
    ),
    "a round forgotten in the composition": Mutant(
        "Combination",
        "planned.extend(part.mechanisms(costs[name]))",
        "more = 4.0 / 3.0 if name == 'power_1' else 1.0\n"
        "                planned.extend(part.mechanisms(more * costs[name]))",
        f"{_ESTIMATOR}plans_cost_what_was_asked",
    ),
    "a repeated request answered anew": Mutant(
        "AnsweringClient",
        "        return self._answers[request.step]",
        "        plan, self._session = self.plan, None\n"
        "        self._begun, self._answers = {}, {}\n"
        "        return self._respond(request)",
        f"{_CLIENT}a_repeated_request_gets_identical_bytes",
    ),
    "clients charged after they answered": Mutant(
        "AnsweringClient",
        "        if self._session is None:\n            self._charge_session(session)",
        "        self._X.sum()\n"
        "        if self._session is None:\n            self._charge_session(session)",
        f"{_CLIENT}nothing_is_read_before_the_charge",
    ),
    "clients of one fit as much as the first": Mutant(
        "cost_of",
        "max(c.mu for c in costs)",
        "costs[-1].mu",
        "accounting/test_accountant_composition.py::"
        "test_clients_of_one_fit_are_one_entry",
    ),
    "clients not charged": Mutant(
        "FederatedEstimator",
        "            self._charge(plans)\n",
        "",
        f"{_ESTIMATOR}two_fits_of_the_same_rows_add_up",
    ),
    "rows that two clients share": Mutant(
        "group_rows",
        "    _check_disjoint(blocks, n_rows)\n",
        "",
        f"{_ESTIMATOR}rows_of_two_clients_are_found_out",
    ),
    "weights upside down, as printed": Mutant(
        "inverse_variance_weights",
        "        weights = smallest / variances",
        "        weights = np.sqrt(variances / smallest)",
        f"{_ESTIMATOR}optimal_weights_are_better_than_equal_ones",
    ),
}

_NOISE, _PANELS = (
    "release/test_noise.py::test_",
    "theory/test_symmetric_noise.py::test_",
)
_BOUNDS = "theory/test_row_bounds.py::test_no_row_is_longer_than_what_is_charged"

# Of large releases and of rows about a mean.
EXACT |= {
    "a chunk of draws used again": Mutant(
        "grid_noise",
        "        generator.standard_normal(out=chunk)\n        chunk *= steps",
        "        if start and chunk.size == _CHUNK:\n"
        "            chunk[:] = flat[:_CHUNK]\n"
        "            continue\n"
        "        generator.standard_normal(out=chunk)\n        chunk *= steps",
        f"{_NOISE}no_draw_is_used_twice",
    ),
    "less noise in later panels": Mutant(
        "release_symmetric",
        "grid_noise(noise, steps / math.sqrt(2.0), generator)",
        "less = 0.9 if start else 1.0\n"
        "        grid_noise(noise, less * steps / math.sqrt(2.0), generator)",
        f"{_PANELS}variances_of_every_panel",
    ),
    "less noise in samples of a release": Mutant(
        "Release",
        "noise_std = _noise_std(mechanism)",
        "noise_std = 0.9 * _noise_std(mechanism)",
        f"{_NOISE}samples_of_a_release_get_its_deviation_and_fresh_draws",
    ),
    "noise of a stream cut off in the middle of a block": Mutant(
        "_ShapedNoise",
        "count = block * min(most, -(-wanted // block))",
        "count = min(block * most, wanted)",
        f"{_STREAMS}noise_does_not_depend_on_how_much_is_drawn_at_once",
    ),
    "rows of a mean in a box not clipped": Mutant(
        "RowBounds",
        "return clip_rows(block, self.mean_radius, out=own)",
        "return block",
        _BOUNDS,
    ),
}

_CONTEXTS = "accounting/test_accountant_contexts.py::test_"
_COPIES = "accounting/test_accountant_copies.py::test_"

# Of the ledger, among threads, tasks, copies and users.
EXACT |= {
    "threads without a context not charged": Mutant(
        "ambient_accountant",
        "return min(handles, key=lambda handle: handle.allow_seeded, default=None)",
        "return None",
        f"{_CONTEXTS}threads_of_joblib_take_the_only_ledger_that_is_open",
    ),
    "threads without a context charged to any block": Mutant(
        "ambient_accountant",
        "(n_ledgers == 1 and not _is_thread_of_joblib())",
        "False",
        f"{_CONTEXTS}a_fresh_thread_never_runs_uncharged_beside_a_block",
    ),
    "made-up data for all threads": Mutant(
        "without_accountant",
        "    open_block(None)\n",
        "    open_block(None)\n    _open.clear()\n",
        f"{_CONTEXTS}without_accountant_is_of_its_context_alone",
    ),
    "an older copy of a ledger accepted": Mutant(
        "Transaction",
        "if entry != seen[1:2] or mark[2] < seen[2]:",
        "if entry != seen[1:2]:",
        f"{_COPIES}an_older_copy_of_the_same_entries_is_refused",
    ),
    "a second name of a ledger accepted": Mutant(
        "_check_file",
        "if found.st_nlink > 1:",
        "if False:",
        f"{_COPIES}hard_links_are_refused",
    ),
    "disjoint rows taken for disjoint users": Mutant(
        "PrivacyAccountant",
        "if relation[0] is Unit.USER and isinstance(plan, ParallelPlan):",
        "if False:",
        "accounting/test_accountant_composition.py::"
        "test_a_ledger_of_users_takes_no_clients_of_rows",
    ),
}

_KINDS = "accounting/test_ledger_kinds.py::test_"
_BOX = "accounting/test_box_filter.py::test_"
_LEAST = "accounting/test_least_mu.py::test_"
_TABLE_STEPS = "pipeline/test_tables_in_pipelines.py"
_EDITS = (
    "accounting/test_ledger_damage.py::"
    "test_check_finds_edits_and_a_charge_does_where_it_counts"
)

# Of entries that are no Gaussians.
EXACT |= {
    "all of delta beside the failures of a box": Mutant(
        "_corner",
        "left, limit = (delta - failures) / (1.0 - failures), 0.0",
        "left, limit = delta, 0.0",
        f"{_BOX}the_corner_is_the_whole_of_the_budget[0.0-0.1-1e-06-1.0]",
    ),
    "all of epsilon beside what is pure": Mutant(
        "_corner",
        "limit = gaussian_mu(epsilon - pure, left)",
        "limit = gaussian_mu(epsilon, left)",
        f"{_BOX}the_corner_is_the_whole_of_the_budget[0.4-0.1-1e-06-1.0]",
    ),
    "failures of samples not taken out of the box": Mutant(
        "Budget",
        "return Share(n * exact(m) ** 2, n * (own + Fraction(d)))",
        "return Share(n * exact(m) ** 2, n * own)",
        f"{_BOX}equal_fits_take_equal_failures",
    ),
    "least mu of one order of neighbors": Mutant(
        "_by_losses",
        "return max((_of_losses(way, failure, errors) for way in ways)",
        "return min((_of_losses(way, failure, errors) for way in ways)",
        f"{_LEAST}one_step_is_a_closed_form_in_both_orders",
    ),
    "least mu without what may be infinite": Mutant(
        "_of_losses",
        "np.cumsum(masses[::-1])[::-1] + losses.infinite",
        "np.cumsum(masses[::-1])[::-1]",
        f"{_LEAST}losses_without_limit_count",
    ),
    "least mu at twice the failure": Mutant(
        "_of_losses",
        "yes = (above[counts] - failure) / (1.0 - failure)",
        "yes = (above[counts] - 2.0 * failure) / (1.0 - failure)",
        f"{_LEAST}one_step_is_a_closed_form_in_both_orders",
    ),
    "pure privacy at its half": Mutant(
        "pure_mu",
        "np.logaddexp(0.0, epsilon)",
        "np.logaddexp(0.0, 0.5 * epsilon)",
        f"{_LEAST}pure_privacy_is_below_a_gaussian[1.0]",
    ),
    "pairs restated without a factor of delta": Mutant(
        "restated",
        "min(sum(terms) * least",
        "min(factor * least",
        f"{_KINDS}guarantees_of_users_who_leave_count_for_replacements",
    ),
    "other mechanisms not in the total": Mutant(
        "Sums",
        "return Total(mu, failure, curves, sums.box)",
        "return Total(mu, failure, (), sums.box)",
        f"{_KINDS}external_spending_joins_fits",
    ),
    "equal mechanisms counted once": Mutant(
        "Sums",
        "str(int(self.text(name) or 0) + times)",
        "str(times)",
        f"{_KINDS}equal_mechanisms_are_counted_once",
    ),
    "samples restated for other neighbors as they are": Mutant(
        "restated",
        "return replace(curve, replaced=True)",
        "return curve",
        f"{_KINDS}guarantees_of_users_who_leave_count_for_replacements",
    ),
    "sums beyond a window not counted": Mutant(
        "composed",
        "_without_limit(parts) + cut",
        "_without_limit(parts)",
        f"{_KINDS}sums_beyond_a_window_are_no_privacy",
    ),
    "losses beyond a grid not counted": Mutant(
        "connect_dots",
        "masses, float(curve[-1]))",
        "masses, 0.0)",
        f"{_KINDS}external_spending_joins_fits",
    ),
    "one order of neighbors alone": Mutant(
        "composed_losses",
        "range(max(len(part) for part, _ in some))",
        "range(1)",
        f"{_KINDS}rare_samples_of_large_steps_are_composed",
    ),
    "a ledger of an older version read": Mutant(
        "check_version",
        "if version == VERSION:",
        "if version <= VERSION:",
        "accounting/test_ledger_damage.py::test_other_versions_are_refused_untouched[7]",
    ),
    "entries that take nothing of a budget": Mutant(
        "_is_enough",
        "if not entry.share:\n        return False",
        "if not entry.share:\n        return True",
        f"{_EDITS}[share]",
    ),
    "the end of the chain not compared with the seal": Mutant(
        "Transaction",
        "        if not whole:\n",
        "        if False:\n",
        f"{_EDITS}[label]",
    ),
    "positions of streams not compared with the seal": Mutant(
        "Transaction",
        "if row is not None and row[1] != digest_of(name, row[:1]):",
        "if False:",
        "accounting/test_ledger_damage.py::test_check_finds_streams_that_were_put_back",
    ),
    "failures of steps beside the delta of a pipeline": Mutant(
        "StepBudgets",
        "mu = gaussian_mu(self._epsilon, self._delta - self._failure)",
        "mu = gaussian_mu(self._epsilon, self._delta)",
        f"{_TABLE_STEPS}::test_failures_are_inside_the_delta_of_the_whole[False-1e-06]",
    ),
    "failures of steps not compared with the charge": Mutant(
        "StepShare",
        "if found != planned:",
        "if False:",
        f"{_TABLE_STEPS}::test_a_step_with_another_failure_than_was_charged_is_refused",
    ),
    "columns of users not compared": Mutant(
        "_Walk",
        "if None in (feature, users) or named != isinstance(users, str):",
        "if True:",
        "audit/test_report.py::test_users_of_fits_and_scores_are_one_column",
    ),
    "digests of entries not checked": Mutant(
        "faults",
        "if row[-1] != digest_of(before, row[:-1]):",
        "if False:",
        f"{_EDITS}[label]",
    ),
    "running totals not checked": Mutant(
        "faults",
        "if found != {name: text for name, text in sums.known.items() if text}:",
        "if False:",
        f"{_EDITS}[a lost count]",
    ),
    "samples of two users as of one": Mutant(
        "restated",
        "if factor == 2.0 and not curve.replaced:",
        "if True:",
        f"{_KINDS}guarantees_of_users_who_leave_count_for_replacements",
    ),
    "any candidate in the place of the costliest": Mutant(
        "PrivacyAccountant",
        "for own in fit.alternatives",
        "for own in fit.alternatives[:1]",
        "pipeline/test_ordinary_pipelines.py::"
        "test_a_refit_is_counted_by_what_the_ledger_charges",
    ),
    "a ledger that is mounted accepted": Mutant(
        "_check_file",
        "if found.st_dev != folder.st_dev:",
        "if False:",
        "accounting/test_ledger_places.py::test_a_file_of_another_device_than_its_folder_is_refused",
    ),
}

# Of what parties believe of each other.
EXACT |= {
    "a request of another task answered": Mutant(
        "_Message",
        "if self.task != task:",
        "if False:",
        f"{_AGREEMENT}a_client_refuses_requests_of_another_task_and_spends_nothing",
    ),
    "a reply of another task used": Mutant(
        "_Message",
        "if self.task != task:",
        "if False:",
        f"{_AGREEMENT}the_server_names_who_has_another_task",
    ),
    "a digest that leaves a scaling out": Mutant(
        "SpectralTask",
        "for name in (*_BUDGET, *_OWN):",
        'for name in (*_BUDGET, *_OWN, "scale"):',
        "federation/test_tasks.py::test_whatever_differs_has_another_digest",
    ),
    "values up to a hundred times the noise": Mutant(
        "DEVIATIONS",
        "DEVIATIONS = 12.0",
        "DEVIATIONS = 100.0",
        f"{_AGREEMENT}the_limits_are_12_deviations_and_no_more",
    ),
    "values of a norm that noise does not have": Mutant(
        "Query",
        "possible &= np.linalg.norm(values) <= longest * (1.0 + ROUNDING)",
        "pass",
        f"{_AGREEMENT}many_large_entries_are_refused_by_their_norm",
    ),
    "rows and budget that were not registered": Mutant(
        "Rounds",
        "if answer.n_samples != n or not math.isclose(answer.mu, mu, rel_tol=_CLAIM):",
        "if False:",
        f"{_AGREEMENT}a_registered_client_is_held_to_its_numbers",
    ),
    "a claim registered for what was asked": Mutant(
        "LocalClient",
        "Registration(self._n_samples, self._epsilon, self.plan.delta)",
        "Registration(self._n_samples, self.plan.epsilon, self.plan.delta)",
        f"{_MECHANISMS}a_client_is_told_what_holds_of_the_printed_noise",
    ),
    "a start of dependent rows": Mutant(
        "SpectralTask",
        "if not _kernels.independent_columns(start.T):",
        "if False:",
        "federation/test_tasks.py::test_dependent_rows_are_no_start",
    ),
    "a length in half-widths": Mutant(
        "SpectralTask",
        'check_real("projection_norm", length) / self.rows.unit',
        'check_real("projection_norm", length)',
        "federation/test_tasks.py::test_lengths_are_in_units_of_the_data",
    ),
}

_GROUPS = "federation/test_groups.py::test_"

# Of groups of users at several nodes.
EXACT |= {
    "shares of the deviation over their number": Mutant(
        "SharedGaussian",
        "return self.noise_std / math.sqrt(self.n_shares)",
        "return self.noise_std / self.n_shares",
        "theory/test_noise_shares.py::"
        "test_variances_of_shares_add_up_to_the_planned_one",
    ),
    "a node that adds no share": Mutant(
        "GroupClient",
        "        if self._release is not None:\n            value",
        '        if self._release is not None and self.name != "west":\n'
        "            value",
        f"{_GROUPS}nodes_add_the_noise_that_the_task_says[distributed-0.5]",
    ),
    "a node's users clipped as one": Mutant(
        "_sum_of_answers",
        "per_user.sum_on_grid(clip_contributions(vectors), grid)",
        "per_user.sum_on_grid("
        "clip_contributions(vectors.sum(axis=0, keepdims=True)), grid)",
        f"{_GROUPS}a_user_moves_the_sum_of_their_node_by_one[13]",
    ),
    "a node's rows read before its ledger is charged": Mutant(
        "GroupClient",
        '        if self.task.noise == "server":\n            charge(',
        "        self._group()\n"
        '        if self.task.noise == "server":\n            charge(',
        f"{_GROUPS}the_ledger_is_charged_before_rows_are_read",
    ),
    "exact sums of groups sent to all": Mutant(
        "GroupRounds",
        "values = self._release(mechanism.name, values, overwrite=True)",
        "self._release(mechanism.name, values)",
        f"{_GROUPS}a_session_gives_what_a_fit_in_one_place_gives[usual]",
    ),
    "a session answered by two clients of one ledger": Mutant(
        "AnsweringClient",
        "if sum(label.endswith(own) for label in known) > n_entries:",
        "if False:",
        "federation/test_client.py::"
        "test_a_client_that_is_created_again_refuses_what_its_ledger_has",
    ),
    "remarks of a charge not compared by verify": Mutant(
        "_is_charged",
        " and needed <= of_fit",
        "",
        "statements/test_verify.py::test_forgeries_are_found",
    ),
    "a number of rows of a ledger taken from its statement": Mutant(
        "_compared",
        "ledger_facts(ledger, n, **more)",
        "ledger_facts(ledger, n, n_units=facts.n_units, **more)",
        "statements/test_verify.py::test_forgeries_are_found",
    ),
    "users on the grid of another budget": Mutant(
        "GroupClient",
        "self.task.next_sum(rows, self._released, self.plan)",
        "self.task.next_sum(rows, self._released, self.task.plan)",
        f"{_GROUPS}a_budget_of_its_own_has_its_own_grid",
    ),
    "one mask for all sums": Mutant(
        "GroupClient",
        'step.to_bytes(4, "little")',
        "bytes(4)",
        "federation/test_masked_groups.py::"
        "test_masked_sums_are_the_plain_ones_bit_for_bit",
    ),
    "fewer shares than are the noise": Mutant(
        "GroupRounds",
        'if check_count("min_clients", min_clients) < fewest:',
        'if check_count("min_clients", min_clients) < 1:',
        f"{_GROUPS}bad_arguments",
    ),
    "a task whose digest forgets how rows are read": Mutant(
        "GroupTask",
        '"parameters": {k: v for k, v in named.items() if k not in _OWN},',
        '"parameters": {},',
        f"{_GROUPS}whatever_differs_has_another_digest",
    ),
    "shares that a server sees, charged as a sum without a word": Mutant(
        "GroupTask",
        "        if self.trusted_sum:\n",
        "        if self.trusted_sum and self.masked:\n",
        f"{_GROUPS}a_ledger_says_that_parts_are_seen_by_nobody",
    ),
    "shares that nobody need be trusted with": Mutant(
        "check_trust",
        "if needed and not trusted_sum:",
        "if needed and n_shares is None:",
        f"{_GROUPS}bad_arguments",
    ),
}

if hasattr(skdpspectral.LRSRegressor, "set_callbacks"):
    EXACT["callbacks given the data"] = Mutant(
        "FitProgress",
        'self.data = {"X": X, "y": y} if self._exact else {}',
        'self.data = {"X": X, "y": y}',
        "linear_model/test_lrs_callbacks.py",
    )


EXACT |= {
    "users dealt in one deal": Mutant(
        "PrivateSplit",
        "number[by_user] = np.arange(len(codes)) - np.repeat(\n"
        "            np.cumsum(counts) - counts, counts\n"
        "        )",
        "number[by_user] = np.arange(len(codes))",
        "model_selection/test_private_split.py::"
        "test_folds_of_users_are_not_moved_by_others",
    ),
    "range of a score taken as half of it": Mutant(
        "Kind",
        "    diameter: ClassVar[float] = 1.0\n",
        "    diameter: ClassVar[float] = 0.5\n",
        "metrics/test_private_scorer.py::"
        "test_no_row_moves_a_score_by_more_than_its_lemma_says",
    ),
    "errors not cut": Mutant(
        "CutError",
        "return (np.clip(errors, 0.0, self.limit) / self.limit - 0.5)[:, np.newaxis]",
        "return (np.minimum(errors, 1e6) / self.limit - 0.5)[:, np.newaxis]",
        "metrics/test_private_scorer.py::"
        "test_no_row_moves_a_score_by_more_than_its_lemma_says",
    ),
    "scores charged after they are read": Mutant(
        "PrivateScorer",
        "        release = Release(plan, self._governing_accountant(estimator), "
        "self._noise_seed)\n",
        "        estimator.predict(X)\n"
        "        release = Release(plan, self._governing_accountant(estimator), "
        "self._noise_seed)\n",
        "metrics/test_private_scorer.py::"
        "test_a_score_is_charged_before_anything_is_read",
    ),
}


# Tests of the copy, after a line that says which package is tested.
RUN_TESTS = """
import os, sys
os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
import pytest, skdpspectral
print(skdpspectral.__file__, flush=True)
sys.exit(pytest.main(sys.argv[1:]))
"""
BROKEN = r"^E +(Import|Indentation|ModuleNotFound|Name|Syntax|UnboundLocal)Error\b"


@pytest.fixture(scope="session")
def python():
    with ForkedPython() as python:
        yield python


@functools.cache
def definitions():
    """Return the places of each top-level name: its file, and the lines it takes."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names = [node.name]
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                names = [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]
            else:
                continue
            for name in names:
                lines = slice(node.lineno - 1, node.end_lineno)
                found.setdefault(name, []).append((path, lines))
    return found


def mutated_copy(mutant, folder):
    # Compiled files come along: those of the edited file do not fit its new date.
    shutil.copytree(PACKAGE, folder / "skdpspectral")
    places = []
    for path, lines in definitions()[mutant.definition]:
        source = path.read_text().splitlines(keepends=True)
        if (text := "".join(source[lines])).count(mutant.old) == 1:
            source[lines] = [text.replace(mutant.old, mutant.new)]
            places.append((path, "".join(source)))
    assert len(places) == 1, f"{mutant.old!r} must occur once in {mutant.definition}"
    path, source = places[0]
    (folder / path.relative_to(PACKAGE.parent)).write_text(source)


_GRADIENTS = "theory/test_sampled_gradients.py::test_no_example_moves"
_ON_SAMPLES = (
    "audit/test_sampled_audit.py::"
    "test_steps_on_samples_show_what_is_claimed_and_no_more"
)
_OPTIMIZER = "neural_network/test_adam_optimizer.py::test_"
EXACT |= {
    "squares on samples taken as free, as under replacement": Mutant(
        "GradientMoments",
        "return self._moved(Neighbors.ZERO_OUT_ONE)",
        "return 0.5 * self._moved(Neighbors.REPLACE_ONE)",
        f"{_GRADIENTS}_a_row_by_more_than_was_planned[jme-8]",
    ),
    "sums divided by the examples that are there": Mutant(
        "GradientMoments",
        "        return self.row(blocks, self._add_gradients)\n",
        "        there = self.schedule.batch_size / max(len(gradients), 1)\n"
        "        return there * self.row(blocks, self._add_gradients)\n",
        f"{_GRADIENTS}_a_row_by_more_than_was_planned[jme-8]",
    ),
    "squares of sums, as the algorithm is printed": Mutant(
        "GradientMoments",
        "            sums[1] += np.square(clipped).sum(axis=0)",
        "            sums[1] = np.square(sums[0])",
        f"{_GRADIENTS}_a_row_by_more_than_was_planned[jme-8]",
    ),
    "samples cut at their expected size": Mutant(
        "StreamRelease",
        "return np.concatenate(found) if",
        "return np.concatenate(found)[: round(self._rate * n_units)] if",
        f"{_OPTIMIZER}samples_have_the_rate_that_was_planned_and_are_independent",
    ),
    "samples by position, without a key": Mutant(
        "_digest",
        "key=key, person",
        'key=b"", person',
        f"{_OPTIMIZER}two_optimizers_have_other_samples_and_one_the_same_until_its_step",
    ),
    "the example's own batch as its measure": Mutant(
        "GradientMoments",
        "            (add or self._add)(block, sums)\n",
        "            (add or self._add)(block, sums)\n"
        "            sums *= self.schedule.batch_size / len(block.inputs[0])\n",
        f"{_ON_SAMPLES}[replaced]",
    ),
    "samples larger than was planned": Mutant(
        "StreamRelease",
        "chances < self._rate",
        "chances < 1.1 * self._rate",
        f"{_ON_SAMPLES}[leaves]",
    ),
    "clipped squares apart as if they had one entry": Mutant(
        "clipped_moments_sensitivity",
        "u = nu / n_parameters",
        "u = nu",
        "theory/test_sampled_gradients.py::"
        "test_gradients_clipped_beside_squares_are_no_further_apart[10.0-8]",
    ),
    "gradients of whatever batch": Mutant(
        "JMEAdam",
        "drawn is None or not np.array_equal(batch, drawn[1])",
        "drawn is None",
        f"{_OPTIMIZER}gradients_are_of_the_batch_that_was_drawn_last[in-turn]",
    ),
    "one product for the examples of a block": Mutant(
        "multiply_rows",
        "np.matmul(rows[:, None], _aligned(matrix), out=out[:, None])",
        "np.matmul(rows, _aligned(matrix), out=out)",
        "neural_network/test_gradient_kernels.py::"
        "test_what_is_made_of_an_example_has_the_same_bits_in_any_company",
    ),
    "examples whose factors are too large for their squares": Mutant(
        "Factors",
        "                fit &= side <= LARGEST**2\n",
        "                fit &= np.isfinite(side)\n",
        "neural_network/test_gradient_kernels.py::"
        "test_no_square_vanishes_beside_a_large_factor",
    ),
    "a batch of an epoch paid once for all epochs": Mutant(
        "Schedule",
        "often = math.sqrt(self.n_participations)",
        "often = 1.0",
        f"{_OPTIMIZER}several_batches_of_an_example_are_paid_with_their_rounding[in-turn]",
    ),
    "replacement on samples charged as leaving": Mutant(
        "SampledGaussian",
        "Neighbors(neighbors) is Neighbors.REPLACE_ONE,",
        "False,",
        "theory/test_sampled_gradients.py::"
        "test_a_mechanism_has_the_noise_that_was_asked_for",
    ),
}


_VOTE = "model_selection/test_vote.py::test_"
_OWN_BLOCK = f"{_VOTE}a_row_moves_the_votes_of_its_own_block"
# Of blocks that vote.
EXACT |= {
    "votes of a block not clipped": Mutant(
        "votes",
        "clipped = np.clip(shares[1:], 0.0, 1.0)",
        "clipped = shares[1:]",
        f"{_VOTE}votes_are_in_range_and_exact",
    ),
    "whether a challenger wins counted twice": Mutant(
        "votes",
        "beats = 0.5 + 0.5 * np.sign",
        "beats = 1.0 + np.sign",
        f"{_VOTE}the_worst_row_moves_votes_by_their_sensitivity[others0-support]",
    ),
    "blocks in which a challenger wins released twice": Mutant(
        "VoteBudgets",
        "release(_SUPPORT, beats[",
        "release(_SUPPORT, 2.0 * beats[",
        f"{_VOTE}the_worst_row_moves_votes_by_their_sensitivity[others0-support]",
    ),
    "votes for a challenger counted twice": Mutant(
        "votes",
        "_VOTE_STEP) * _VOTE_STEP, beats",
        "_VOTE_STEP) * _VOTE_STEP * 2.0, beats",
        f"{_VOTE}the_worst_row_moves_votes_by_their_sensitivity[others1-challenger]",
    ),
    "a row in two blocks": Mutant(
        "_deal",
        "return [order[block::m] for block in range(m)]",
        "return [np.append(order[b::m], order[b - 1 :: m]) for b in range(m)]",
        f"{_OWN_BLOCK}[plain]",
    ),
    "blocks dealt by value": Mutant(
        "_deal",
        "order = public_order(ballot.n_rows)",
        "order = np.argsort(np.asarray(X)[:, 0])",
        f"{_OWN_BLOCK}[plain]",
    ),
    "users dealt by who else is there": Mutant(
        "_deal",
        "of_user = np.minimum((places * m).astype(np.intp), m - 1)",
        "of_user = np.argsort(np.argsort(places)) * m // len(places)",
        f"{_VOTE}a_user_moves_the_votes_of_their_own_block",
    ),
    "the incumbent among its challengers": Mutant(
        "candidates_of",
        "for others in known):",
        "for others in known[1:]):",
        f"{_VOTE}the_incumbent_is_no_challenger",
    ),
    "the test of a challenger without noise": Mutant(
        "VoteBudgets",
        "(count,) = release(_SUPPORT, beats[proposed : proposed + 1])",
        "count = release(_SUPPORT, beats[:1])[0] * 0.0 + beats[proposed]",
        f"{_VOTE}what_is_shown_is_what_was_released",
    ),
    "a scorer that all blocks share": Mutant(
        "Ballot",
        "cloudpickle.loads(self.pack)\n            scores",
        "vars(self).setdefault(\n"
        '                "_kept", cloudpickle.loads(self.pack)\n            )\n'
        "            scores",
        f"{_OWN_BLOCK}[object]",
    ),
    "blocks that share global generators": Mutant(
        "Ballot",
        "own_generators(number)",
        "quiet()",
        f"{_OWN_BLOCK}[draws]",
    ),
    "blocks that fail counted as halves": Mutant(
        "votes",
        "np.zeros(n_others), np.zeros(n_others)",
        "np.zeros(n_others), np.full(n_others, 0.5)",
        f"{_VOTE}a_block_in_which_all_fail_votes_for_the_incumbent",
    ),
    "a last fit without a limit": Mutant(
        "FitLimit",
        "math.hypot(mu, plan.mu), failure",
        "max(mu, plan.mu), failure",
        f"{_VOTE}a_limit_refuses_what_its_search_was_not_charged_for",
    ),
    "categories of a table in made-up rows": Mutant(
        "_cast",
        '"category": "category"',
        '"category": dtype',
        f"{_VOTE}made_up_rows_hold_no_value",
    ),
    "an exponential mechanism charged at a half": Mutant(
        "ExponentialMechanism",
        "math.exp(0.5 * self.epsilon)",
        "math.exp(0.25 * self.epsilon)",
        "theory/test_block_votes.py::test_the_cost_is_that_of_the_formula",
    ),
    "a choice at twice its range": Mutant(
        "draw_option",
        "decimal.Decimal(mechanism.epsilon) / 2",
        "decimal.Decimal(mechanism.epsilon)",
        "theory/test_block_votes.py::test_options_are_drawn_by_their_law",
    ),
    "the last fit at the cost of all": Mutant(
        "VoteBudgets",
        "return cls(blocks, power, fit, tuple(planned))",
        "return cls(blocks, power, mu, tuple(planned))",
        f"{_VOTE}votes_and_fit_cost_what_they_may",
    ),
}


_NETWORKS = "neural_network/test_user_networks_privacy.py::test_"
_OWN_GRADIENT = (
    f"{_NETWORKS}a_user_moves_every_sum_by_their_own_vector_and_no_other_number"
)
_OF_RELEASES = f"{_NETWORKS}all_that_is_public_is_a_function_of_the_releases"
# Of networks of users.
EXACT |= {
    "weights of networks drawn to their mean": Mutant(
        "UserFits",
        "penalty * (users.weights - rules.prior)",
        "penalty * (users.weights - users.weights.mean(axis=0))",
        f"{_OWN_GRADIENT}[usual]",
    ),
    "levels of networks drawn to the mean of all users'": Mutant(
        "rows_of",
        "levels = per_user.totals(y) / (counts + ridge_level)",
        "levels = per_user.totals(y) + ridge_level * y.mean()\n"
        "        levels = levels / (counts + ridge_level)",
        f"{_OWN_GRADIENT}[bounds]",
    ),
    "places of weights chosen for users together": Mutant(
        "chosen_support",
        "support = per_user.among_largest(size, k)",
        "size = size + size.mean(axis=0)\n"
        "    support = per_user.among_largest(size, k)",
        f"{_OWN_GRADIENT}[usual]",
    ),
    "zeros that fill up put in place of a user's weights": Mutant(
        "_add_sparse",
        "whole[np.nonzero(own)[0], support[own]] += sparse[own]",
        "whole[np.arange(len(whole))[:, None], support] += sparse",
        "neural_network/test_user_networks.py::"
        "test_users_may_have_other_numbers_of_own_weights_than_others",
    ),
    "gradients of rows that are summed": Mutant(
        "rows_of",
        "y, own / counts[:, None], counts), levels",
        "y, own / len(counts), counts), levels",
        f"{_OWN_GRADIENT}[usual]",
    ),
    "shared features that are users' mean": Mutant(
        "GradientRounds",
        "prompt = np.zeros(self.rules.prompt_size)",
        "prompt = fits.collected(rows)[0].prompts.mean(axis=0)",
        f"{_OF_RELEASES}[prompts]",
    ),
    "weights moved by sums without noise": Mutant(
        "GradientRounds",
        "            gradient = total.reshape(U.shape[::-1]).T\n",
        "            gradient = total.reshape(U.shape[::-1]).T\n"
        "            some = next(fits.steps(next(rows.blocks()), U, 0, 1))\n"
        "            gradient = gradient + (some[0].T @ some[1]) * 1e-3\n",
        f"{_OF_RELEASES}[usual]",
    ),
    "targets standardized by the data with a budget": Mutant(
        "LRSMLPRegressor",
        "if self.target_bounds is None and not private:",
        "if self.target_bounds is None:",
        f"{_OF_RELEASES}[usual]",
    ),
    "targets standardized by what parameters have become": Mutant(
        "LRSMLPRegressor",
        "private = isinstance(statistic, GradientRounds)",
        "private = self._is_private()",
        f"{_NETWORKS}what_was_charged_says_whether_a_fit_is_private",
    ),
    "rounds that end where all are at rest": Mutant(
        "GradientRounds",
        "            U = self.moved(U, adam, gradient, number)\n            progress",
        "            if not any(block.y.any() for block in rows.blocks()):\n"
        "                break\n"
        "            U = self.moved(U, adam, gradient, number)\n"
        "            progress",
        "neural_network/test_user_networks_privacy.py::"
        "test_the_number_of_rounds_is_as_planned_for_any_data",
    ),
    "users' products with the shared weights by one call": Mutant(
        "project_gradients",
        "out[:, position] = per_user.totals(gradients * direction)",
        "out[:, position] = gradients @ direction",
        "linalg/test_network_kernels.py::test_a_user_has_the_same_bits_in_any_company",
    ),
    "networks of several users in one product": Mutant(
        "user_activations",
        "        values = per_user.products(found[-1], layer[:, :-1])\n",
        "        values = np.einsum('uhi,uio->uho', found[-1], layer[:, :-1])\n"
        "        values = values + 1e-300 * values.sum()\n"
        "        values *= 1.0 + 2.0**-52 * (len(values) > 1)\n",
        "linalg/test_network_kernels.py::test_a_user_has_the_same_bits_in_any_company",
    ),
}


_ATTACKS = "pipeline/test_pipeline_attacks.py::test_"
_PIPELINES = "pipeline/test_private_pipeline.py::test_"
_REFUSED = "pipeline/test_pipeline_mistakes.py::test_a_mistake_is_refused"
_CHECKED = "pipeline/test_ordinary_pipelines.py::test_"

EXACT |= {
    "a step of a pipeline fitted twice for one charge": Mutant(
        "StepShare",
        "if self.plan is not None or self._closed:",
        "if self._closed:",
        f"{_ATTACKS}a_step_cannot_be_fitted_twice",
    ),
    "a share of a pipeline's budget used in two processes": Mutant(
        "StepShare",
        "if self._process != process_name():",
        "if self._process == 0:",
        f"{_ATTACKS}a_forked_child_releases_nothing",
    ),
    "a step of a pipeline that is not compared with its charge": Mutant(
        "StepShare",
        "        self.check(plan, n_public)\n        if self._on_trial",
        "        if self._on_trial",
        f"{_ATTACKS}a_step_that_changes_in_the_fit_releases_nothing",
    ),
    "rows that a step drops": Mutant(
        "StepShare",
        "if known and n_public != self._n_samples:",
        "if known and n_public > self._n_samples:",
        f"{_ATTACKS}a_step_that_drops_rows_is_found_out",
    ),
    "a share that outlives its fit": Mutant(
        "PrivatePipeline",
        "budgets.close()",
        "pass",
        f"{_ATTACKS}a_share_is_over_with_the_fit",
    ),
    "each step of a pipeline with the whole budget": Mutant(
        "StepBudgets",
        "split_mu(mu, tuple(split.values()))",
        "[mu] * len(split)",
        f"{_PIPELINES}steps_cost_their_shares",
    ),
    "samples of a pipeline calibrated as if alone": Mutant(
        "StepBudgets",
        'given = {"mu": beside} if beside else {}',
        "given: dict[str, float] = {}",
        "pipeline/test_pipeline_accounting.py::"
        "test_random_pipelines_cost_what_was_asked_for",
    ),
    "a pipeline that is not charged": Mutant(
        "PrivatePipeline",
        "accountant.charge(budgets.plan)",
        "pass",
        f"{_PIPELINES}one_entry_of_the_budget_that_was_asked_for",
    ),
    "a step of a pipeline that leaks": Mutant(
        "PrivatePipeline",
        'if self.on_leak == "raise":',
        'if self.on_leak == "refuse":',
        f"{_REFUSED}_before_the_charge",
    ),
    "a step of a pipeline with a budget of its own": Mutant(
        "private_steps",
        "        _check_step(step.path, step.estimator)",
        "        pass",
        f"{_REFUSED}_before_the_charge",
    ),
    "rows and users in one pipeline": Mutant(
        "_common_relation",
        "if two != one:",
        "if two == ():",
        f"{_REFUSED}_before_the_charge",
    ),
    "a fit of a step that takes categories from rows": Mutant(
        "_reason_of_leak",
        "if kind not in _ALLOWED:",
        'if kind not in _ALLOWED and "Encoder" not in kind.__name__:',
        "audit/test_report.py::test_a_leak_voids_what_comes_after",
    ),
    "a class derived from one that is stateless": Mutant(
        "is_known",
        "return known and not has_own_methods(estimator)",
        "return True",
        "audit/test_report.py::test_a_leak_voids_what_comes_after",
    ),
    "ids behind a step that changes them": Mutant(
        "_changed_by",
        "passes = isinstance(element, TableEstimator) and last is not None",
        "passes = True",
        "audit/test_report.py::test_ids_that_may_be_others_are_flagged",
    ),
    "a form that is read after the charge": Mutant(
        "PrivatePipeline",
        "budgets.check_forms(X, y, own_params, table)",
        "pass",
        "pipeline/test_pipeline_mistakes.py::test_forms_that_no_step_accepts",
    ),
    "columns of a column transformer that are not priced": Mutant(
        "branches",
        "        if len(positions):\n",
        "        if not len(positions):\n",
        f"{_CHECKED}what_check_says_is_what_a_fit_costs",
    ),
}


_WORST = (
    "audit/test_worst_cases.py::"
    "test_the_worst_neighbor_moves_releases_as_far_as_is_planned"
)
_NOISE = "audit/test_noise_of_fits.py::test_noise_is_as_planned"


def run_test(mutant, folder, python, target):
    """Run tests on a mutated copy; return the process that has run them."""
    mutated_copy(mutant, folder)
    # Asserts as they are: nobody reads what they say, and to rewrite them takes longer
    # than most of the tests.
    options = ["-qx", "-p", "no:cacheprovider", "--assert=plain"]
    done = python.run(folder, RUN_TESTS, *options, TESTS / target)
    tested = Path(done.stdout.split("\n", 1)[0])
    assert tested.is_relative_to(folder), done.stdout + done.stderr
    return done


@pytest.mark.parametrize("name", AUDITED | EXACT)
def test_a_mistake_is_caught(name, tmp_path, python):
    mutant = (AUDITED | EXACT)[name]
    target = mutant.caught_by
    if name in AUDITED:
        noise = target.startswith("noise of ")
        target = target.removeprefix("noise of ")
        target = f"{_NOISE if noise else _WORST}[{target}]"
    done = run_test(mutant, tmp_path, python, target)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"^\d+ failed", done.stdout, re.MULTILINE), done.stdout
    # A mutant that cannot run is no mistake that was found.
    assert not re.search(BROKEN, done.stdout, re.MULTILINE), done.stdout


@pytest.mark.parametrize("target", [_WORST, _NOISE])
def test_an_unchanged_copy_passes(target, tmp_path, python):
    """What fails on a copy is the mistake in it, and not that it is a copy."""
    unchanged = Mutant("__version__", '__version__ = "', '__version__ = "', target)
    done = run_test(unchanged, tmp_path, python, target)
    assert done.returncode == 0, done.stdout + done.stderr
