"""What mkdocs fills in from the code, where a page has `<!-- tutorial -->` and the like."""

import configparser
import inspect
import json
import re
from pathlib import Path
from pkgutil import resolve_name

import griffe
from packaging.version import Version

import rpd_datasets
from rpd_datasets.cli import command_line
from rpd_metric.reasons import Reason

ROOT = Path(__file__).resolve().parents[1]
# Not in constraints.txt: vLLM needs a GPU or a build of its own (`make grpo-vllm`).
RUN = {"vllm": "0.30 (CPU)"}


def on_env(env, config, files):
    """Write each page as Markdown beside its HTML, and llms.txt, which lists them (llmstxt.org)."""
    site = Path(config.site_dir)
    site.mkdir(parents=True, exist_ok=True)
    pages = {file.src_uri: file.page for file in files.documentation_pages()}
    lines = [f"# {config.site_name}", "", f"> {config.site_description}"]
    for section in config.nav:
        ((title, entries),) = section.items()
        lines += ["", f"## {title}", ""]
        for entry in entries:
            ((name, path),) = entry.items()
            text = re.sub(r"(?m)^::: (\S+)$", _signature, pages[path].markdown)
            (site / path).write_text(text, encoding="utf-8")
            # The first sentence of the first paragraph: no title, table, picture, list or code.
            prose = re.sub(r"(?ms)^```.*?^```$", "", text).split("\n\n")
            first = next(one for one in prose if re.match(r"[A-Z`]", one.strip()))
            about = re.split(r"(?<=[.:?])\s", " ".join(first.split()))[0]
            lines.append(f"- [{name}]({path}): {about}")
    (site / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return env


def _signature(match):
    """A function or class of the API with its docstring, in the place of mkdocstrings' mark."""
    found = resolve_name(match[1])
    try:
        parameters = inspect.signature(found) if callable(found) else ""
    except ValueError:
        parameters = ""
    return f"## {match[1]}\n\n```py\n{match[1]}{parameters}\n```\n\n{inspect.getdoc(found) or ''}"


def on_page_markdown(markdown, config, **_):
    """Fill a page in, and point links that leave `docs` to the repository, where one is named."""
    recipes = (ROOT / "recipes/README.md").read_text(encoding="utf-8")
    rows = "\n".join(f"| `{one}` | {one.meaning} | {one.option} |" for one in Reason)
    made = {"tutorial": _tutorial(), "recipes": recipes, "commands": _commands(), "reasons": rows}
    made["versions"] = _versions()
    for name, text in made.items():
        markdown = markdown.replace(f"<!-- {name} -->", text)
    link = rf"[\1]({config.repo_url}/blob/main/\2)" if config.repo_url else r"\1"
    return re.sub(r"\[([^\]]+)\]\(\.\./([^)]+)\)", link, markdown.replace("](../docs/", "]("))


def _versions():
    """What moves fastest: the versions that setup.cfg allows, and the newest that was run."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    allowed = "\n".join(setup["options.extras_require"].values())
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    rows = []
    for name in ("vllm", "trl", "transformers", "inspect-ai", "verifiers"):
        lowest = max(re.findall(rf"^{name}>=([\d.]+)", allowed, re.M), key=Version)
        below = re.search(rf"^{name}>=[\d.]+,<([\d.]+)", allowed, re.M)
        run = re.search(rf"^{name}==(.+)", pins, re.M)
        run = run[1] if run else RUN.get(name, "–")
        rows.append(f"| {name} | {lowest} | {f'below {below[1]}' if below else '–'} | {run} |")
    return "\n".join(["| Package | Lowest | Highest | Run |", "|---|---|---|---|", *rows])


def _tutorial():
    text = ""
    for cell in json.loads((ROOT / "docs/tour.ipynb").read_text(encoding="utf-8"))["cells"]:
        form = "{}\n\n" if cell["cell_type"] == "markdown" else "```python\n{}\n```\n\n"
        text += form.format("".join(cell["source"]))
        for one in cell.get("outputs", ()):
            text += f"```text\n{''.join(one.get('text') or one['data']['text/plain'])}\n```\n\n"
    return text


def _commands():
    text = ""
    for name, parser in command_line().commands.items():
        text += f"\n## rpd {name}\n\n{parser.description}\n\n```text\n{parser.epilog}\n```\n"
        form = parser._get_formatter()
        for group in filter(lambda group: group._group_actions, parser._action_groups):
            text += f"\n| {group.title.capitalize()} | |\n|---|---|\n"
            for one in group._group_actions:
                text += f"| `{form._format_action_invocation(one)}` | {form._expand_help(one)} |\n"
    return text


class Docstrings(griffe.Extension):
    """Docstrings in Hugging Face's style as Markdown: options, examples, [`Name`] as code."""

    def on_instance(self, *, obj, **_):
        """Rewrite the docstring of one class or function."""
        if (text := obj.docstring and obj.docstring.value) is not None:
            if obj.name in ("CurationConfig", "FilterConfig"):  # made at run time
                text = inspect.getdoc(getattr(rpd_datasets, obj.name)).replace("Args:", "")
                text = re.sub(r"(?m)^ {4}(\w+): ", r"- `\1`: ", text)
            text = re.sub(r"\[`~?([\w.]+)`\]", r"`\1`", text)
            obj.docstring.value = re.sub(r"(?m)^(>>> .*(?:\n.+)*)", r"```pycon\n\1\n```", text)
