"""A shim."""

from types import SimpleNamespace

from ..accounting._ledger.accountant import summary_of


def standing_of(accountant, n_entries):
    if hasattr(accountant, "standing"):
        return accountant.standing(n_entries)
    s = summary_of(accountant, n_entries)
    entries = tuple(
        SimpleNamespace(
            **{**{n: getattr(e, n) for n in e._fields}},
            kinds=[] if e.kind == "gaussian" else e.kind.split("+"),
        )
        for e in s.entries
    )
    for e in entries:
        if not hasattr(e, "asserted"):
            pass
        e.partition = None if not getattr(e, "asserted", False) else e.partition
    return SimpleNamespace(
        id=accountant._id,
        relation=s.relation,
        total=s.total,
        budget=s.budget,
        remaining=None if s.remaining is None else s.remaining.epsilon,
        entries=entries,
        digest=s.digest,
        spent=s.spent,
    )
