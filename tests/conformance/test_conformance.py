"""ferry passes every vendored case, but for those whose explanation is written down; and the page says so."""

from __future__ import annotations

import pytest

from tests.conformance.collections import COLLECTIONS, Collection
from tests.conformance.page import PAGE, explanations, outcomes, page
from tests.conformance.program import DATA, sources

LEAST = {"hpack-test-case": 47_142, "http2-frame-test-case": 34, "llhttp": 77}
"""Cases that each archive has: a reader that overlooks some of them is noticed."""


@pytest.mark.parametrize("collection", COLLECTIONS, ids=lambda each: each.archive)
def test_what_is_not_passed_is_explained(collection: Collection) -> None:
    found = outcomes(collection)
    assert len(found) == LEAST[collection.archive]
    assert {each.case: each.found for each in found if each.found and each.case not in explanations(collection)} == {}
    passed = {each.case for each in found if not each.found}
    assert passed & explanations(collection).keys() == set(), "explained, and passed"
    assert explanations(collection).keys() <= {each.case for each in found}, "explained, and not there"


def test_the_page_is_of_today() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.conformance writes it"


def test_every_archive_has_a_source_and_a_collection() -> None:
    archives = {path.name.removesuffix(".tar.xz") for path in DATA.glob("*.tar.xz")}
    assert archives == sources().keys() == {collection.archive for collection in COLLECTIONS}
