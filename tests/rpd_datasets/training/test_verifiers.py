r"""The environment that the rewards' docstring shows, with the real `verifiers`.

It needs openai below 3, and the OpenAI provider of Inspect 3.4 or newer: no environment holds both.
`make test-newest` runs this test in one of its own, every week.
"""

import asyncio
import re
import sys
import textwrap

import pytest

from rpd_datasets import rewards

vf = pytest.importorskip("verifiers.v1", reason="make test-newest has verifiers")

TASKSET = """
import verifiers.v1 as vf

class SumData(vf.TaskData):
    answer: str

class SumTask(vf.Task[SumData]):
    @vf.reward
    async def correct(self, trace: vf.Trace) -> float:
        return float("55" in trace.last_reply)

class SumTaskset(vf.Taskset[SumTask, vf.TasksetConfig]):
    def load(self):
        return [SumTask(SumData(prompt="1 + ... + 10?", answer="55"), self.config.task)]

__all__ = ["SumTaskset"]
"""
REPLIES = (
    r"We argue by induction. The base case holds. Then the step adds one. So it is \boxed{55}.",
    r"Pair the first number with the last. There are five pairs of eleven. So it is \boxed{55}.",
    r"Pair the first number with the last. There are five pairs of ten. So it is \boxed{50}.",
)


def test_an_environment_of_verifiers_adds_diversity_to_its_right_attempts(tmp_path, monkeypatch):
    from verifiers.v1.envs.best_of_n import BestOfNEnvConfig
    from verifiers.v1.episode import EnvInfo
    from verifiers.v1.trace import AgentInfo, TraceTask

    (tmp_path / "rpd_sums.py").write_text(TASKSET)
    monkeypatch.syspath_prepend(tmp_path)
    code = re.search(r"    import asyncio\n.*?weight=0\.1\)\n", rewards.__doc__ or "", re.S)
    assert code
    shown = vars(rewards) | {"__name__": "shown"}
    exec(textwrap.dedent(code[0]), shown)
    env = shown["DiverseEnv"](BestOfNEnvConfig(taskset=vf.TasksetConfig(id="rpd_sums")))
    (task,) = env.taskset.load()
    seed, agent = TraceTask(type="SumTask", data=task.data), AgentInfo(config=vf.AgentConfig())
    traces = [vf.Trace(task=seed, agent=agent, root_reply=reply) for reply in REPLIES]

    async def finish() -> None:
        for trace in traces:
            await task.score(trace)
        await env.finalize(task, vf.Episode(env=EnvInfo(id="sums"), task=seed, traces=traces))

    asyncio.run(finish())
    sys.modules.pop("rpd_sums", None)
    one, other, wrong = (trace.reward for trace in traces)
    assert one == other > 1.01
    assert wrong == 0
