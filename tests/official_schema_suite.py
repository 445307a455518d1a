"""What the official JSON Schema test suite says of the validator and the masks.

python -m tests.official_schema_suite FOLDER [--drafts draft2020-12 draft7] [--engines xgrammar llguidance]

FOLDER is an unpacked copy of the suite (its `tests` folder, or one that holds it): the source distribution of the package
`jsonschema` brings one (``pip download --no-deps --no-binary :all: jsonschema``, then its folder ``json``). For each test
two questions: does the validator say what the suite says, and does a mask that differs from the validator announce it?
Prints the tests for which the answer is no, and counts.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, permutations, product
from pathlib import Path
from typing import Any

from tqdm import tqdm

from smc import JSONSchema
from smc.constraints.crosscheck import BYTES, Engine, leads_through
from smc.errors import EmptyLanguageError, SMCError

MAX_SPELLINGS = 720
"""Most orders of an object's keys that are tried: a mask may write but one of them."""

DIALECTS = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}


@dataclass(frozen=True)
class Difference:
    """One test that comes out otherwise, or a schema that is refused: in which file, what is it about, and how."""

    file: str
    kind: str
    about: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.file}: {self.about}"


def spellings(value: Any) -> Iterator[str]:
    """The compact texts of a value, one for each order of the keys of its objects; whole floats as ints too."""
    if isinstance(value, dict):
        for order in permutations(value.items()):
            for texts in product(*(list(islice(spellings(below), 24)) for _, below in order)):
                keys = (json.dumps(key, ensure_ascii=False) for key, _ in order)
                yield "{" + ",".join(f"{key}:{text}" for key, text in zip(keys, texts, strict=True)) + "}"
    elif isinstance(value, list):
        for texts in product(*(list(islice(spellings(below), 24)) for below in value)):
            yield f"[{','.join(texts)}]"
    else:
        yield json.dumps(value, ensure_ascii=False)
        if isinstance(value, float) and value.is_integer():
            yield str(int(value))


def judged(file: str, case: dict[str, Any], engines: list[Engine], counts: Counter[str]) -> Iterator[Difference]:
    """What one schema of the suite shows; `counts` is added to."""
    try:
        constraints = {engine: JSONSchema(case["schema"], whitespace="compact", engine=engine) for engine in engines}
        masks = {engine: compiled(constraint) for engine, constraint in constraints.items()}
        validator = next(iter(constraints.values()), None) or JSONSchema(case["schema"])
    except SMCError as error:
        counts["refused schemas"] += 1
        yield Difference(file, "refused", f"{case['description']}: {error}")
        return
    for test in case["tests"]:
        counts["tests"] += 1
        texts = [text.encode() for text in islice(spellings(test["data"]), MAX_SPELLINGS)]
        about = f"{case['description']}: {test['description']}"
        valid = validator.is_valid(texts[0])
        if valid != test["valid"]:
            yield Difference(file, "validator", about)
        for engine, constraint in constraints.items():
            written = any(leads_through(masks[engine], text) for text in texts) if masks[engine] else False
            lost = any(note.effect == "narrower" for note in constraint.notes if note.scope != "tokens")
            if written and not valid and not constraint.wider:
                yield Difference(file, f"{engine} wider, unannounced", about)
            if valid and not written and not lost:
                yield Difference(file, f"{engine} narrower, unannounced", about)


def compiled(constraint: JSONSchema) -> Any:
    """The mask; None if no value follows the schema."""
    try:
        return constraint.compile(BYTES)
    except EmptyLanguageError:
        return None


def run(folder: Path, draft: str, engines: list[Engine]) -> tuple[list[Difference], Counter[str]]:
    """The differences of one draft, and how much was asked."""
    root = folder / "tests" / draft if (folder / "tests").is_dir() else folder / draft
    counts: Counter[str] = Counter()
    found: list[Difference] = []
    for path in tqdm(sorted(root.rglob("*.json")), desc=draft):
        for case in json.loads(path.read_text(encoding="utf-8")):
            schema = case["schema"]
            if isinstance(schema, dict):
                case = {**case, "schema": {"$schema": DIALECTS[draft], **schema}}
            found += judged(str(path.relative_to(root)), case, engines, counts)
    return found, counts + Counter(difference.kind for difference in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--drafts", nargs="+", default=["draft2020-12", "draft7"], choices=list(DIALECTS))
    parser.add_argument("--engines", nargs="*", default=["xgrammar", "llguidance"])
    arguments = parser.parse_args()
    for draft in arguments.drafts:
        found, counts = run(arguments.folder, draft, arguments.engines)
        print("\n".join(map(str, found)))
        print(f"{draft}: {', '.join(f'{count} {kind}' for kind, count in counts.items())}")


if __name__ == "__main__":
    main()
