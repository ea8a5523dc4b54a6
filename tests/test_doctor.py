from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch

from lmaudit.doctor import Check, examine
from lmaudit.errors import InputError
from lmaudit.model.huggingface import LanguageModel
from lmaudit.testing.tiny import FAMILIES, tiny_model, tiny_tokenizer

pytestmark = pytest.mark.slow

LAST_CHEAP = "generation"  # what follows measures speed


def checks_of(model: LanguageModel, *, last: str = LAST_CHEAP) -> dict[str, Check]:
    found: dict[str, Check] = {}
    for check in examine(model, quick=True):
        found[check.name] = check
        if check.name == last:
            break
    return found


def bad_names(checks: dict[str, Check]) -> set[str]:
    return {name for name, check in checks.items() if check.status == "bad"}


def replace_forward(model: LanguageModel, change: Callable[..., Any]) -> None:
    """Let `change(forward, **inputs)` stand in for the forward pass; the signature stays visible."""
    forward = model.module.forward

    @functools.wraps(forward)
    def changed(*args: Any, **inputs: Any) -> Any:
        assert not args
        return change(forward, **inputs)

    model.module.forward = changed


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_no_sound_family_is_called_unfit(family: str) -> None:
    checks = checks_of(tiny_model(family))
    assert bad_names(checks) == set()
    assert checks["gradient"].status == "ok"


def test_a_whole_examination_measures_speed_and_memory_and_leaves_the_model_as_it_was() -> None:
    model = tiny_model("gpt2")
    before = (model.max_rows, model.shares_prefixes)
    checks = checks_of(model, last="")
    assert list(checks)[-3:] == ["rows at once", "speed", "memory"]
    assert checks["rows at once"].values["rows"] >= 32
    assert min(checks["speed"].values["forward_32"], checks["speed"].values["backward_32"]) > 0
    assert checks["memory"].values["peak_bytes"] > 1e8
    assert (model.max_rows, model.shares_prefixes) == before


def test_the_same_seed_says_the_same() -> None:
    model = tiny_model("llama")
    assert checks_of(model, last="gradient") == checks_of(model, last="gradient")


def test_every_note_and_every_fault_says_what_to_do() -> None:
    for family in ("gpt2", "llama", "mamba"):
        for check in checks_of(tiny_model(family)).values():
            assert (check.remedy is None) == (check.status == "ok")
            assert "\n" not in check.says


# ── vocabulary ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_broken_embedding_row_is_found() -> None:
    model = tiny_model("llama")
    broken = int(model.vocabulary.usable.nonzero()[7, 0])
    model.embeddings[broken, 3] = torch.nan
    check = checks_of(model, last="embedding values")["embedding values"]
    assert check.status == "bad"
    assert f"the first is row {broken}" in check.says


def test_surplus_embedding_rows_are_a_note() -> None:
    check = checks_of(tiny_model("gpt2", surplus_rows=56), last="embedding rows")["embedding rows"]
    assert (check.status, check.values["rows"], check.values["tokens"]) == ("note", 256, 200)
    assert "56 rows belong to no token" in check.says


def test_text_tokens_without_a_row_are_a_fault() -> None:
    small = tiny_model("gpt2", vocabulary_size=150)
    model = LanguageModel(small.module, tiny_tokenizer("bytes", size=200), name="mismatched")
    check = checks_of(model, last="embedding rows")["embedding rows"]
    assert check.status == "bad"
    assert "50 text tokens have no row" in check.says


def test_control_tokens_without_a_row_are_a_note() -> None:
    model = tiny_model("gpt2")
    model.vocabulary.tokenizer.add_special_tokens({"pad_token": "[PAD]"})
    check = checks_of(model, last="embedding rows")["embedding rows"]
    assert (check.status, check.values["tokens_without_row"]) == ("note", 1)


def test_nothing_further_is_measured_without_usable_tokens() -> None:
    model = tiny_model("gpt2")
    model.vocabulary.usable = torch.zeros(200, dtype=torch.bool)
    checks = list(examine(model, quick=True))
    assert (checks[-1].name, checks[-1].status) == ("usable tokens", "bad")


def test_a_tokenizer_that_samples_is_a_fault() -> None:
    model = tiny_model("gpt2")
    model.vocabulary.tokenizer.backend_tokenizer.model.dropout = 0.5
    check = checks_of(model, last="tokenizer")["tokenizer"]
    assert check.status == "bad"
    assert "dropout" in str(check.remedy)


def test_special_ids_that_differ_from_the_configuration_are_a_note() -> None:
    model = tiny_model("llama")
    model.module.config.bos_token_id = 17
    check = checks_of(model, last="special ids")["special ids"]
    assert check.status == "note"
    assert "bos 17" in check.says


def test_a_tokenizer_without_bos_is_a_note() -> None:
    assert checks_of(tiny_model("gpt2"), last="begin of text")["begin of text"].status == "note"
    check = checks_of(tiny_model("gemma"), last="begin of text")["begin of text"]
    assert (check.status, check.values) == ("ok", {"leading_ids": [2]})


def test_a_tokenizer_that_does_not_come_back_is_a_fault() -> None:
    model = tiny_model("gpt2")
    tokenizer = model.vocabulary.tokenizer
    strings = model.vocabulary.strings  # decoded while the decoder still works
    assert strings
    decode = tokenizer.decode
    tokenizer.decode = lambda ids, **settings: decode(ids, **settings).swapcase() + "!"
    check = checks_of(model, last="round trip")["round trip"]
    assert (check.status, check.values["plain_3"]) == ("bad", 0)


# ── chat template ─────────────────────────────────────────────────────────────────────────────────────────


def template_check(family: str, template: str) -> Check:
    model = tiny_model(family)
    model.vocabulary.tokenizer.chat_template = template
    return checks_of(model, last="chat template")["chat template"]


def test_a_second_bos_is_noticed_and_not_sent() -> None:
    check = checks_of(tiny_model("gemma"), last="chat template")["chat template"]
    assert (check.status, check.values["bos_sent"]) == ("note", 1)
    assert "lmaudit sends exactly one" in check.says


def test_a_template_that_trims_is_noticed() -> None:
    check = checks_of(tiny_model("gemma"), last="chat template")["chat template"]
    assert check.values["trims"] is True
    assert "--typable" in str(check.remedy)


SYSTEM = (
    "{% if messages[0].role != 'system' %}<|im_start|>system\nBe \x1b[31mgood[/red]<|im_end|>{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}<|im_start|>assistant\n"
)


def test_a_system_message_of_the_template_is_shown_without_its_control_characters() -> None:
    check = template_check("qwen2", SYSTEM)
    assert check.values["system_message"] == "Be \x1b[31mgood[/red]"
    assert "\\x1b[31mgood" in check.says
    assert "\x1b" not in check.says


def test_a_template_without_a_system_message_of_its_own_adds_none() -> None:
    assert checks_of(tiny_model("qwen2"), last="chat template")["chat template"].status == "ok"


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{{ raise_exception('no\nway') }}", "no"),
        ("hello", "shows it 0 times"),
        ("{% for m in messages %}{{ m.content }}{{ m.content }}{% endfor %}", "shows it 2 times"),
        ("{{ undefined_thing.attribute }}", "cannot be rendered"),
    ],
)
def test_a_template_that_cannot_be_used_is_a_note_and_the_plain_setting_is_examined(template: str, said: str) -> None:
    model = tiny_model("qwen2")
    model.vocabulary.tokenizer.chat_template = template
    checks = checks_of(model, last="context window")
    assert checks["chat template"].status == "note"
    assert said in checks["chat template"].says
    assert "chat_3" not in checks["round trip"].values
    assert bad_names(checks) == set()


def test_a_dated_template_is_noticed() -> None:
    template = "{{ strftime_now('%d') }}{% for m in messages %}{{ m.content }}{% endfor %}"
    assert template_check("qwen2", template).values["dated"] is True


# ── numbers ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_scaled_gradient_is_a_fault() -> None:
    model = tiny_model("llama")
    true = model.gradient
    model.gradient = lambda block, weights: 1.1 * true(block, weights)  # type: ignore[method-assign]  # the fault
    check = checks_of(model, last="gradient")["gradient"]
    assert check.status == "bad"
    assert check.values["error_middle"] == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize("factor", [0.0, torch.nan])
def test_a_gradient_that_says_nothing_is_a_fault(factor: float) -> None:
    model = tiny_model("llama")
    true = model.gradient
    model.gradient = lambda block, weights: factor * true(block, weights)  # type: ignore[method-assign]  # the fault
    check = checks_of(model, last="gradient")["gradient"]
    assert check.status == "bad"
    assert "--optimizer random" in str(check.remedy)


def test_a_gradient_that_fails_is_a_fault_with_its_reason() -> None:
    model = tiny_model("llama")

    def refuse(*_: object) -> torch.Tensor:
        raise NotImplementedError("no backward for int4\nweights")

    model.gradient = refuse  # type: ignore[method-assign]  # the fault
    check = checks_of(model, last="gradient")["gradient"]
    assert check.status == "bad"
    assert "NotImplementedError: no backward for int4 weights" in check.says


def test_an_error_of_lmaudit_keeps_its_words() -> None:
    model = tiny_model("llama")

    def refuse(*_: object) -> torch.Tensor:
        raise InputError("expected this, got that")

    model.gradient = refuse  # type: ignore[method-assign]  # the fault
    assert checks_of(model, last="gradient")["gradient"].says == "expected this, got that"


def forget_the_cache(forward: Callable[..., Any], **inputs: Any) -> Any:
    given = inputs.pop("cache", None) or inputs.pop("past_key_values", None)
    for name in ("past_key_values", "position_ids", "attention_mask"):  # they belong to what is forgotten
        inputs.pop(name, None)
    answer = forward(**{**inputs, "use_cache": False})
    answer.past_key_values = given
    return answer


@pytest.mark.parametrize(("shares", "faults"), [(True, {"shared prefixes", "generation"}), (False, {"generation"})])
def test_a_model_that_ignores_its_cache_is_a_fault_in_generation_whatever_the_search_does(
    shares: bool, faults: set[str]
) -> None:
    model = tiny_model("llama")
    model.shares_prefixes = shares
    replace_forward(model, forget_the_cache)
    checks = checks_of(model)
    assert bad_names(checks) - {"gradient"} == faults
    assert checks["shared prefixes"].status == ("bad" if shares else "note")


def test_rows_that_leak_into_each_other_are_a_fault() -> None:
    model = tiny_model("llama")

    def leak(forward: Callable[..., Any], **inputs: Any) -> Any:
        answer = forward(**inputs)
        answer.logits = answer.logits + 0.5 * answer.logits.mean(dim=0, keepdim=True)
        return answer

    replace_forward(model, leak)
    assert "batch" in bad_names(checks_of(model))


def test_logits_that_are_never_finite_are_a_fault() -> None:
    model = tiny_model("llama")
    model.module.lm_head.weight[5] = torch.inf
    check = checks_of(model, last="logits")["logits"]
    assert check.status == "bad"
    assert check.values["not_finite"] == check.values["positions"]


def test_logits_that_overflow_sometimes_are_a_note() -> None:
    model = tiny_model("llama")

    def overflow(forward: Callable[..., Any], **inputs: Any) -> Any:
        answer = forward(**inputs)
        answer.logits[0, 0] = torch.inf
        return answer

    replace_forward(model, overflow)
    assert checks_of(model, last="logits")["logits"].status == "note"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_noted_and_not_called_unfit(dtype: torch.dtype) -> None:
    checks = checks_of(tiny_model("llama", dtype=dtype))
    assert bad_names(checks) == set()
    assert (checks["precision"].status, checks["gradient"].status) == ("note", "note")
    assert "--dtype" in str(checks["gradient"].remedy)


def test_an_unknown_context_window_is_a_note() -> None:
    assert checks_of(tiny_model("mamba"), last="context window")["context window"].status == "note"


def test_a_context_window_too_small_for_the_template_leaves_the_plain_setting() -> None:
    model = tiny_model("qwen2")
    model.module.config.max_position_embeddings = 24
    checks = checks_of(model, last="context window")
    assert checks["context window"].status == "note"
    assert "chat_3" not in checks["round trip"].values


def test_a_context_window_too_small_for_anything_ends_the_examination() -> None:
    model = tiny_model("gpt2")
    model.module.config.n_positions = 8
    last = list(examine(model, quick=True))[-1]
    assert (last.name, last.status) == ("context window", "bad")


# ── memory ────────────────────────────────────────────────────────────────────────────────────────────────


def full_beyond(n_rows: int) -> Callable[..., Any]:
    def forward_or_refuse(forward: Callable[..., Any], **inputs: Any) -> Any:
        rows = inputs.get("input_ids", inputs.get("inputs_embeds"))
        if len(rows) > n_rows:
            raise torch.OutOfMemoryError("out of memory")
        return forward(**inputs)

    return forward_or_refuse


def test_the_rows_that_fit_are_found_and_the_limit_of_the_model_is_given_back() -> None:
    model = tiny_model("llama")
    before = model.max_rows
    replace_forward(model, full_beyond(16))
    check = checks_of(model, last="rows at once")["rows at once"]
    assert (check.status, check.values["rows"], check.values["ended_by"]) == ("note", 16, "memory")
    assert model.max_rows == before


def test_a_model_of_which_not_one_row_fits_is_unfit() -> None:
    model = tiny_model("llama")
    replace_forward(model, full_beyond(0))
    last = list(examine(model, quick=True))[-1]
    assert (last.name, last.status) == ("rows at once", "bad")
