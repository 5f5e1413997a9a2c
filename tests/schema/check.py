"""Puts the JSON Schema to the test, with a validator of another make.

Every policy of this repository that loads must pass, and every policy of `refused.yaml` must not. That
these load or do not load is what `main.rs` checks.
"""

import json
import sys
from pathlib import Path

import yaml
from jsonschema import Draft7Validator

ROOT = Path(__file__).resolve().parents[2]


def documents(path):
    """The documents of a file, each with the comment that it begins with."""
    for text in path.read_text().split("\n---\n")[1:]:
        yield text.splitlines()[0].lstrip("# "), yaml.safe_load(text)


def good():
    for folder in ["examples", "tests/clients"]:
        for path in sorted((ROOT / folder).glob("**/*.yaml")):
            yield path.relative_to(ROOT), yaml.safe_load(path.read_text())
    for path in sorted((ROOT / "tests/traces").glob("*.json")):
        config = json.loads(path.read_text())["config"]
        yield path.relative_to(ROOT), yaml.safe_load(config)
    yield from documents(ROOT / "tests/schema/accepted.yaml")


def main():
    schema = json.loads((ROOT / "examples/policy.schema.json").read_text())
    Draft7Validator.check_schema(schema)
    validator = Draft7Validator(schema)
    failures = []
    passed = refused = 0
    for name, policy in good():
        # An empty file is an empty policy.
        for error in validator.iter_errors({} if policy is None else policy):
            failures.append(f"{name} should pass, but {error.json_path}: {error.message}")
        passed += 1
    for name, policy in documents(ROOT / "tests/schema/refused.yaml"):
        if validator.is_valid(policy):
            failures.append(f"should be refused: {name}")
        refused += 1
    print(f"{passed} policies to pass, {refused} to be refused, {len(failures)} mistakes")
    for failure in failures:
        print(failure)
    return 1 if failures or passed < 50 or refused < 15 else 0


if __name__ == "__main__":
    sys.exit(main())
