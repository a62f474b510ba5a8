"""Entries of OpenDP's registry of deployments, by its deployments-schema.yaml."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import Any

from ._answers import claim, for_the_person_responsible, title
from ._facts import Facts
from ._page import printable


def registry_entry(facts: Facts) -> str:
    """Return the entry as JSON, which YAML contains; "TODO" where nobody has said."""
    stated = defaultdict(lambda: "TODO", facts.stated)
    said = {q: "\n".join(a) for q, a in for_the_person_responsible(facts)}
    many = facts.kind in ("stream", "ledger")
    private = {"epsilon": facts.epsilon, "delta": facts.delta}
    curator = {"data_curator_name": stated["curator"], "data_curator_type": "TODO"}
    deployment: dict[str, dict[str, Any]] = {
        "basic": {
            "name": title(facts),
            "data_curators": [curator],
            "description": facts.stated.get("description", said["What was released?"]),
            "intended_use": stated["intended_use"],
            "data_product_type": "Machine learning model",
            "data_product_region": "TODO",
            "data_product_sector": "TODO",
            # A date is required.
            "publication_date": facts.stated.get("date", "1900-01-01"),
        },
        "dp_variant": {
            "variant_name": "Approximate DP",
            "data_domain": "TODO",
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
            "actors": "TODO",
            "access_type_details": "TODO",
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": stated["tuning"],
            "mechanisms": f"Kinds: {', '.join(facts.kinds) or 'none'}.",
            "utility": stated["utility"],
            "justification": "TODO",
            "additional_information": said["How can this be checked?"],
        },
        "administrative": {
            "status": "Draft",
            "registry_authors": [stated["curator"]],
            "tier": 1,
        },
    }
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
