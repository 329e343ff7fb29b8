"""Sampling a benchmark's problems from a chat model, resumable sample by sample.

Requests go through the same flow and store as curation. Each finished sample is appended to the
samples file at once, so a stopped run goes on where it was; at its end the file is put in order.

Not here: base models without a chat template, and generation on several GPUs. Serve the model
(TGI, vLLM, SGLang) for that and name the server.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rpd_datasets.evaluation.benchmarks import Task
from rpd_datasets.evaluation.passk_config import EvaluationConfig
from rpd_datasets.evaluation.samples import (
    SAMPLES,
    Key,
    Sample,
    expected_keys,
    json_line,
    read_samples,
    seed_of,
    write_rows,
    write_text,
)
from rpd_datasets.instructions import fill_prompt
from rpd_metric.errors import InputError, ModelError, OutputError
from rpd_metric.models.chat import ChatOptions, ChatRequest, Sampling
from rpd_metric.models.concurrency import run_bounded
from rpd_metric.models.flow import Flow
from rpd_metric.models.kinds import chat_spec, load_chat
from rpd_metric.models.requests import RequestOptions
from rpd_metric.models.store import ReplyStore

RUN = "run.json"
# Requests kept ready for the flow, which decides how many of them are sent at a time.
_IN_FLIGHT = 1024
_WEIGHTS = ("*.safetensors", "*.bin", "*.json", "*.jinja", "*.model", "*.txt")


def model_spec(model: str) -> str:
    """The spec of a model that is named by its folder or by a spec; nothing is loaded for it.

    Raises:
        [`SpecError`]: It is neither.
        [`InputError`]: The folder holds an adapter alone.
    """
    folder = _folder(model)
    if (folder / "adapter_config.json").is_file() and not (folder / "config.json").is_file():
        raise InputError(
            f"{folder} is an adapter, and which base it fits is known to merge.py only; merge it "
            f"first: python recipes/merge.py --adapter {folder} --output {folder}-merged"
        )
    named = f"hf:{model}" if folder.is_dir() and not model.startswith("hf:") else model
    return chat_spec(named).text


def _folder(model: str) -> Path:
    return Path(model.removeprefix("hf:").partition("?")[0])


def open_model(
    model: str,
    options: ChatOptions | None = None,
    *,
    store: Path,
    timeout: float = 3600.0,
) -> Flow:
    """Load the model of an evaluation, a folder or a spec, its replies kept in a file.

    The flow never asks for more tokens than the benchmark allows. The `model` of a folder ends in a
    hash of its files, so that a model trained anew in the same folder is not answered with its
    predecessor's replies.
    """
    chat = load_chat(model_spec(model), options or ChatOptions())
    flow = Flow(
        chat,
        RequestOptions(timeout=timeout, longest_reply=0),
        store=ReplyStore(store),
        other_lengths=False,
    )
    folder = _folder(model)
    if folder.is_dir():
        flow.model = f"{chat.model}@{_fingerprint(folder)}"
    return flow


def chat_request(task: Task, key: Key, config: EvaluationConfig) -> ChatRequest:
    """The request for one sample."""
    asked = fill_prompt(config.sent, task.problem)
    return ChatRequest(
        messages=({"role": "user", "content": asked},),
        sampling=Sampling(
            temperature=config.temperature,
            top_p=config.top_p,
            max_tokens=config.max_tokens,
            seed=seed_of(key, config),
            thinking=config.thinking,
        ),
    )


async def generate(
    tasks: Sequence[Task],
    config: EvaluationConfig,
    flow: Flow,
    folder: Path,
    *,
    revision: str | None = None,
    progress: Callable[[int], object] = lambda _: None,
) -> list[Sample]:
    """Have a model write every sample that is not on file yet; returns all of them, in order.

    Args:
        folder (`Path`): Where `samples.jsonl` is, or will be.
        revision (`str`, *optional*): The commit of the benchmark's dataset, to be written down.
        progress (`Callable`, *optional*): Called with the number of samples on file.

    Raises:
        [`InputError`]: The folder holds samples of another model or configuration.
        [`ModelError`]: Some requests failed for good; the message counts them by reason. The
            other samples are on file.
        [`Interrupted`], [`ServerUnavailable`], [`StoreError`]: As the flow does.
    """
    claim(folder, config, flow.model, revision)
    path = folder / SAMPLES
    samples = read_samples(path)
    # Without what an interrupted line left behind.
    write_rows(path, map(asdict, samples.values()))
    problems = {task.id: task for task in tasks}
    keys = expected_keys(tasks, config)
    todo = [key for key in keys if key not in samples]
    failures: Counter[str] = Counter()
    last: ModelError | None = None
    done = len(keys) - len(todo)
    progress(done)

    async def ask(key: Key) -> None:
        nonlocal last, done
        request = chat_request(problems[key[0]], key, config)
        try:
            reply = await flow(request)
        except ModelError as error:
            failures[getattr(error, "reason", "model_error")] += 1
            last = error
            return
        seed, tokens = request.sampling.seed, reply.completion_tokens
        samples[key] = Sample(*key, seed, reply.text, reply.finish_reason, tokens)
        # Here, so that what was answered while a run ends is on file, too.
        lines.write(json_line(asdict(samples[key])))
        lines.flush()
        done += 1
        progress(done)

    try:
        with path.open("a", encoding="utf-8") as lines:
            bounded = run_bounded(todo, ask, max_in_flight=_IN_FLIGHT, ordered=False)
            async with aclosing(bounded) as answered:
                async for _ in answered:
                    pass
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
    if failures:
        reasons = ", ".join(f"{reason} {count}" for reason, count in failures.most_common())
        raise ModelError(
            f"{failures.total()} of {len(keys)} samples are missing ({reasons}; the last: {last}); "
            "fix that and run the same command again, the others are kept. A missing sample is "
            "not a wrong one, so nothing is graded"
        )
    ordered = [samples.pop(key) for key in keys]
    # Samples beyond those asked for, of a former call with a larger `limit`, stay.
    write_rows(path, map(asdict, [*ordered, *samples.values()]))
    return ordered


def claim(folder: Path, config: EvaluationConfig, model: str, revision: str | None = None) -> None:
    """Write down what a folder's samples are made with, or see that it is the same.

    Raises:
        [`InputError`]: The folder belongs to another model or configuration.
    """
    run: dict[str, Any] = {"model": model, "sampling": config.sampling}
    path = folder / RUN
    if path.exists():
        before = read_run(folder)
        differ = [
            name
            for name, value in config.sampling.items()
            # More samples or runs of the same kind may be added to those there are.
            if name not in ("samples", "runs", "limit", "since", "until")
            and before["sampling"].get(name) != value
        ]
        if before.get("revision") != revision:
            revision = None  # samples of two commits are of neither
        if before["model"] != model:
            differ.insert(0, "model")
        if differ:
            raise InputError(
                f"{folder} holds samples made with another {', '.join(differ)}; use another "
                "--output"
            )
    if revision is not None:
        run["revision"] = revision
    write_text(path, json.dumps(run, indent=1) + "\n")


def read_run(folder: Path) -> dict[str, Any]:
    """What a folder's samples were made with."""
    path = folder / RUN
    try:
        run = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{folder} has no {RUN}; run the generate stage first") from None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    if not isinstance(run, dict) or "model" not in run or not isinstance(run.get("sampling"), dict):
        raise InputError(f"{path} needs model and sampling; use another --output")
    return run


def _fingerprint(folder: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(file for pattern in _WEIGHTS for file in folder.glob(pattern)):
        digest.update(f"{file.name}\0".encode())
        with file.open("rb") as data:
            digest.update(hashlib.file_digest(data, "sha256").digest())
    return digest.hexdigest()[:12]
