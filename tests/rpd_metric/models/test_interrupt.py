"""Signals: what is in flight is finished and kept, and the next run sends only what is missing."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from parts.fake_tgi import FakeTGI
from parts.kill_loop import wait_until
from rpd_metric.models.flow import Flow, draining
from rpd_metric.models.store import ReplyStore

ROOT = Path(__file__).parents[3]


RUN = """
import asyncio, sys
from rpd_metric.models.chat import ChatRequest
from rpd_metric.models.failures import Interrupted
from rpd_metric.models.flow import Flow, draining
from rpd_metric.models.spec import load_chat
from rpd_metric.models.requests import RequestOptions
from rpd_metric.models.store import ReplyStore

url, path, how = sys.argv[1:]
flow = Flow(load_chat(url), RequestOptions(max_in_flight=4), store=ReplyStore(path))

def request(number):
    return ChatRequest(({"role": "user", "content": str(number)},))

async def solve(number):
    return {"text": (await flow(request(number["number"]))).text}

async def gathered():
    await asyncio.gather(*(flow(request(number)) for number in range(100)))

def mapped():
    import datasets
    datasets.disable_progress_bars()
    datasets.disable_caching()
    rows = datasets.Dataset.from_dict({"number": list(range(100))})
    rows.map(solve)

try:
    with draining(flow, notify=lambda line: print(line, flush=True)):
        asyncio.run(gathered()) if how == "gather" else mapped()
except Interrupted as error:
    print("interrupted", flow.stats.done, error, flush=True)
    sys.exit(3)
"""


def start_run(server, path, how="gather") -> subprocess.Popen:
    url = f"openai:{server.url}/v1#m"
    return subprocess.Popen(
        [sys.executable, "-c", RUN, url, str(path), how],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "how"), [(signal.SIGINT, "gather"), (signal.SIGTERM, "datasets.map")]
)
def test_a_signal_drains_and_the_next_run_sends_only_what_is_missing(tmp_path, number, how):
    path = tmp_path / "replies.sqlite"
    with FakeTGI(seconds=0.1, has_info=False) as server:
        run = start_run(server, path, how)
        wait_until(lambda: server.answered >= 5, run)
        run.send_signal(number)
        out, err = run.communicate(timeout=300)
        assert run.returncode == 3, err
        assert f"{signal.Signals(number).name}: finishing" in out
        assert "interrupted" in out
        # Everything that was sent was waited for and kept.
        with ReplyStore(path) as store:
            kept = store.count()
        assert 5 <= kept == len(server.requests) == server.answered < 100
        server.seconds = 0.0
        again = start_run(server, path, how)
        _, err = again.communicate(timeout=300)
        assert again.returncode == 0, err
        assert len(server.requests) == 100


def test_a_second_ctrl_c_stops_at_once(tmp_path):
    path = tmp_path / "replies.sqlite"
    with FakeTGI(seconds=3600, has_info=False) as server:
        run = start_run(server, path)
        wait_until(lambda: len(server.requests) == 4, run)
        run.send_signal(signal.SIGINT)
        assert "finishing 4 requests" in run.stdout.readline()
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=300)
        assert (run.returncode, out[:13]) == (3, "interrupted 0"), err
        assert len(server.requests) == 4


STUCK = """
import sys, time
from rpd_datasets.commands import run_command
from rpd_metric.models.concurrency import run
from rpd_metric.models.flow import Flow, draining

class Chat:
    model = "m"

async def stuck():
    print("at work", flush=True)
    time.sleep(3600)

def work():
    with draining(Flow(Chat()), notify=lambda line: print(line, flush=True)):
        run(stuck())

sys.exit(run_command("x", work))
"""


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_a_command_that_is_stuck_beside_its_requests(second):
    command = [sys.executable, "-c", STUCK]
    run = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert run.stdout.readline() == "at work\n"
    run.send_signal(signal.SIGINT)
    assert "finishing 0 requests" in run.stdout.readline()
    run.send_signal(second)
    assert run.wait(timeout=300) == 130
    run.stdout.close()


def test_former_handlers_come_back_and_other_threads_are_left_alone():
    def handlers():
        return signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)

    def within():
        with draining(Flow(SimpleNamespace(model="m"))):
            return handlers()

    former = handlers()
    assert within() != former
    assert handlers() == former
    with ThreadPoolExecutor() as threads:
        assert threads.submit(within).result() == former
