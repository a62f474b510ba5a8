"""How networks of users and what they share are trained in turn."""

from __future__ import annotations

from numbers import Integral, Real
from typing import ClassVar

from sklearn.base import BaseEstimator

from .._base.sklearn_compat import Interval, StrOptions
from .._base.strategies import register

_RATE = Interval(Real, 0, 1e60, closed="neither")
_COUNT = Interval(Integral, 1, 100_000, closed="both")
# With a budget each round is paid for; without one it is not.
_ROUNDS = {True: 30, False: 300}
_LOCAL_STEPS = {True: 5, False: 1}


@register
class AlternatingAdam(BaseEstimator):
    r"""Steps of Adam on users' networks and on what they share, in turn.

    All of it is public, and fixed before the data are seen.

    Parameters
    ----------
    n_rounds : int or "auto", default="auto"
        Steps of the shared weights, each of which is a release with a budget. "auto"
        is 30 with a budget, and 300 without one.
    n_local_steps : int or "auto", default="auto"
        Steps of the users in each round, at least 1. "auto" is 5 with a budget, and 1
        without one.
    n_own_steps : int, default=100
        Steps of a user's network beside the final shared weights, from the beginning:
        of all users with a budget, and of those of ``personalize``.
    learning_rate : float, default=0.03
        Length of the steps of the shared weights.
    user_learning_rate : float, default=0.1
        Length of the users' steps.
    weight_decay : float, default=0.0
        What a step takes off the shared weights, as a share of them over its length.
    schedule : {"cosine", "constant"}, default="cosine"
        How lengths of steps fall. There is none that looks at the loss, which is a
        statistic of the data.
    batch_size : int or None, default=None
        Rows of each user in a step in rounds, in turn, in a public order; None for all.

    See Also
    --------
    skdpspectral.LRSMLPRegressor : Its parameter `solver`.

    Examples
    --------
    >>> from skdpspectral import LRSMLPRegressor
    >>> from skdpspectral.neural_network import AlternatingAdam
    >>> model = LRSMLPRegressor(solver=AlternatingAdam(n_rounds=20))
    >>> len(model.privacy_plan(n_features=5).mechanisms)
    20
    >>> model.set_params(solver__learning_rate=0.1).solver
    AlternatingAdam(learning_rate=0.1, n_rounds=20)
    """

    _parameter_constraints: ClassVar[dict] = {
        "n_rounds": [_COUNT, StrOptions({"auto"})],
        "n_local_steps": [_COUNT, StrOptions({"auto"})],
        "n_own_steps": [_COUNT],
        "learning_rate": [_RATE],
        "user_learning_rate": [_RATE],
        "weight_decay": [Interval(Real, 0, 1e60, closed="left")],
        "schedule": [StrOptions({"cosine", "constant"})],
        "batch_size": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self,
        n_rounds="auto",
        n_local_steps="auto",
        n_own_steps=100,
        learning_rate=0.03,
        user_learning_rate=0.1,
        weight_decay=0.0,
        schedule="cosine",
        batch_size=None,
    ):
        self.n_rounds = n_rounds
        self.n_local_steps = n_local_steps
        self.n_own_steps = n_own_steps
        self.learning_rate = learning_rate
        self.user_learning_rate = user_learning_rate
        self.weight_decay = weight_decay
        self.schedule = schedule
        self.batch_size = batch_size

    def _counts(self, private: bool) -> tuple[int, int]:
        """Return the number of rounds, and of the users' steps in each."""
        rounds, steps = self.n_rounds, self.n_local_steps
        return (
            _ROUNDS[private] if rounds == "auto" else int(rounds),
            _LOCAL_STEPS[private] if steps == "auto" else int(steps),
        )
