"""What the Hub double holds: accounts, repositories, large objects, and who may see or change which of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tests.doubles.hub_repo import Change, Commit, Repo
from tests.doubles.hub_wire import Refusal, Request, error

KINDS = ("model", "dataset", "space")


@dataclass(frozen=True, slots=True)
class Token:
    user: str
    role: Literal["read", "write"]
    repos: frozenset[str] | None = None
    """Of a fine-grained token: the only repositories that exist for it, as `datasets/owner/name`; None is all."""


@dataclass(slots=True)
class _Lag:
    before: Commit
    reads: int


@dataclass(slots=True)
class Holdings:
    tokens: dict[str, Token] = field(
        default_factory=lambda: {"hf_writer": Token("alice", "write"), "hf_reader": Token("alice", "read")}
    )
    repos: dict[tuple[str, str], Repo] = field(default_factory=dict)
    large: dict[str, bytes] = field(default_factory=dict)
    """Uploaded LFS objects by their sha256."""
    lag_reads: int = 0
    """How many reads of a branch after each commit still see what was there before it."""
    _lags: dict[tuple[str, str], _Lag] = field(default_factory=dict)

    def who(self, request: Request) -> Token:
        """The request's account. Raises Refusal, with 401, for a token that is wrong or missing."""
        token = self.tokens.get(request.token or "")
        if token is None:
            raise Refusal(error(401, "Invalid username or password."))
        return token

    def reachable(self, request: Request, kind: str, name: str, write: bool = False) -> Repo:
        """The repository, if this request may. A private one that it may not see does not exist for it."""
        repo, token = self.repos.get((kind, name)), self.tokens.get(request.token or "")
        public = repo is not None and not repo.private
        if token is None and (request.token is not None or write or not public):
            raise Refusal(error(401, "Invalid username or password.", "RepoNotFound"))
        owned = token is not None and self._is_for(token, kind, name)
        if repo is None or not (public or owned):
            raise Refusal(error(404, "Repository not found", "RepoNotFound"))
        if write and not (owned and token is not None and token.role == "write"):
            raise Refusal(error(403, "Forbidden: you must use a write token"))
        return repo

    def _is_for(self, token: Token, kind: str, name: str) -> bool:
        listed = token.repos is None or f"{'' if kind == 'model' else kind + 's/'}{name}" in token.repos
        return listed and name.split("/")[0] == token.user

    def read(self, repo: Repo, revision: str) -> Commit:
        """The commit of a revision as readers see it now. Raises Refusal, RevisionNotFound."""
        lag = self._lags.get((repo.kind, repo.name))
        if lag is not None and lag.reads > 0 and revision == "main":
            lag.reads -= 1
            return lag.before
        commit = repo.at(revision)
        if commit is None:
            raise Refusal(error(404, f"Invalid rev id: {revision}", "RevisionNotFound"))
        return commit

    def commit(self, repo: Repo, change: Change, author: str) -> Commit:
        """Raises what Repo.commit raises."""
        before = repo.head
        made = repo.commit(change, author)
        self._lags[repo.kind, repo.name] = _Lag(before, self.lag_reads)
        return made

    def add_repo(self, kind: str, name: str, private: bool) -> Repo:
        return self.repos.setdefault((kind, name), Repo(kind, name, private))
