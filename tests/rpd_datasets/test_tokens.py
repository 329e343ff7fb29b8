"""Counting tokens, really or by estimate."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX

from rpd_datasets import tokens
from rpd_datasets.tokens import TokenCounter, estimate_tokens, text_tail, token_counter

QWEN_PIECES = pre_tokenizers.Split(Regex(PRETOKENIZE_REGEX), behavior="isolated")


@pytest.fixture
def words(tmp_path):
    """A real tokenizer on disk: one token per word or sign."""
    vocabulary = {"[UNK]": 0, "a": 1, "b": 2}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="a")
    fast.save_pretrained(tmp_path / "words")
    return tmp_path / "words"


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        # Texts and Qwen2 token counts are those of the tests of transformers (Apache-2.0).
        (
            "Transformers (formerly known as pytorch-transformers and pytorch-pretrained-bert) "
            "provides general-purpose architectures (BERT, GPT-2, RoBERTa, XLM, DistilBert, "
            "XLNet...) for Natural Language Understanding (NLU) and Natural Language Generation "
            "(NLG) with over 32+ pretrained models in 100+ languages and deep interoperability "
            "between Jax, PyTorch and TensorFlow.",
            90,
        ),
        (
            "🤗 Transformers 提供了可以轻松地下载并且训练先进的预训练模型的 API 和工具。"
            "使用预训练模型可以减少计算消耗和碳排放，并且节省从头训练所需要的时间和资源。",
            42,
        ),
        (
            '```python\ntokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen-tokenizer")\n'
            'tokenizer("世界，你好！")```',
            26,
        ),
    ],
    ids=["names", "chinese", "code"],
)
def test_the_estimate_is_within_a_fifth_of_known_counts(text, tokens):
    assert abs(estimate_tokens(text) - tokens) <= 0.2 * tokens


@given(text=st.text(alphabet=st.characters(max_codepoint=126)))
def test_on_ascii_text_the_estimate_is_never_below_the_pieces(text):
    # Control characters that Python counts as blank and the rule does not are left out.
    text = text.translate({code: None for code in range(32) if chr(code) not in "\t\n\r"})

    assert estimate_tokens(text) >= len(QWEN_PIECES.pre_tokenize_str(text))


@given(text=st.text(alphabet=st.characters(max_codepoint=127)))
def test_the_patterns_for_ascii_find_what_those_for_any_text_find(text):
    for ascii_text, any_text in zip(tokens.ASCII_TEXT, tokens.ANY_TEXT, strict=True):
        assert ascii_text.findall(text) == any_text.findall(text)


def test_a_real_tokenizer_counts_without_the_tokens_around_a_text(words):
    counter = token_counter(str(words))

    assert (counter.name, counter.estimated) == (str(words), False)
    assert counter("a b c!") == 4
    assert counter("") == 0


def test_the_tail_of_a_text_holds_about_as_many_tokens_as_asked(words):
    text = "The sum of two odd numbers is even, so $2n + 2$ is even. " * 200
    for counter in (token_counter("estimate"), token_counter(str(words))):
        tail = text_tail(text, 100, counter)

        assert text.endswith(tail)
        assert 90 <= counter(tail) <= 110


def test_a_short_text_is_its_own_tail_and_is_not_counted_again():
    counted: list[str] = []
    counter = TokenCounter("counting", True, lambda text: counted.append(text) or 4)
    assert text_tail("So it is 4.", 500, counter) == "So it is 4."
    assert text_tail("So it is 4.", 500, counter, counted=4) == "So it is 4."
    assert counted == ["So it is 4."]
