"""Entries of OpenDP's registry of deployments, by its deployments-schema.yaml."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import Any

from ._answers import claim, for_the_person_responsible, title
from ._facts import Facts
from ._page import printable

# Fields that no parameter of a statement fills, by section.
_GIVEN = {
    "basic": ("data_product_region", "data_product_sector"),
    "dp_variant": ("data_domain",),
    "deployment_model": ("actors", "access_type_details"),
    "implementation": ("justification",),
}
REGISTRY_FIELDS = {
    "data_curator_type",
    *(n for names in _GIVEN.values() for n in names),
}


def registry_entry(facts: Facts) -> str:
    """Return the entry as JSON, which YAML contains; "TODO" where nobody has said."""
    given = {**facts.stated, **facts.stated.get("registry", {})}
    stated = defaultdict(lambda: "TODO", given)
    said = {q: "\n".join(a) for q, a in for_the_person_responsible(facts)}
    many = facts.kind in ("stream", "ledger")
    private = {"epsilon": facts.epsilon, "delta": facts.delta}
    curator = {
        "data_curator_name": stated["curator"],
        "data_curator_type": stated["data_curator_type"],
    }
    deployment: dict[str, dict[str, Any]] = {
        "basic": {
            "name": title(facts),
            "data_curators": [curator],
            "description": given.get("description", said["What was released?"]),
            "intended_use": stated["intended_use"],
            "data_product_type": "Machine learning model",
            "publication_date": given.get("date", "1900-01-01"),  # a date is required
        },
        "dp_variant": {
            "variant_name": "Approximate DP",
            "unprotected_quantities": said["What is not protected?"],
        },
        "privacy_loss": {
            "privacy_unit": facts.unit or "TODO",
            "privacy_unit_details": said["Who is protected?"],
            "privacy_parameters": private if facts.promised else "TODO",
            "privacy_parameters_details": claim(facts),
        },
        "deployment_model": {
            "model_name": "Federated" if facts.parties else "Central",
            "trust_assumptions": said.get("Against whom?", "TODO"),
            "release_type": "Many releases" if many else "One release",
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": stated["tuning"],
            "mechanisms": f"Kinds: {', '.join(facts.kinds) or 'none'}.",
            "utility": stated["utility"],
            "additional_information": said["How can this be checked?"],
        },
        "administrative": {
            "status": "Draft",
            "registry_authors": [stated["curator"]],
            "tier": 1,
        },
    }
    for section, names in _GIVEN.items():
        deployment[section] |= {name: stated[name] for name in names}
    slug = re.sub(r"[^a-z0-9]+", "-", title(facts).lower()).strip("-") or "todo"
    entry = {"url_slug": slug, "deployment": deployment}
    text = json.dumps(_printable(entry), indent=1, ensure_ascii=False)
    return re.sub(r": (\d+)e-", r": \1.0e-", text) + "\n"  # a text to YAML otherwise


def _printable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _printable(inside) for key, inside in value.items()}
    if isinstance(value, list):
        return list(map(_printable, value))
    return printable(value) if isinstance(value, str) else value
