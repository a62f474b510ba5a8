"""The statement: what was promised, as a page, a record and a registry entry."""

from __future__ import annotations

import datetime
import json
import os
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from ..accounting import PrivacyAccountant
from ..mechanisms import PrivacyPlan, shown
from ._answers import claim, title
from ._facts import (
    FORMAT,
    NUMBERS,
    Facts,
    check_number,
    fit_facts,
    ledger_facts,
    software_versions,
)
from ._page import html_page, registry_entry


@dataclass(frozen=True, repr=False)
class Statement:
    """Document of the privacy guarantees of releases, created by :func:`statement`.

    Equal inputs give identical bytes. The contents are parameters, plans, ledger
    entries, and information given by the curator. No data are read.
    """

    _facts: Facts

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain values: format, title, claim, and all facts."""
        return json.loads(self.to_json())

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the record as JSON, in which infinite numbers are null.

        With a `path`, it is also written to this file; an existing file is replaced.
        """
        words = {"format": FORMAT, "title": title(self._facts)}
        record = {**words, "claim": claim(self._facts), **vars(self._facts)}
        return _written(f"{json.dumps(record, indent=1, allow_nan=False)}\n", path)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the statement as one HTML page, without scripts or requests.

        With a `path`, it is also written to this file; an existing file is replaced.
        """
        return _written(html_page(self._facts, self.to_json()), path)

    def to_registry(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return an entry for OpenDP's registry of deployments, following its schema.

        It is JSON, and therefore YAML. Missing information is marked by ``TODO``. With
        a `path`, it is also written to this file; an existing file is replaced.
        """
        return _written(registry_entry(self._facts), path)

    def _repr_html_(self) -> str:
        return html_page(self._facts, self.to_json(), page=False)

    def __str__(self) -> str:
        return f"{title(self._facts)}\n{claim(self._facts)}"

    def __repr__(self) -> str:
        return f"Statement({self._facts.kind} {self._facts.name})"


def _written(text: str, path: str | os.PathLike[str] | None) -> str:
    if path is not None:
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    return text


def statement(
    of: Any,
    *,
    title: str | None = None,
    curator: str | None = None,
    intended_use: str | None = None,
    description: str | None = None,
    date: str | datetime.date | None = None,
    unit_meaning: str | None = None,
    n_units: int | None = None,
    units_per_person: int | None = None,
    tuning: str | None = None,
    other_releases: str | None = None,
    failed_fits: str | None = None,
    utility: str | None = None,
) -> Statement:
    """Create a statement of privacy guarantees, for those responsible for the data.

    The first part is one page in plain language, the second part is for auditors.
    Nothing is released.

    Parameters
    ----------
    of : fitted estimator or PrivacyAccountant
        A fitted private estimator, private pipeline or private search, an unfinished
        stream, or a ledger with its entries.
    title : str or None, default=None
        Title of the page.
    curator : str or None, default=None
        Person or organization responsible for the data.
    intended_use : str or None, default=None
        Intended use of the results.
    description : str or None, default=None
        Description of the results.
    date : str or date or None, default=None
        Date of the statement, such as ``"2026-01-31"``. The clock is not read: without
        `date`, pages only contain the dates of the ledger.
    unit_meaning : str or None, default=None
        Meaning of one row or one user.
    n_units : int or None, default=None
        Number of rows or users, if it is public.
    units_per_person : int or None, default=None
        Largest possible number of rows or user ids of one person, at least 1, such as
        the number of visits that are kept per patient.
    tuning : str or None, default=None
        Choices made on the data without a charge, such as parameters, features, models
        or the budget itself. State explicitly if there were none.
    other_releases : str or None, default=None
        Other publications based on the same data: scores, summaries, plots.
    failed_fits : str or None, default=None
        Fits that failed.
    utility : str or None, default=None
        Accuracy of the results, by public or private measures.

    Returns
    -------
    Statement
        Has ``to_html``, ``to_json`` and ``to_registry``, and is displayed as a page in
        notebooks.

    Raises
    ------
    TypeError
        If `of` has no plan and is not a ledger, or a parameter has the wrong type.
    ValueError
        If `date` is not a date, or `n_units` or `units_per_person` is below 1.
    LedgerError
        If the ledger cannot be read.

    Examples
    --------
    >>> from skdpspectral import DPPCA, statement
    >>> from skdpspectral.datasets import load_digits
    >>> digits = load_digits()
    >>> pca = DPPCA(n_components=2, epsilon=1.0, bounds=digits.bounds).fit(digits.data)
    >>> page = statement(pca, title="Digits", tuning="Nothing was.")
    >>> print(page)  # doctest: +ELLIPSIS
    Digits
    If one row is replaced by any other, whatever anyone may conclude from ...
    >>> page.to_html().startswith("<!DOCTYPE html>")
    True
    """
    given = {k: v for k, v in locals().items() if k != "of"}
    given = {name: value for name, value in given.items() if value is not None}
    for name, value in given.items():
        if name in NUMBERS:
            if not isinstance(value, Integral):
                raise TypeError(f"{name} must be an integer, got {shown(value)}")
            given[name] = int(value)
            check_number(name, given[name])
        elif name != "date" and not isinstance(value, str):
            raise TypeError(f"{name} must be a string or None, got {shown(value)}")
    if date is not None:
        try:
            given["date"] = datetime.date.fromisoformat(str(date)[:10]).isoformat()
        except ValueError:
            raise ValueError(
                f"date must have the form 2026-01-31, got {shown(date)}"
            ) from None
    more: dict[str, Any] = {
        "stated": {name: value for name, value in given.items() if value},
        "versions": software_versions(),
    }
    if isinstance(of, PrivacyAccountant):
        return Statement(ledger_facts(of, **more))
    of = _with_plan(of)
    n = getattr(of, "n_samples_", getattr(of, "n_samples_seen_", None))
    return Statement(fit_facts(of.privacy_, None if n is None else int(n), **more))


def _with_plan(of: Any) -> Any:
    """Return a fitted estimator that has one plan, or explain why there is none."""
    if isinstance(getattr(of, "privacy_", None), PrivacyPlan):
        return of
    if hasattr(of, "steps") or hasattr(of, "estimator") or hasattr(of, "transformers"):
        raise TypeError(
            f"the fits of a {type(of).__name__} are charged one by one, and no ledger "
            "can tell which of them belong together: pass statement the "
            "PrivacyAccountant, or fit with make_private_pipeline or PrivateSearchCV"
        )
    raise TypeError(
        "of must be a fitted private estimator, a fitted PrivatePipeline or a "
        f"PrivacyAccountant, got a {type(of).__name__} that has no privacy_"
    )
