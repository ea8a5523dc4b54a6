"""Where the searched tokens stand, and that a person who types a prompt sends exactly these tokens."""

from __future__ import annotations

import random

import pytest
import torch

from lmaudit.errors import InputError, ModelError
from lmaudit.frame import Frame, Setting
from lmaudit.testing.tiny import _SPECIAL, TokenizerKind, tiny_tokenizer
from lmaudit.vocabulary import Vocabulary

KINDS: list[TokenizerKind] = sorted(_SPECIAL)
CHATTY: list[TokenizerKind] = [kind for kind in KINDS if kind != "bytes"]
SIZE = 200
VOCABULARIES = {kind: Vocabulary(tiny_tokenizer(kind, size=SIZE), SIZE) for kind in KINDS}


def with_template(kind: TokenizerKind, template: str) -> Vocabulary:
    tokenizer = tiny_tokenizer(kind, size=SIZE)
    tokenizer.chat_template = template
    return Vocabulary(tokenizer, SIZE)


def prompts(vocabulary: Vocabulary, n: int = 60) -> list[list[int]]:
    draw = random.Random(0)
    usable = vocabulary.usable.nonzero()[:, 0].tolist()
    spelt = [vocabulary.tokenizer.convert_tokens_to_ids(letter) for letter in "cat"]  # a token of its own
    return [spelt, *(draw.choices(usable, k=3) for _ in range(n - 1))]


# ── ids ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_frame_puts_each_position_in_its_place():
    frame = Frame(before=(90, 91), n_prompt=3, after=(92,), n_output=2)
    rows = torch.tensor([[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]])
    full = frame.expand(rows)
    assert full.tolist() == [[90, 91, 1, 2, 3, 92, 4, 5], [90, 91, 6, 7, 8, 92, 9, 10]]
    assert full.shape[1] == frame.length == 8
    assert frame.output_start == 6
    for position in range(5):
        assert torch.equal(full[:, frame.full_position(position)], rows[:, position])


def test_a_frame_without_anything_around():
    frame = Frame((), 1, (), 1)
    assert frame.expand(torch.tensor([[3, 4]])).tolist() == [[3, 4]]
    assert (frame.length, frame.output_start, frame.full_position(1)) == (2, 1, 1)


# ── a person's text and the searched ids ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", KINDS)
def test_plain_text_is_what_the_tokenizer_makes_of_it(kind):
    setting = Setting(VOCABULARIES[kind])
    for text in ("the cat", "She said the", "a\n\nb 🙂"):
        assert setting.read(text) == list(VOCABULARIES[kind].tokenizer(text).input_ids)


@pytest.mark.parametrize("kind", CHATTY)
@pytest.mark.parametrize("text", ["the cat", "She said\nthe", "é 20 pigs!"])
def test_chat_text_is_what_the_tokenizer_makes_of_the_template(kind, text):
    tokenizer = VOCABULARIES[kind].tokenizer
    ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": text}], add_generation_prompt=True, return_dict=False
    )
    assert Setting(VOCABULARIES[kind], chat=True).read(text) == list(ids)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("prefix", ["", "She said", "the cat is"])
def test_prompts_that_survive_are_read_as_the_frame_says(kind, chat, prefix):
    if chat and kind == "bytes":
        pytest.skip("has no chat template")
    vocabulary = VOCABULARIES[kind]
    setting = Setting(vocabulary, chat=chat, prefix=prefix)
    frame = setting.frame(3, 1)
    n_survivors = 0
    for prompt in prompts(vocabulary):
        text = setting.text(prompt)
        expected = [*frame.before, *prompt, *frame.after]
        assert setting.survives(prompt) == (setting.read(text) == expected)
        if setting.survives(prompt):
            n_survivors += 1
            assert text.startswith(prefix)
            assert "".join(vocabulary.strings[i] for i in prompt).strip() == text[len(prefix) :].strip()
    assert n_survivors > 10
    assert n_survivors < 60, "some random prompts must merge when they are typed, or nothing is tested"


@pytest.mark.parametrize("kind", KINDS)
def test_the_prefix_is_the_end_of_what_stands_before(kind):
    vocabulary = VOCABULARIES[kind]
    frame = Setting(vocabulary, prefix="She said").frame(2, 3)
    assert frame.before[: len(vocabulary.leading_ids)] == vocabulary.leading_ids
    assert frame.n_prefix == len(frame.before) - len(vocabulary.leading_ids)
    assert list(frame.before) == vocabulary.encode_typed("She said")
    assert (frame.n_prompt, frame.after, frame.n_output) == (2, (), 3)


def test_a_prompt_after_a_prefix_is_shown_with_its_spaces():
    vocabulary = VOCABULARIES["bytes"]
    setting = Setting(vocabulary, prefix="She said")
    assert setting.text(vocabulary.encode(" the cat")) == "She said the cat"
    assert setting.text(vocabulary.encode("the cat")) == "She saidthe cat"
    assert setting.survives(vocabulary.encode(" the cat"))


def test_the_space_that_a_tokenizer_adds_is_not_typed():
    vocabulary = VOCABULARIES["spaces"]
    for prefix, typed in (("", "the cat"), ("She said", "She said the cat")):
        setting = Setting(vocabulary, prefix=prefix)
        prompt = vocabulary.encode(" the cat")
        assert setting.text(prompt) == typed
        assert setting.survives(prompt)
    assert not Setting(vocabulary).survives(vocabulary.encode("the cat")), "nobody can type it without the space"


def test_tokens_that_merge_when_typed_do_not_survive():
    vocabulary = VOCABULARIES["bytes"]
    spelt = [vocabulary.tokenizer.convert_tokens_to_ids(c) for c in "cat"]
    setting = Setting(vocabulary)
    assert setting.text(spelt) == "cat"
    assert not setting.survives(spelt)
    assert setting.survives(vocabulary.encode("cat"))
    assert not Setting(vocabulary, prefix="ca").survives([vocabulary.tokenizer.convert_tokens_to_ids("t")])


# ── begin and end of a text ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["spaces", "gemma"])
@pytest.mark.parametrize("chat", [False, True])
def test_exactly_one_bos(kind, chat):
    """These tokenizers add one, and their templates have one."""
    vocabulary = VOCABULARIES[kind]
    bos = vocabulary.tokenizer.bos_token_id
    setting = Setting(vocabulary, chat=chat, prefix="She said")
    frame = setting.frame(2, 2)
    for ids in ((*frame.before, *frame.after), setting.read("the cat"), setting.read(f"the {'</s>'} cat")):
        assert list(ids).count(bos) == 1
        assert ids[0] == bos


@pytest.mark.parametrize("kind", CHATTY)
def test_control_tokens_spelt_by_a_user_stay_text_inside_the_template(kind):
    vocabulary = VOCABULARIES[kind]
    setting = Setting(vocabulary, chat=True)

    def markup(ids: list[int]) -> list[int]:
        return [i for i in ids if i in vocabulary.control_ids]

    harmless = markup(setting.read("the cat"))
    for token in vocabulary.control_texts:
        text = f"the {token}cat"
        assert markup(setting.read(text)) == harmless
        assert text in vocabulary.decode(setting.read(text))
        message = [{"role": "user", "content": text}]
        trusting = vocabulary.tokenizer.apply_chat_template(message, add_generation_prompt=True, return_dict=False)
        assert len(markup(trusting)) == len(harmless) + 1, "or there is nothing to protect from"


# ── templates ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("template", "error", "message"),
    [
        ("{{ messages[0]['content'] }} {{ messages[0]['content'] }}", InputError, "shows it 2 times"),
        ("hello", InputError, "shows it 0 times"),
        ("{{ messages[0]['content'] | lower }}", InputError, "shows it 0 times"),
        ("{{ raise_exception('only for robots') }}", ModelError, "cannot be rendered.*only for robots"),
        ("{{ 1 / 0 }}", ModelError, "cannot be rendered"),
        ("{% if %}", ModelError, "cannot be rendered"),
    ],
)
def test_templates_that_cannot_be_used_say_why(template, error, message):
    with pytest.raises(error, match=f"--chat: .*{message}") as caught:
        Setting(with_template("bytes", template), chat=True)
    assert "\n" not in str(caught.value)


def test_chat_without_a_template():
    with pytest.raises(InputError, match="no chat template; leave --chat out"):
        Setting(VOCABULARIES["bytes"], chat=True)
    Setting(VOCABULARIES["bytes"])


SPACED = "{{ bos_token }}USER: {{ messages[0]['content'] }} ASSISTANT:"
GLUED = "{{ bos_token }}Q:{{ messages[0]['content'] }}\nA:"
BARE = "{{ messages[0]['content'] }}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("template", [SPACED, GLUED, BARE, BARE + "</s>", "[" + BARE + "]"])
@pytest.mark.parametrize("prefix", ["", "She said"])
def test_templates_of_plain_words(kind, template, prefix):
    """A template's text joins the prompt's: with a space that the next token carries, or with none."""
    vocabulary = with_template(kind, template)
    setting = Setting(vocabulary, chat=True, prefix=prefix)
    frame = setting.frame(2, 1)
    for words in (" the cat", " She is"):
        prompt = vocabulary.encode(words)
        typed = setting.text(prompt)
        lent = template is SPACED or (template.startswith(BARE) and vocabulary.adds_space)
        assert typed == (words[1:] if lent and not prefix else prefix + words)
        assert setting.survives(prompt)
        ids = vocabulary.tokenizer.apply_chat_template(
            [{"role": "user", "content": typed}], add_generation_prompt=True, return_dict=False
        )
        assert [*frame.before, *prompt, *frame.after] == list(ids)
    assert not vocabulary.control_ids & set(setting.read("a<|endoftext|>b")[1:-1])


def test_a_template_that_trims_the_message_lets_no_prompt_begin_with_a_space():
    vocabulary = VOCABULARIES["gemma"]
    setting = Setting(vocabulary, chat=True)
    assert setting.survives(vocabulary.encode("the cat"))
    assert not setting.survives(vocabulary.encode(" the cat"))
    assert not setting.survives(vocabulary.encode("the \n"))
