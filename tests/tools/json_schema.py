"""Check plain values against a JSON schema, as far as schemas of this package go."""

TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}
KNOWN = {
    *("$schema", "title", "description", "definitions", "$ref", "type", "enum"),
    *("properties", "required", "additionalProperties", "items", "minimum", "maximum"),
}


def faults(value, schema, root=None, path="$"):
    """Yield what is wrong with a value, where."""
    root = schema if root is None else root
    assert set(schema) <= KNOWN, f"this check does not know {set(schema) - KNOWN}"
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/definitions/")
        yield from faults(value, root["definitions"][name], root, path)
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(is_of(value, name) for name in types):
        yield f"{path} is no {' or '.join(types)}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path} is none of {schema['enum']}"
    if is_of(value, "number"):
        low, high = schema.get("minimum", value), schema.get("maximum", value)
        if not low <= value <= high:
            yield f"{path} is out of range"
    if isinstance(value, dict):
        known = schema.get("properties", {})
        required = schema.get("required", [])
        yield from (f"{path}.{n} is missing" for n in required if n not in value)
        for name, part in value.items():
            if name in known:
                yield from faults(part, known[name], root, f"{path}.{name}")
            elif schema.get("additionalProperties") is False:
                yield f"{path}.{name} is unknown"
    if isinstance(value, list) and "items" in schema:
        for number, part in enumerate(value):
            yield from faults(part, schema["items"], root, f"{path}[{number}]")


def is_of(value, name):
    """Whether a value is of a type of JSON; true and false are no numbers."""
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, TYPES[name])
