"""Arguments of ``fit`` that an estimator knows of, and has a reason not to take."""

from __future__ import annotations

from collections.abc import Iterable


def refuse_fit_parameters(estimator, given: Iterable[str]) -> None:
    """Refuse further arguments of a fit, and say why there are no weights of rows.

    Parameters
    ----------
    estimator : estimator
        What is fitted.
    given : iterable of str
        Names of the arguments that it does not take; there may be none.

    Raises
    ------
    TypeError
        Naming the first of them.
    """
    for name in given:
        reason = ""
        if name == "sample_weight":
            reason = (
                ": the noise hides rows or users that all count alike, and weights "
                "would change how much one of them moves what is released; leave it out"
            )
        raise TypeError(f"{type(estimator).__name__}.fit takes no {name}{reason}")
