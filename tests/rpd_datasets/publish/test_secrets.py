"""What must not be published is found in every form that it takes in texts, programs and JSON."""

import base64
import json
from pathlib import Path
from urllib.parse import quote

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
    "AWS Secret Key": "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG+bPxRfiCYzzzzzzKEYa",
    "Azure Storage Key": "AccountName=a;AccountKey=" + MIXED[:86] + "==",
    "Azure Signature": "https://a.blob.core.windows.net/b?sv=2024&sig=" + MIXED[:43] + "=",
    "Webhook": "whsec_" + MIXED[:32],
    "Telegram Token": "123456789:AA" + MIXED[:33],
    "Discord Token": "MTk4" + MIXED[:22] + ".Gx1y2z." + MIXED[:38],
    "Mailgun Key": "key-" + HEX[:32],
    "Notion Token": "ntn_" + MIXED[:46],
    "Tavily Key": "tvly-dev-" + MIXED[:32],
    "Kaggle Key": '{"username":"ada","key":"' + HEX[:32] + '"}',
    "Docker Login": '{"auths": {"docker.io": {"auth": "YWRhOmh1bnRlcjI="}}}',
    "Login of npm": "//registry.host.com/:_authToken=" + MIXED[:36],
    "Login of netrc": "machine api.host.com login ada password hunter2",
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
    "Service Token": "nvapi-" + MIXED[:64],
    "JSON Web Token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0." + MIXED[:43],
    "Private Key": f"-----BEGIN RSA PRIVATE KEY-----\n{MIXED}\n-----END RSA PRIVATE KEY-----",
    "Authorization Header": "Authorization: Bearer " + MIXED[:40],
    "Password in a URL": "postgres://ada:aB3x9Kq2@db.host.com:5432/x",
    "Password": 'db_password = "Tr0ub4dor&3"',
}


OTHERS = {
    "Google API Key": "ya29.a0" + MIXED[:80],
    "Webhook": "https://discord.com/api/webhooks/123456789012345678/" + MIXED[:68],
    "Mailgun Key": HEX[:32] + "-0a1b2c3d-4e5f6a7b",
    "Kaggle Key": "KGAT_" + HEX[:32],
    "Private Key": "AGE-SECRET-KEY-1" + "QPZRY9X8" * 7 + "GF",
    "Private Key ": "PuTTY-User-Key-File-3: ssh-ed25519",
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
        rf"\texttt{{{secret.replace('_', chr(92) + '_')}}}",
        secret.replace("_", r"{\_}"),
        "\u200b".join(secret),
        "https://host.com/?q=" + quote(secret, safe=""),
        "https://host.com/?q=" + quote(quote(secret, safe="")),
        "x: " + base64.b64encode(secret.encode()).decode(),
        "x/" + base64.urlsafe_b64encode(b"user:" + secret.encode()).decode(),
        base64.b64encode(quote(secret, safe="").encode()).decode(),
        base64.encodebytes(f"user:{secret}\n".encode() * 3).decode(),
    ]


def wrapped(token: str) -> list[str]:
    middle = len(token) // 2
    halves = token[:middle], token[middle:]
    return [
        f"The key is\n{token[:20]}\n{token[20:]}\nand it works.",
        *(end.join(halves) for end in ("\n", "\r\n", "\n> ", "  \n    ", r"\n")),
        json.dumps({"a": "\n".join(halves)}),
    ]


def test_each_kind_has_a_planted_secret() -> None:
    assert PLANTED.keys() == secrets.TOKENS.keys()


@pytest.mark.parametrize("kind", PLANTED)
def test_a_secret_is_found_plain_escaped_nested_and_in_json_without_being_shown(kind: str) -> None:
    for text in forms(PLANTED[kind]):
        found = dict(secrets_in(text))
        assert kind in found, text
        assert len(found[kind]) <= 7


@pytest.mark.parametrize(("kind", "secret"), OTHERS.items())
def test_what_else_services_give_out_is_found(kind: str, secret: str) -> None:
    for text in forms(secret):
        assert kind.strip() in dict(secrets_in(text)), text


@pytest.mark.parametrize("kind", [kind for kind in PLANTED if not set(PLANTED[kind]) & set(' "')])
def test_a_secret_that_is_wrapped_over_lines_is_found(kind: str) -> None:
    for text in wrapped(PLANTED[kind]):
        assert kind in dict(secrets_in(text)), text


def test_a_wrapped_secret_in_a_file_of_text_is_refused() -> None:
    first, *others = wrapped(PLANTED["Groq Key"])
    for text in (first, others[0]):
        (finding,) = look_through({"README.md": f"fine\n{text}\nfine\n".encode()})
        assert (finding.kind, finding.refused) == ("Groq Key", True)


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
        '{"auth": "administrator", "key": "value"}, :_authToken=${NPM_TOKEN}',
        "machine learning with a login and a password, 0123456789:AA, 50%20 of $a\\_{12345678}$",
    ],
)
def test_words_formulas_and_programs_are_no_secrets_and_no_paths(text: str) -> None:
    assert look_through({"a.md": text.encode()}) == []
    assert list(secrets_in(text)) == []
    assert emails_in(text) == []
