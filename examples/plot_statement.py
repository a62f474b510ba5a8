"""
Make and verify a privacy statement
===================================

This page is for a person who is responsible for private data. Two analysts share a
ledger. A statement says in plain words what was promised, lists every release for an
auditor, and can be checked against the ledger.
"""

# tags: quick

# %%
# What was done
# -------------
# Each analyst has a handle with a label. Another tool has already spent a little.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

from skdpspectral import DPPCA, DPRidgeClassifier, PrivacyAccountant, statement
from skdpspectral.datasets import load_digits

folder = Path(tempfile.mkdtemp())
digits = load_digits()
accountant = PrivacyAccountant(epsilon=3.0, delta=1e-6, path=folder / "ledger.db")
accountant.charge_external(
    0.2, 0.0, "count of images", unit="row", neighbors="replace-one"
)
ann, ben = accountant.named("Ann"), accountant.named("Ben")
DPPCA(2, epsilon=1.0, bounds=digits.bounds, accountant=ann).fit(digits.data)
DPRidgeClassifier(
    classes=range(10), epsilon=1.0, bounds=digits.bounds, accountant=ben
).fit(digits.data, digits.target)

# %%
# The statement
# -------------
# Parameters provide what the library cannot know. Notebooks display the page.

made = statement(
    accountant,
    title="Handwritten digits",
    curator="Postal service",
    intended_use="Sorting of letters",
    unit_meaning="A row is the image of one digit. A writer may have several.",
    tuning="Nothing: bounds and numbers of components were fixed beforehand.",
)
print(made)

# %%
# The cost of each entry, and the budget
# --------------------------------------
# Costs do not add up linearly: the squares of mu add up.

fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
names = [f"{one.label or 'other tool'}: {one.estimator}" for one in accountant.ledger]
ax.barh(names, [entry.epsilon for entry in accountant.ledger])
ax.barh("all together", accountant.spent().epsilon, color="C1")
ax.axvline(accountant.epsilon, color="k", ls="--", label="budget")
ax.set(xlabel="epsilon at delta = 1e-6", ylabel="entry")
ax.invert_yaxis()
ax.legend()
plt.show()

# %%
# Checking it
# -----------
# The file contains everything that ``skdpspectral-ledger verify statement.html
# ledger.db`` needs to make the statement again. If a digit of the page was changed, an
# entry was removed, or the ledger is another one, the command names the first
# difference and exits with 1.

html = made.to_html(folder / "statement.html")
print(f"{len(html) / 1000:.0f} kB, {html.count('<table>')} tables, no script")
