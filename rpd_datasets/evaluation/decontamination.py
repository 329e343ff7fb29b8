"""The benchmarks that training problems must not be part of, by name or as files.

`--decontaminate aime24 math500 FILE ...` names them; `known` is every benchmark that `passk.py`
knows and that is found here: in the Hub's cache, or on the Hub. How texts are compared is
`filters/contamination.py`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from rpd_datasets.evaluation.benchmarks import BENCHMARKS, PROBLEM, load_problems
from rpd_datasets.filters.contamination import Contamination
from rpd_datasets.inputs.local_files import LocalRows
from rpd_datasets.inputs.raw_rows import Row
from rpd_metric.errors import InputError

KNOWN, NONE = "known", "none"


def load_contamination(
    names: Sequence[str], *, say: Callable[[str], None] = lambda _: None
) -> Contamination | None:
    """Load what training problems are compared with: benchmarks, files, `"known"`, or `"none"`.

    `say` is told which of the known benchmarks were not found. Raises [`InputError`] if one that
    was named cannot be read.
    """
    if NONE in names and len(names) > 1:
        raise InputError(f"decontaminate takes {NONE} alone, or names and files")
    named = [name for name in names if name not in (KNOWN, NONE)]
    missing, warning = [], ""
    with _hub_or_cache() if {KNOWN, *BENCHMARKS}.intersection(names) else nullcontext():
        texts = {Path(name).name if Path(name).exists() else name: _texts(name) for name in named}
        for name in BENCHMARKS if KNOWN in names else ():
            if BENCHMARKS[name].hub and name not in texts:
                try:
                    texts[name] = _texts(name)
                except InputError:
                    missing.append(name)
    if missing:
        advice = "cannot be had here: name files of their problems with --decontaminate"
        say(warning := f"not compared with {', '.join(missing)}, which {advice}")
    return Contamination(texts, warning) if texts or missing else None


@contextmanager
def _hub_or_cache() -> Iterator[None]:
    """If the Hub cannot be reached, look into its cache alone: any request is tried six times."""
    import datasets  # noqa: F401  it reads the setting once, when it is imported
    from huggingface_hub import HfApi, constants

    from rpd_metric.models.http_library import httpx

    offline = constants.HF_HUB_OFFLINE
    try:
        HfApi().dataset_info(BENCHMARKS["aime24"].hub or "", timeout=5)
    except (OSError, httpx.HTTPError) as error:  # the former: it refuses, or must not be asked
        constants.HF_HUB_OFFLINE |= not isinstance(error, OSError)
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = offline


def _texts(name: str) -> list[str]:
    path, columns = Path(name).expanduser(), (*PROBLEM, "input")
    if not path.exists():
        if name not in BENCHMARKS:
            raise InputError(
                f"{{decontaminate}} {name} is neither a file nor one of {', '.join(BENCHMARKS)}",
                option="decontaminate",
            )
        try:
            return [problem.text for problem in load_problems(name)]
        except InputError as error:
            reason = str(error).removesuffix(".")
            raise InputError(
                f"{{decontaminate}} {name} cannot be loaded: {reason}. Name a file of its problems "
                "instead",
                option="decontaminate",
            ) from error
    rows = [row.values for row in LocalRows(path, name=name, split="test") if isinstance(row, Row)]
    values = ([row.get(column) for column in columns] for row in rows)
    texts = [next((text for text in row if isinstance(text, str)), "") for row in values]
    if not any(texts):
        there = ", ".join(dict.fromkeys(column for row in rows for column in row))
        raise InputError(
            f"{path} has none of the columns {', '.join(columns)}; its columns are: {there}"
        )
    return [text for text in texts if text]
