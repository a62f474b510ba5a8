"""
Make and verify a privacy statement
===================================

Two analysts share a ledger. The person responsible for the data gets a page in plain
words, an auditor every release with its lemma, and both can check the page against the
ledger.
"""

# tags: quick

# %%
# What was done
# -------------
# Each analyst has a handle with a label, and another tool has spent a little before.

import tempfile
from pathlib import Path

from skdpspectral import DPPCA, DPStandardScaler, PrivacyAccountant, statement
from skdpspectral.datasets import load_digits

folder = Path(tempfile.mkdtemp())
digits = load_digits()
accountant = PrivacyAccountant(epsilon=3.0, delta=1e-6, path=folder / "ledger.db")
accountant.charge_external(
    0.2, 0.0, "count of images", unit="row", neighbors="replace-one"
)
ann, ben = accountant.named("Ann"), accountant.named("Ben")
DPPCA(2, epsilon=1.0, bounds=digits.bounds, accountant=ann).fit(digits.data)
DPStandardScaler(epsilon=1.0, accountant=ben).fit(digits.data)

# %%
# The statement
# -------------
# What the library cannot know is asked for by parameters. Notebooks show the page.

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
# The same facts as a text, the first part of it:

print(made.to_markdown().partition("### What is not protected?")[0])

# %%
# And as an entry of OpenDP's registry of deployments, with what is left to fill in. It
# begins so:

print(made.to_registry_yaml()[:900])

# %%
# Checking it
# -----------
# The file holds what ``skdpspectral-ledger verify statement.html ledger.db`` needs to
# make the statement again. The command names the first difference, and exits with 1, if
# a digit of the page was changed, an entry was removed, or the ledger is another one.

html = made.to_html(folder / "statement.html")
print(f"{len(html) / 1000:.0f} kB, {html.count('<table>')} tables, no script")
