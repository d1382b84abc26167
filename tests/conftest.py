"""For every test: an ordinary user's PATH lacks the folders where Debian keeps ip, tc and ethtool."""

from __future__ import annotations

import os

os.environ["PATH"] += os.pathsep + os.pathsep.join(("/usr/sbin", "/sbin"))
