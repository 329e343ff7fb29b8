"""SIGKILL at random moments of a run: what is lost, and what is asked for twice?

`python -m parts.kill_loop --problems 200 --kills 10` (with `tests` on the path) starts `rpd curate`
against a local server, kills it again and again, lets it finish, and compares the result with
that of an undisturbed run. `run` is what the tests call with smaller numbers.
"""

import argparse
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parts.fake_tgi import FakeTGI
from parts.openai_embeddings import OpenAIEmbeddings
from parts.rows import write_rows
from rpd_datasets import cli
from rpd_metric.models.store import ReplyStore

ROOT = Path(__file__).resolve().parents[2]
SLOTS = 16
VERBS = ["Factor", "Count", "Reflect", "Substitute", "Integrate", "Bound", "Guess", "Induct on"]
NOUNS = ["the sum", "every case", "a triangle", "the remainder", "the roots", "each term"]


def summary(body: dict[str, Any]) -> str:
    """A reply that is decided by the request: the same solution always has the same steps, and
    solutions that begin with the same verb have one strategy."""
    if "sort the solutions of one problem" in body["messages"][0]["content"]:
        verbs = re.findall(r"^1\. (\w+)", body["messages"][-1]["content"], re.MULTILINE)
        found = {verb: [n for n, one in enumerate(verbs, 1) if one == verb] for verb in verbs}
        entries = [{"name": f"{verb} first", "solutions": one} for verb, one in found.items()]
        return "They differ.\n" + json.dumps({"strategies": entries})
    digest = hashlib.sha256(body["messages"][-1]["content"].encode()).digest()
    places = range(3 + digest[0] % 3)
    steps = [f"{VERBS[(digest[7] + i) % 8]} {NOUNS[digest[i + 8] % 6]}." for i in places]
    return "### Analysis\nIn short.\n\n//boxed" + json.dumps({"logical_steps": steps})


def write_problems(path: Path, num_problems: int, num_solutions: int = 4) -> Path:
    """Grouped rows whose solutions all differ."""
    text = "Attempt {} at problem {}. Work it out. The answer is {}."
    rows = (
        {
            "problem": f"Problem {n}",
            "solutions": [text.format(i, n, n) for i in range(num_solutions)],
        }
        for n in range(num_problems)
    )
    return write_rows(path, rows)


def environment() -> dict[str, str]:
    """Of a run in a process of its own."""
    return os.environ | {
        "PYTHONPATH": str(ROOT),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "OPENAI_API_KEY": "unused",
    }


def start(*arguments: object) -> subprocess.Popen[str]:
    """Start `rpd` in a process of its own, with those that it starts in one group."""
    return subprocess.Popen(
        [sys.executable, "-m", "rpd_datasets.cli", *map(str, arguments)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_until(
    condition: Callable[[], object], process: subprocess.Popen[str] | None = None
) -> None:
    """Until something holds; the process that is to bring it about must run until then."""
    deadline = time.monotonic() + 300
    while not condition():
        assert process is None or process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.005)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@dataclass
class Outcome:
    """What a kill loop showed."""

    in_flight: list[int]  # at each kill: sent by that run, and the reply not in the store yet
    requests: int
    distinct: int
    equal: bool

    @property
    def repeated(self) -> int:
        """Requests that were sent more than once."""
        return self.requests - self.distinct


def count(folder: Path) -> int:
    """How many replies the killed runs have stored."""
    with ReplyStore(folder / "killed.sqlite") as store:
        return store.count()


def _distinct(server: FakeTGI) -> set[str]:
    return {json.dumps(received.body, sort_keys=True) for received in server.requests}


def run(folder: Path, *, num_problems: int, kills: int, seed: int = 0) -> Outcome:
    """Kill a run `kills` times, finish it, and compare with an undisturbed one."""
    rng = random.Random(seed)
    rows = write_problems(folder / "rows.jsonl", num_problems)
    chat = FakeTGI(reply=summary, seconds=0.05, info={"max_concurrent_requests": SLOTS})
    # Embeddings from a server, too, so that not every start has to load a model.
    with chat as server, OpenAIEmbeddings(max_batch=64) as embeddings:

        def command(name: str) -> list[str]:
            return [
                *("curate", str(rows)),
                *("--num-problems", str(num_problems // 4), "--num-solutions", "2"),
                *("--summarizer", f"tgi:{server.url}", "--store", str(folder / f"{name}.sqlite")),
                *("--embedder", f"openai:{embeddings.url}/v1#minilm"),
                *("--output", str(folder / name), "--json"),
            ]

        assert cli.main(command("undisturbed")) == 0
        needed = len(server.requests)
        server.requests.clear()
        in_flight: list[int] = []
        while len(in_flight) < kills:
            before, stored = len(server.requests), count(folder)
            connections = server.num_connections()
            process = start(*command("killed"))
            # Some requests after the start, spread over what is left to be done.
            goal = before + rng.randint(1, max(2, (needed - before) // (kills - len(in_flight))))
            while len(server.requests) < goal and process.poll() is None:
                time.sleep(0.002)
            time.sleep(rng.random() * 0.1)
            if process.poll() is not None:
                break  # it got to its end before it could be killed once more
            process.send_signal(signal.SIGKILL)
            process.communicate()
            # What it had sent may still be on its way: the server reads it, then drops the client.
            wait_until(lambda limit=connections: server.num_connections() <= limit)
            in_flight.append(len(server.requests) - before - (count(folder) - stored))
        assert cli.main(command("killed")) == 0
        requests, distinct = len(server.requests), len(_distinct(server))
    return Outcome(
        in_flight=in_flight,
        requests=requests,
        distinct=distinct,
        equal=contents(folder / "killed") == contents(folder / "undisturbed"),
    )


def main() -> None:
    """Run the loop and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=200)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcome = run(Path(folder), num_problems=args.problems, kills=args.kills, seed=args.seed)
    print(
        f"{len(outcome.in_flight)} kills: {outcome.requests} requests, {outcome.repeated} of them "
        f"repeated; in flight at the kills: {outcome.in_flight}; the result is "
        f"{'equal to' if outcome.equal else 'NOT equal to'} the undisturbed one byte for byte"
    )
    sys.exit(not (outcome.equal and outcome.repeated <= sum(outcome.in_flight)))


if __name__ == "__main__":
    main()
