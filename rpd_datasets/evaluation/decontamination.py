"""The benchmarks that training problems must not stand in, by name or as files.

`--decontaminate aime24 math500 FILE ...` names them; `known` is every benchmark that `passk.py`
knows and that is found here: in the Hub's cache, or on the Hub. How texts are compared is
`filters/contamination.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rpd_datasets.evaluation.benchmarks import BENCHMARKS, load_problems
from rpd_datasets.filters.contamination import Contamination
from rpd_datasets.inputs.local_files import LocalRows
from rpd_datasets.inputs.raw_rows import Row
from rpd_metric.errors import InputError

KNOWN, NONE = "known", "none"
# As benchmark files call the column with the problem.
PROBLEM_COLUMNS = ("problem", "Problem", "question", "prompt", "input")


def load_contamination(
    names: Sequence[str], *, say: Callable[[str], None] = lambda _: None
) -> Contamination | None:
    """Load what training problems are compared with.

    Args:
        names (`Sequence[str]`): Names of benchmarks, files, `"known"`, or `"none"` alone.
        say (`Callable`): Told which of the known benchmarks were not found.

    Raises:
        [`InputError`]: A benchmark or file that was named cannot be read.
    """
    wanted = [name for name in names if name != NONE]
    if len(wanted) < len(names) and wanted:
        raise InputError(f"decontaminate takes {NONE} alone, or names and files")
    texts: dict[str, list[str]] = {}
    missing: list[str] = []
    for name in wanted:
        if name != KNOWN:
            texts[Path(name).name if Path(name).exists() else name] = _texts(name)
            continue
        for known, benchmark in BENCHMARKS.items():
            if benchmark.hub is None:
                continue  # only local files serve, and none was named
            try:
                texts[known] = _texts(known)
            except InputError:
                missing.append(known)
    if missing:
        say(
            f"not compared with {', '.join(missing)}, which cannot be had here: name files of "
            "their problems with --decontaminate"
        )
    return Contamination(texts) if texts else None


def _texts(name: str) -> list[str]:
    path = Path(name).expanduser()
    if path.exists():
        return _file_texts(path)
    if name not in BENCHMARKS:
        raise InputError(
            f"--decontaminate {name} is neither a file nor one of {', '.join(BENCHMARKS)}"
        )
    return [problem.text for problem in load_problems(name)[0]]


def _file_texts(path: Path) -> list[str]:
    texts = []
    there: dict[str, None] = {}
    for row in LocalRows(path, name=str(path), split="test"):
        if isinstance(row, Row):
            there.update(dict.fromkeys(row.values))
            values = (row.values.get(column) for column in PROBLEM_COLUMNS)
            text = next((value for value in values if isinstance(value, str)), None)
            if text is not None:
                texts.append(text)
    if not texts:
        raise InputError(
            f"{path} has none of the columns {', '.join(PROBLEM_COLUMNS)}; its columns are: "
            f"{', '.join(there) or 'none'}"
        )
    return texts
