"""A mount counts as left behind if its machine was not given it."""

from __future__ import annotations

from tests.support.own_machine import new_mounts

ROOT = "46 45 254:0 / / rw,relatime - ext4 /dev/vda rw"
LAYER = "130 46 0:50 / /var/lib/docker/overlay2/0a/merged rw,relatime - overlay overlay rw"
LEFT = "117 87 0:43 / /tmp/roughwater-x rw,relatime - tmpfs own rw"


def test_what_was_given_may_go_and_what_is_new_shows() -> None:
    given = f"{ROOT}\n{LAYER}\n"
    assert new_mounts(given, f"{ROOT}\n") == []
    assert new_mounts(given, f"{ROOT}\n{LEFT}\n") == [LEFT]
    assert new_mounts(given, f"{ROOT}\n{LAYER.replace('130', '131')}\n") != [], "the same place, mounted again"
