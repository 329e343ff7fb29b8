"""What holds for every test.

A run of the tests has a HOME, a temporary folder and caches of its own, shared by its workers. At
the end HOME and the temporary folder must be empty: a test that leaves something there fails the
run. Examples of property tests are the same in every run; `--hypothesis-profile nightly` draws
new ones.
"""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("nightly", deadline=None, max_examples=1000, print_blob=True)
settings.register_profile(
    "fixed",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("fixed")

# Set by the process that the run began in, read by its workers.
WORLD = "RPD_TESTS_WORLD"
CACHES = {
    "XDG_CACHE_HOME": "cache",
    "XDG_CONFIG_HOME": "cache/config",
    "XDG_DATA_HOME": "cache/data",
    "HF_HOME": "cache/huggingface",
    "GRADIO_TEMP_DIR": "cache/gradio",
    "MPLCONFIGDIR": "cache/matplotlib",
    "TORCHINDUCTOR_CACHE_DIR": "cache/torchinductor",
    "RPD_TESTS_CACHE": "cache/rpd-tests",
}
left_behind = pytest.StashKey[list[str]]()
ENVIRON = os.environ


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    # A shell starts what it puts in the background with Ctrl-C ignored, and children inherit that:
    # tests that interrupt a command would wait for nothing.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if WORLD in os.environ:
        return
    # Folders of failed tests are kept where pytest always keeps them.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    world = Path(tempfile.mkdtemp(prefix="rpd-tests-"))
    config.add_cleanup(lambda: shutil.rmtree(world, ignore_errors=True))
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    patch.setenv(WORLD, str(world))
    for name, folder in {"HOME": "home", "TMPDIR": "tmp", **CACHES}.items():
        (world / folder).mkdir(parents=True)
        patch.setenv(name, str(world / folder))
    patch.setattr(tempfile, "tempdir", None)
    config.stash[left_behind] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Files with slow tests begin first: one that begins last leaves a worker without work.
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(autouse=True)
def the_one_environment() -> Iterator[None]:
    """After `Dataset.map(num_proc=...)` os.environ is another object than the one that libraries
    looked up when they were imported: what a later test sets would not reach them.
    """
    yield
    os.environ = ENVIRON  # noqa: B003  # the object itself, not a copy of what is in it


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if left_behind not in session.config.stash:
        return  # a worker; the process that started it looks when all have ended
    session.config.stash[left_behind] += _left()
    if session.config.stash[left_behind]:
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for name in config.stash.get(left_behind, []):
        terminalreporter.write_line(f"ERROR a test left {name}", red=True)


def _left() -> Iterator[str]:
    for name in ("HOME", "TMPDIR"):
        folder = Path(os.environ[name])
        yield from (f"{path.relative_to(folder)} in {name}" for path in sorted(folder.iterdir()))
