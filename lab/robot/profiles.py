"""Profiles: several suites as one run, by the name of a YAML file in `suites/profiles`; `lab run @nightly`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lab.model.base import YAML_SUFFIXES, Model, Slug
from lab.model.clock import ClockChoice
from lab.model.errors import UsageProblem, did_you_mean
from lab.model.load import check_name, files_by_name, parse_model, read_text
from lab.model.paths import suites_dirs
from lab.robot.suite import Choice, read_suites, suite_file, under
from reports.no_verdict import NoVerdict

if TYPE_CHECKING:
    from robot.api import TestSuite

_FOLDER = "profiles"


class Part(Model):
    """Suites that are chosen from in one way."""

    suites: Annotated[list[str], Field(min_length=1)] = Field(description="names or paths")
    clients: list[str] = Field([], description="as --client; default: the profile's, else each suite's own")
    include: list[str] = Field([], description="only tests with one of these tags")
    exclude: list[str] = Field([], description="no tests with one of these tags")
    tests: list[str] = Field([], description="only tests that match one of these patterns")
    variables: dict[str, str] = Field({}, description="Robot variables of these suites")


class Profile(Model):
    """Parts that make one run."""

    name: Slug = Field(description="name of the profile and of its file")
    description: str = Field(min_length=1, description="the occasion, and what it covers")
    keep: Annotated[int, Field(ge=1, strict=True)] | None = Field(
        None, description="runs of this profile that are kept; older ones are removed after a new one; default: all"
    )
    clock: ClockChoice = Field("auto", description="as --clock; virtual skips rows about the machine, with the reason")
    junit_no_verdict: NoVerdict = Field("usual", description="as --junit-no-verdict")
    clients: list[str] = Field([], description="clients of the parts that name none")
    parts: Annotated[list[Part], Field(min_length=1)]

    @property
    def versions(self) -> list[str]:
        """Every `CLIENT@VERSION` that it names, for `lab client build`."""
        named = (client for clients in (self.clients, *(part.clients for part in self.parts)) for client in clients)
        return [client for client in dict.fromkeys(named) if "@" in client and "=" not in client]

    @property
    def suites(self) -> list[Path]:
        """The files of its suites. Raises UsageProblem for an unknown one."""
        return [suite_file(name) for part in self.parts for name in part.suites]

    @property
    def run_name(self) -> str:
        """The word in the names of its runs."""
        return f"profile-{self.name}"

    def unless(self, clock: ClockChoice, no_verdict: NoVerdict) -> tuple[ClockChoice, NoVerdict]:
        """These options, with the profile's value for an option that was not set."""
        return self.clock if clock == "auto" else clock, self.junit_no_verdict if no_verdict == "usual" else no_verdict


def list_profiles() -> list[str]:
    """Names of the profiles that a command can ask for: a user's own and the lab's."""
    return list(_files())


def load_profile(name: str) -> Profile:
    """A profile by its name, a user's own before the lab's. Raises UsageProblem."""
    known = _files()
    if name not in known:
        raise UsageProblem(
            f"no profile called {name!r}{did_you_mean(name, known)}",
            remedy=f"profiles: {', '.join(known)}; your own are files in suites/{_FOLDER}",
        )
    profile = parse_model(Profile, read_text("profile", known[name]), str(known[name]))
    check_name(profile.name, known[name])
    return profile


def read_profile(profile: Profile, clients: Sequence[str] = (), choice: Choice | None = None) -> TestSuite:
    """Its tests as one suite. `clients` take the place of every part's; `choice` leaves a part of its tests.

    Raises as `read_suites`, and UsageProblem where no test is left.
    """
    read: list[TestSuite] = []
    for part in profile.parts:
        own = Choice(tests=part.tests, include=part.include, exclude=part.exclude)
        asked = clients or part.clients or profile.clients
        suite = read_suites([suite_file(name) for name in part.suites], asked, own, part.variables)
        if choice:
            choice.apply(suite)
        if suite.test_count:
            read.append(suite)
    if not read:
        raise UsageProblem(f"no test of profile {profile.name} matches {choice}")
    return under(profile.name.title(), read)


def _files() -> dict[str, Path]:
    folders = [folder / _FOLDER for folder in suites_dirs()]
    return files_by_name([folder for folder in folders if folder.is_dir()], YAML_SUFFIXES)
