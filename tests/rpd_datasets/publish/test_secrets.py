"""What must not be published is found in every form that it takes in texts, programs and JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpd_datasets.publish import secrets
from rpd_datasets.publish.secrets import emails_in, look_through, secrets_in

MIXED, HEX = "aB3x9Kq2" * 12, "0a1b2c3d" * 8
PLANTED = {
    "Hugging Face Token": "hf_" + MIXED[:34],
    "API Key (sk-)": "sk-ant-api03-" + MIXED[:90],
    "GitHub Token": "ghp_" + MIXED[:36],
    "GitLab Token": "glpat-" + MIXED[:20],
    "AWS Access Key": "AKIA" + "ABCD2345" * 2,
    "Google API Key": "AIza" + MIXED[:35],
    "Slack Token": "xoxb-" + "123456789012-" * 2 + MIXED[:24],
    "Stripe Key": "sk_live_" + MIXED[:24],
    "npm Token": "npm_" + MIXED[:36],
    "PyPI Token": "pypi-AgEIcHlwaS5vcmc" + MIXED[:80],
    "W&B Key": "wandb login " + HEX[:40],
    "Databricks Token": "dapi" + HEX[:32],
    "Groq Key": "gsk_" + MIXED[:52],
    "Replicate Token": "r8_" + MIXED[:37],
    "xAI Key": "xai-" + MIXED[:80],
    "JSON Web Token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0." + MIXED[:43],
    "Private Key": f"-----BEGIN RSA PRIVATE KEY-----\n{MIXED}\n-----END RSA PRIVATE KEY-----",
    "Authorization Header": "Authorization: Bearer " + MIXED[:40],
    "Password in a URL": "postgres://ada:aB3x9Kq2@db.host.com:5432/x",
    "Password": 'db_password = "Tr0ub4dor&3"',
}


def forms(secret: str) -> list[str]:
    escaped = json.dumps(secret)[1:-1]
    return [
        secret,
        f"it is {secret} here",
        f'print("a\\n{escaped}\\tb")',
        f'\\"{escaped}\\"',
        json.dumps({"a": [1, secret]}),
        json.dumps(json.dumps({"a": ["x\n" + secret]})),
    ]


def test_each_kind_has_a_planted_secret() -> None:
    assert PLANTED.keys() == secrets.TOKENS.keys()


@pytest.mark.parametrize("kind", PLANTED)
def test_a_secret_is_found_plain_escaped_nested_and_in_json_without_being_shown(kind: str) -> None:
    for text in forms(PLANTED[kind]):
        found = dict(secrets_in(text))
        assert kind in found, text
        assert len(found[kind]) <= 7


@given(
    before=st.text(alphabet=" abc\"'=(:,", max_size=9),
    secret=st.from_regex(r"hf_[A-Za-z0-9]{30,36}", fullmatch=True),
)
def test_a_token_is_found_wherever_it_stands(before: str, secret: str) -> None:
    assert ("Hugging Face Token", secret[:6] + "…") in secrets_in(before + secret)


def test_the_extra_knows_kinds_that_the_table_does_not() -> None:
    (kind,) = [kind for kind, _ in secrets_in(f"SG.{MIXED[:22]}.{MIXED[:43]}")]
    assert "sendgrid" in kind


def test_rows_are_looked_through_however_deep_a_text_lies(tmp_path: Path) -> None:
    token = PLANTED["Groq Key"]
    rows = [
        {"solutions": ["fine"], "meta": {"note": "fine", "mixed": "3"}},
        {"solutions": ["fine", f"x = '{token}'"], "meta": {"note": "", "mixed": "[1]"}},
        {"solutions": [], "meta": {"note": "/home/ada/x", "mixed": json.dumps({"k": token})}},
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    found = look_through({"rows.parquet": tmp_path / "rows.parquet"})
    assert [(f.where, f.kind, f.refused) for f in found] == [
        ("column solutions, row 1", "Groq Key", True),
        ("column meta, row 2", "Groq Key", True),
        ("column meta, row 2", "home folder", False),
    ]
    allowed = look_through({"rows.parquet": tmp_path / "rows.parquet"}, allowed=["Groq Key"])
    assert [finding.kind for finding in allowed] == ["home folder"]


def test_a_path_of_this_machine_in_a_file_of_text_is_refused_wherever_the_home_lies() -> None:
    files: dict[str, Path | bytes] = {
        "README.md": b"made\nin /tmp/x of tokens",
        "manifest.json": b"see /srv/people/ada/x",
        "tokenizer.json": b"/tmp/x",
    }
    found = look_through(files, home=Path("/srv/people/ada"))
    assert [(f.file, f.where, f.refused) for f in found] == [
        ("README.md", "line 2", True),
        ("manifest.json", "line 1", True),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "a risk-assessment-of-the-something-long and a task-specific-tokenizer-for-everything",
        "mask-aaaaaaaaaaaaaaaaaaaaaaaaaaaa, sk-learn-is-a-library-for-machine-learning",
        "half_abcdefghijklmnopqrstuvwxyz1234567890",
        "$x@y = 3$, a@example.com, f@g",
        "0123456789abcdef" * 4,
        "https://example.org/home/ada/page and tgi:http://gpu-7:8080",
        "half of it: 1/2, and and/or, a set of 3/4 /tmperature, hf_transfer",
        'password = input("8 letters"), token = tokens[i], secret = get_secret("a1")',
        r"\nu = 3, \text{a bearer of good news}, \theta",
        "API_KEY=$KEY_1 and PASSWORD=<your password 1>",
    ],
)
def test_words_formulas_and_programs_are_no_secrets_and_no_paths(text: str) -> None:
    assert look_through({"a.md": text.encode()}) == []
    assert list(secrets_in(text)) == []
    assert emails_in(text) == []
