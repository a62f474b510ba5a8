"""Entries of OpenDP's registry of deployments, in YAML.

The fields and their order are those of ``schemas/deployments-schema.yaml`` of the
repository ``opendp/deployments-registry-data``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ._pages import printable
from ._records import Facts

TODO = "TODO"

# Fields of the registry, by section, in its order; curators may give those with "*".
_FIELDS = {
    "basic": "name data_curators description intended_use data_product_type*"
    " data_product_region* data_product_sector* publication_date",
    "dp_variant": "variant_name data_domain* unprotected_quantities",
    "privacy_loss": "privacy_unit privacy_unit_details number_of_privacy_units"
    " privacy_parameters privacy_parameters_details",
    "deployment_model": "model_name model_name_details trust_assumptions* actors*"
    " release_type release_type_details* data_source_type* data_source_type_details*"
    " access_type* access_type_details*",
    "implementation": "preprocessing_and_hyperparameter_tuning mechanisms composition"
    " post_processing* justification* utility additional_information",
    "administrative": "evidence_sources status registry_authors* tier",
}
REGISTRY_FIELDS = {
    "data_curator_type",
    *re.findall(r"(\w+)\*", " ".join(_FIELDS.values())),
}
# Fields that answers of a statement fill.
_ANSWERS = {
    "unprotected_quantities": ("What is not protected?",),
    "privacy_unit_details": (
        *("Who is protected?", "What if one person has several rows?"),
        *("What if one person has several user ids?", "Guarantee"),
    ),
    "model_name_details": ("What do a server and other parties see?",),
    "trust_assumptions": ("Against whom?",),
    "release_type_details": ("What has been spent, and what is left?",),
    "mechanisms": (
        *("Floating point", "Source of randomness", "Software", "Leaks", "Audit"),
    ),
    "composition": ("Composition", "Ledger"),
    "additional_information": ("How can this be checked?",),
}
# What the schema requires, and a reader has to correct.
_PLACES = {"data_curator_type": "Industry", "publication_date": "1900-01-01"}
_REQUIRED = {
    *("name", "data_curators", "description", "intended_use", "data_product_type"),
    *("data_product_region", "publication_date", "registry_authors"),
}


def registry_fields(facts: Facts, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry: None where nobody has said anything."""
    stated, given = facts.stated, facts.stated.get("registry", {})
    parts = ("for_the_person_responsible", "for_the_auditor")
    answers = {a["question"]: a["answer"] for part in parts for a in content[part]}

    def said(*questions: str) -> str | None:
        found = [text for q in questions for text in answers.get(q, ())]
        return "\n".join(f"- {text}" for text in found) or None

    kind, curator = facts.record["kind"], stated.get("curator")
    authors = given.get("registry_authors") or curator
    parameters = {"epsilon": facts.epsilon, "delta": facts.delta}
    kinds = sorted({m.kind for plan in facts.plans for m in plan.releases()})
    known = {
        **{field: said(*questions) for field, questions in _ANSWERS.items()},
        **{name: stated.get(name) for name in ("intended_use", "utility")},
        "data_product_type": "Machine learning model",
        # Whether the data of a ledger grow is not known.
        "data_source_type": {"stream": "Dynamic", "ledger": None}.get(kind, "Static"),
        "access_type": None if kind == "ledger" else "Non-interactive",
        "post_processing": "What follows from the releases alone, with public values.",
        **given,
        "name": stated.get("title"),
        "data_curators": (curator, given.get("data_curator_type")),
        "description": stated.get("description") or said("What was released?"),
        "publication_date": stated.get("date") or (facts.period or ("", None))[1],
        "variant_name": "Approximate DP",
        "privacy_unit": facts.unit or None,
        "number_of_privacy_units": facts.record["n_units"] or stated.get("n_units"),
        "privacy_parameters": parameters if facts.private else None,
        "privacy_parameters_details": content["claim"],
        "model_name": (
            "Federated"
            if facts.parties or facts.summed or facts.noise_by
            else "Central"
        ),
        "release_type": (
            "Many releases" if kind in ("stream", "ledger") else "One release"
        ),
        "preprocessing_and_hyperparameter_tuning": stated.get("tuning"),
        "status": "Draft",
        "registry_authors": [authors] if authors else None,
        "tier": 0,
    }
    known["mechanisms"] += f"\n- Kinds of mechanisms: {', '.join(kinds) or 'none'}."
    deployment = {
        section: {name: known.get(name) for name in re.findall(r"\w+", names)}
        for section, names in _FIELDS.items()
    }
    deployment["administrative"]["tier"] = _tier(deployment)
    slug = re.sub(r"[^a-z0-9]+", "-", content["title"].lower()).strip("-") or "todo"
    return {"url_slug": slug, "deployment": deployment}


def _tier(deployment: Mapping[str, Mapping[str, Any]]) -> int:
    """Return how complete an entry is, by what its tiers ask for."""
    basic = deployment["basic"]
    named = all(basic["data_curators"]) and all(
        value for key, value in basic.items() if key in _REQUIRED
    )
    if not named or deployment["privacy_loss"]["privacy_parameters"] is None:
        return 1
    third = ("preprocessing_and_hyperparameter_tuning", "justification", "utility")
    complete = all(deployment["implementation"][key] for key in third)
    return 3 if complete and deployment["dp_variant"]["data_domain"] else 2


def as_registry_yaml(facts: Facts, content: Mapping[str, Any]) -> str:
    """Return the entry, with a comment of TODO for each field that nobody filled."""
    fields = registry_fields(facts, content)
    lines = ["# An entry for opendp/deployments-registry-data; fill in what is TODO."]
    return "\n".join([*lines, *_lines(fields, "")]) + "\n"


def _lines(fields: Mapping[str, Any], indent: str) -> Iterator[str]:
    inside = f"{indent}  "
    for key, value in fields.items():
        start, place = f"{indent}{key}:", _PLACES.get(key, TODO)
        if key == "data_curators":
            name, kind = value
            note = "" if kind else f"  # {TODO}"
            yield start
            yield f"{inside}- data_curator_name: {_scalar(name or TODO)}"
            kind = kind or _PLACES["data_curator_type"]
            yield f"{inside}  data_curator_type: {_scalar(kind)}{note}"
        elif isinstance(value, Mapping):
            yield start
            yield from _lines(value, inside)
        elif isinstance(value, list) or key == "registry_authors":
            yield start
            yield from (f"{inside}- {_scalar(item)}" for item in value or [TODO])
        elif value is not None:
            yield f"{start} {_scalar(value, inside)}"
        elif key in _REQUIRED:
            yield f"{start} {_scalar(place)}{'' if place == TODO else f'  # {TODO}'}"
        else:
            yield f"{indent}# {key}: {TODO}"


def _scalar(value: Any, indent: str = "") -> str:
    """Return a value as YAML writes it: in quotes, or as a block of lines."""
    if isinstance(value, float):  # YAML takes 1e-06 for a text
        return re.sub(r"^(\d+)e", r"\1.0e", json.dumps(value))
    if not isinstance(value, str):
        return json.dumps(value)
    said = printable(value)
    if (
        indent
        and "\n" in said
        and all(re.match(r"- \S", line) for line in said.split("\n"))
    ):
        return "|-\n" + "\n".join(indent + line for line in said.split("\n"))
    return json.dumps(said, ensure_ascii=False)
