r"""One user's part of a low rank plus sparse regression, for many users at once.

User i has rows X_i (m x d), targets y_i, and a model y = X_i (U w_i + b_i) with U
(d x r) shared, w_i in R^r and b_i with at most k_i nonzeros. Every function here
works on a :class:`Block`, without a loop over users, and computes each user's numbers
from that user's rows and U alone, with the same bits in whatever block it stands:
only the kernels of ``per_user`` sum.

What they are given is alike: the `block`; `scores`, which is (XU)' of shape (n_users,
rank, height); `squares`, which is diag(G) for G = X'X, of shape (n_users, n_features);
and the `rules`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from . import per_user
from .user_rows import Block

# Numbers of the Gram matrices that are in memory together.
_GRAM_NUMBERS = 1 << 21


@dataclass(frozen=True)
class LocalRules:
    """What a user's fit is allowed and charged for, the same for all users.

    Parameters
    ----------
    sparsity : int
        Largest number k of nonzeros of b, at most d.
    ridge_shared, ridge_sparse : float
        Penalties of |w - prior|^2 and |b|^2.
    prior : ndarray of shape (rank,)
        What w is shrunk to; with `fixed`, what it is.
    fixed : bool, default=False
        Whether w is not fitted.
    free : bool, default=False
        Whether every user has all features, `sparsity` of them, whatever their rows.
    """

    sparsity: int
    ridge_shared: float
    ridge_sparse: float
    prior: np.ndarray
    fixed: bool = False
    free: bool = False

    def allowed(self, counts: np.ndarray) -> np.ndarray:
        """Nonzeros that each user's count of rows supports: (m - r) / 2 at most."""
        if self.free:
            return np.full(len(counts), self.sparsity)
        rank = 0 if self.fixed else len(self.prior)
        return np.clip((counts - rank) // 2, 0, self.sparsity)


@dataclass(frozen=True)
class LocalFit:
    """Parameters of the users of a block.

    Parameters
    ----------
    weights : ndarray of shape (n_users, rank)
        w.
    support : ndarray of shape (n_users, sparsity)
        Different features for each user.
    sparse : ndarray of shape (n_users, sparsity)
        b on the support; zero where a user is not allowed so many nonzeros.
    loss : ndarray of shape (n_users,)
        Penalized squared error.
    residual : ndarray of shape (n_users, height)
        y - X (U w + b).
    n_used : ndarray of shape (n_users,)
        How many features of the support are used, the leading ones.
    """

    weights: np.ndarray
    support: np.ndarray
    sparse: np.ndarray
    loss: np.ndarray
    residual: np.ndarray
    n_used: np.ndarray

    @property
    def features(self) -> np.ndarray:
        """Features in use, in ascending order; -1 in the place of others."""
        return used_features(self.support, self.n_used)

    @classmethod
    def appended(cls, fits: list[LocalFit]) -> LocalFit:
        """Return the parameters of several fits' users, one after another."""
        names = vars(fits[0])
        return cls(
            **{name: np.concatenate([vars(f)[name] for f in fits]) for name in names}
        )

    def take(self, chosen) -> LocalFit:
        """Return the parameters of some users."""
        return LocalFit(**{name: value[chosen] for name, value in vars(self).items()})

    def where(self, chosen: np.ndarray, other: LocalFit) -> LocalFit:
        """Take this fit for the chosen users, and another for the rest."""
        pick = {
            name: np.where(
                chosen.reshape(-1, *(1,) * (value.ndim - 1)),
                value,
                getattr(other, name),
            )
            for name, value in vars(self).items()
        }
        return LocalFit(**pick)


def used_features(support: np.ndarray, n_used: np.ndarray) -> np.ndarray:
    """Leading features of supports, in ascending order; -1 in the place of others."""
    used = np.arange(support.shape[1]) < n_used[:, None]
    return np.sort(np.where(used, support, -1), axis=1)


def shared_scores(block: Block, U: np.ndarray) -> np.ndarray:
    """(X U)' of shape (n_users, rank, height)."""
    return per_user.products(U.T, block.X, transpose_right=True)


def least_squares(
    block: Block, scores: np.ndarray, support: np.ndarray, allowed, rules: LocalRules
) -> LocalFit:
    """Fit w and b on given supports.

    Parameters
    ----------
    block, scores, rules
        See above.
    support : ndarray of shape (n_users, sparsity)
        Features of b, the leading ``allowed`` of which are used.
    allowed : ndarray of shape (n_users,)
        Nonzeros of each user.

    Returns
    -------
    LocalFit
        The minimizers.
    """
    # Gram matrices of many columns are larger than the rows: of a few users at a time.
    size = max(1, _GRAM_NUMBERS // (scores.shape[1] + support.shape[1] + 1) ** 2)
    if len(block) <= size:
        return _least_squares(block, scores, support, allowed, rules)
    parts = [slice(start, start + size) for start in range(0, len(block), size)]
    return LocalFit.appended(
        [
            _least_squares(block.take(p), scores[p], support[p], allowed[p], rules)
            for p in parts
        ]
    )


def _least_squares(block, scores, support, allowed, rules: LocalRules) -> LocalFit:
    rank, sparsity = scores.shape[1], support.shape[1]
    used = np.arange(sparsity) < allowed[:, None]
    target, free = block.y, rank
    if rules.fixed:
        target, free = target - _combine(scores, rules.prior), 0
    shared = scores[:, :free]
    columns = chosen_columns(block, shared, support, used, target)
    # One product: the Gram matrix of the columns, and what they have of the target.
    gram = per_user.products(columns, columns, transpose_right=True)
    coefficients = _ridge_coefficients(gram, free, rules)
    residual = per_user.products(coefficients, columns)[:, 0]
    weights, sparse = -coefficients[:, 0, :free], -coefficients[:, 0, free:-1] * used
    if rules.fixed:
        weights = np.broadcast_to(rules.prior, (len(scores), rank)).copy()
    loss = _penalized(residual, weights, sparse, rules)
    return LocalFit(weights, support, sparse, loss, residual, allowed)


def chosen_columns(block, scores, support, used, *beside) -> np.ndarray:
    """Scores, the used features, and rows of a user: (n_users, q, height)."""
    rank, n_columns = scores.shape[1], scores.shape[1] + support.shape[1]
    height = n_columns + len(beside)
    out = per_user.empty_stack(len(scores), height, block.X.shape[1])
    out[:, :rank] = scores
    users = np.arange(len(scores))[:, None]
    features = block.X[users, :, support]
    np.multiply(features, used[:, :, None], out=out[:, rank:n_columns])
    for place, rows in enumerate(beside, n_columns):
        out[:, place] = rows
    return out


def _ridge_coefficients(gram: np.ndarray, free: int, rules: LocalRules) -> np.ndarray:
    """What columns, and a target behind them, are added with to leave the residual.

    Parameters
    ----------
    gram : ndarray of shape (n_users, q + 1, q + 1)
        Products of columns and target.
    free : int
        How many of the columns, the leading ones, have weights of `rules.prior`.

    Returns
    -------
    ndarray of shape (n_users, 1, q + 1)
        The coefficients that minimize the penalized squares, negative, and 1.
    """
    size = gram.shape[1] - 1
    A = per_user.users_last(gram[:, :size])
    A, right = A[:, :size], A[:, size:]
    q = np.arange(size)
    A[q[:free], q[:free]] += rules.ridge_shared
    A[q[free:], q[free:]] += rules.ridge_sparse
    right[:free] += (rules.ridge_shared * rules.prior[:free])[:, None, None]
    per_user.solve_in_place(A, right)
    out = per_user.empty_stack(len(gram), 1, size + 1)
    np.negative(right[:, 0].T, out=out[:, 0, :size])
    out[:, 0, size] = 1.0
    return out


def _penalized(residual, weights, sparse, rules: LocalRules) -> np.ndarray:
    """Penalized squared error."""
    error, shared, own = per_user.squares(residual, weights - rules.prior, sparse)
    return error + (rules.ridge_shared * shared + rules.ridge_sparse * own)


def _combine(scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """X U w, of shape (n_users, height)."""
    weights = np.broadcast_to(weights, (len(scores), scores.shape[1]))
    return per_user.products(weights[:, None, :], scores)[:, 0]


def carried_fit(block, scores, weights, support, sparse, rules) -> LocalFit:
    """Evaluate parameters of an earlier U, as they are, at the current one."""
    users = np.arange(len(scores))[:, None]
    columns = block.X[users, :, support]
    residual = block.y - _combine(scores, weights)
    residual -= per_user.products(sparse[:, None, :], columns)[:, 0]
    loss = _penalized(residual, weights, sparse, rules)
    n_used = rules.allowed(block.counts)
    return LocalFit(weights, support, sparse, loss, residual, n_used)


def first_fit(block, scores, rules, n_used: int = 0) -> LocalFit:
    """Fit w, and b on so many leading features."""
    support = np.tile(np.arange(rules.sparsity), (len(scores), 1))
    used = np.full(len(scores), n_used)
    return least_squares(block, scores, support, used, rules)
