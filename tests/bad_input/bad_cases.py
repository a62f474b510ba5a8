"""How a bad call is tried: what it must name, cost and leave as it is."""

import re
import traceback

from skdpspectral import LedgerError, PrivacyAccountant, PrivacyBudgetError

ERRORS = (ValueError, TypeError, AttributeError, OSError)
ERRORS += (PrivacyBudgetError, LedgerError)


def fault_of(says, call, ledger, charges=0, secret="7321"):
    """Return what is wrong with how a call is refused; None if nothing is.

    `says` are the words of its message, with bars between.
    """
    try:
        call()
    except ERRORS as error:
        message = str(error)
        report = "".join(traceback.format_exception(error)).replace(__file__, "")
        report = re.sub(r'File ".*\n.*\n', "", report)
    except Exception as error:
        return f"raised {error!r}"
    else:
        return "raised nothing"
    missing = [word for word in says.split("|") if word not in message]
    if missing:
        return f"names no {missing}: {message}"
    if secret in report.replace(message, "") + message:
        return f"quotes {secret}: {message}"
    if len(ledger.ledger) > charges:
        return "was charged"
    return None


def kept(model):
    """Return what must be the same afterwards, by identity."""
    return {key: id(value) for key, value in vars(model).items()}


class Budgets:
    """A ledger that many calls share for as long as none is charged."""

    ledger = None

    @classmethod
    def get(cls):
        if cls.ledger is None or cls.ledger.ledger:
            cls.ledger = PrivacyAccountant(2.0)
        return cls.ledger


def refused(label, says, entry, *, X=None, y=..., ids=None, charges=0, **parameters):
    """Return faults of how a fit is refused: a list of none or one."""
    ledger = Budgets.get()
    model = entry.make()
    for name, value in {"accountant": ledger, **parameters}.items():
        setattr(model, name, value)
    before = kept(model)
    data = [entry.X if X is None and not label.endswith("no table") else X]
    if entry.y is not None:
        data.append(entry.y if y is ... else y)
    fault = fault_of(
        says,
        lambda: model.fit(*data, **(entry.ids if ids is None else ids)),
        ledger,
        charges,
    )
    if fault is None and kept(model) != before:
        fault = "changed the estimator"
    return [] if fault is None else [f"{label}: {fault:.250}"]
