"""Sessions that check a change, each in an environment of its own: `nox -s lint types tests`."""

from pathlib import Path

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
def oldest(session: nox.Session) -> None:
    """Run the tests, or those that are named, with the oldest versions that pyproject.toml allows."""
    session.install("uv>=0.5")
    session.run("uv", "pip", "install", "--resolution", "lowest-direct", "-e", ".[test]")
    session.run("pytest", *session.posargs, env=ONE_THREAD)


@nox.session
def release(session: nox.Session) -> None:
    """Build what is published into dist/: source, wheel, and a list of all that the wheel installs (CycloneDX)."""
    session.install("build>=1.2", "cyclonedx-bom>=7", "uv>=0.5")
    session.run("python", "-m", "build", "--outdir", "dist")
    user = Path(session.create_tmp()) / "user"
    wheel = max(Path("dist").glob("*.whl"), key=lambda path: path.stat().st_mtime)
    session.run("uv", "venv", "--clear", "-q", str(user))
    session.run("uv", "pip", "install", "-q", "--python", str(user), str(wheel))
    listed = f"dist/excitor-{wheel.name.split('-')[1]}.cdx.json"
    made = ("--pyproject", "pyproject.toml", "--output-reproducible", "--validate", "-o", listed)
    session.run("cyclonedx-py", "environment", *made, str(user))


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
