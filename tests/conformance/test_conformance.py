"""ferry passes every case, but for those that are listed; and the page says so."""

from __future__ import annotations

import pytest

from tests.conformance.cases import Collection
from tests.conformance.collections import COLLECTIONS
from tests.conformance.explained import ALLOWED, EXPLAINED
from tests.conformance.page import PAGE, page, result
from tests.conformance.program import sources

LEAST = {
    "hpack-test-case": 47_142,
    "qifs": 776,
    "http2-frame-test-case": 34,
    "llhttp": 74,
    "curl-data": 359,
    "curl-sftp": 19,
    "curl-replies": 1_440,
    "wpt-content-length": 28,
    "wpt-h1-parsing": 22,
    "h2spec": 57,
    "badssl": 39,
    "ssh-audit": 27,
    "strict-kex": 14,
    "pkits": 111,
    "bsi": 38,
    "go-names": 80,
    "x509-limbo": 174,
    "wpt-url": 415,
    "unicode-idna": 5_695,
}
"""Cases that each source has: a reader that overlooks some of them is noticed."""


@pytest.mark.parametrize("collection", COLLECTIONS, ids=lambda each: each.source)
def test_what_is_not_passed_is_listed(collection: Collection) -> None:
    made, allowed, explained = result(collection), ALLOWED.get(collection.source, {}), EXPLAINED.get(collection.source, {})
    assert len(made.cases) == LEAST[collection.source]
    unexplained = made.not_passed.keys() - explained.keys()
    assert {each.case: each.found for each in made.cases if each.case in unexplained} == {}
    assert made.allowed.keys() == allowed.keys(), "listed as allowed, and not so"
    assert made.not_passed.keys() == explained.keys(), "listed as not passed, and not so"


def test_the_page_is_of_today() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.conformance writes it"


def test_every_source_has_a_collection() -> None:
    assert sources().keys() == {collection.source for collection in COLLECTIONS}
