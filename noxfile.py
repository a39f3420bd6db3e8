"""Sessions that check a change, each in an environment of its own: `nox -s lint types tests`."""

import nox

nox.options.sessions = ["lint", "types", "tests", "docs-check"]
nox.options.reuse_existing_virtualenvs = True
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def install(session: nox.Session, extra: str) -> None:
    """Install the package in place, with an extra."""
    session.install("-e", f".[{extra}]")


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and format."""
    session.install("ruff>=0.9")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Check types, strictly."""
    install(session, "dev")
    session.run("mypy")


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests, or those that are named: `nox -s tests -- tests/robots`."""
    install(session, "test")
    session.run("pytest", *session.posargs, env=ONE_THREAD)


@nox.session
def slow(session: nox.Session) -> None:
    """Run the slow tests."""
    install(session, "test")
    session.run("pytest", "-m", "slow", *session.posargs, env=ONE_THREAD)


@nox.session
def benchmarks(session: nox.Session) -> None:
    """Run the benchmarks that are named: `nox -s benchmarks -- physics`; none: list them."""
    install(session, "test")
    session.run("python", "-m", "benchmarks", *session.posargs, env=ONE_THREAD)


@nox.session(name="docs-check")
def docs_check(session: nox.Session) -> None:
    """Check links, references, commands and keys of the documentation, and build the site: build/docs."""
    install(session, "dev")
    pages = ["tests/test_readme_table.py", "tests/test_architecture.py", "tests/test_docs.py"]
    session.run("pytest", "-n", "0", *pages, env=ONE_THREAD)
    session.run("sphinx-build", "-W", "--keep-going", "-b", "html", "docs", "build/docs", env=ONE_THREAD)
