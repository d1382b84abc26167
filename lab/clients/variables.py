"""A client whose program has more environment variables: those of `lab run --env`, when its version is asked too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from lab.clients.adapter import ClientAdapter
from lab.hosts.host import Completed, Host
from lab.model.endpoints import Endpoints
from lab.model.results import ClientIdentity


def with_variables(adapter: ClientAdapter, variables: Mapping[str, str]) -> ClientAdapter:
    """The adapter, its program with these variables too; they take precedence over the adapter's own."""
    return cast(ClientAdapter, WithVariables(adapter, variables)) if variables else adapter


@dataclass(frozen=True)
class WithVariables:
    """Everything but the variables is the client's own."""

    inner: ClientAdapter
    variables: Mapping[str, str]

    def identify(self, host: Host) -> ClientIdentity:
        identity = self.inner.identify(cast(Host, _Asked(host, self.variables)))
        return identity.model_copy(update={"variables": dict(self.variables)})

    def environment(self, endpoints: Endpoints) -> dict[str, str]:
        return {**self.inner.environment(endpoints), **self.variables}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@dataclass(frozen=True)
class _Asked:
    """A host on which a program that is asked for its version has the variables."""

    inner: Host
    variables: Mapping[str, str]

    def identify(
        self, program: str, version_flags: Sequence[str], teller: str = "", env: Mapping[str, str] | None = None
    ) -> Completed:
        return self.inner.identify(program, version_flags, teller, {**(env or {}), **self.variables})

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)
