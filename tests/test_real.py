"""The main job on the embedded model."""

import pytest

from lmaudit import Arca, Limits, RandomSearch, reverse

pytestmark = pytest.mark.real


def test_reverses_the_embedded_model_to_an_easy_target(real_model):
    findings = reverse(
        real_model, " United States", optimizer=Arca(n_sweeps=4, n_candidates=16, n_gradients=8), seeds=4
    )
    found = [f for f in findings if f.solved]
    assert found
    for f in found:
        assert f.ids
        assert f.regenerated or not f.text
        assert f.margin > 0
        assert f.output == " United States"


def test_searches_decide_alone_what_they_decide_together(real_model):
    targets = (" morning", " Ed Markey")
    optimizers = [Arca(n_sweeps=1, n_candidates=8, n_gradients=8), RandomSearch(n_sweeps=1, n_candidates=8)]
    settings = {"optimizer": optimizers, "seeds": 2}
    together = reverse(real_model, targets, **settings)
    alone = reverse(real_model, targets, limits=Limits(n_live=1), **settings)
    assert [f.prompt_ids for f in together] == [f.prompt_ids for f in alone]
    assert [f.tokens_forward for f in together] == [f.tokens_forward for f in alone]


def test_chat_prefix_and_naturalness_on_the_embedded_model(real_model):
    settings = {"chat": True, "prefix": "She said", "lam_perp": 0.2, "typable": True, "only": ("lowercase",)}
    (end,) = reverse(real_model, "Yes", optimizer=Arca(n_sweeps=1, n_candidates=8, n_gradients=4), **settings)
    assert end.text
    assert end.prompt.startswith("She said")
    assert end.prompt[len("She said") :] == end.prompt[len("She said") :].lower()
    assert set(end.terms) == {"likelihood", "naturalness"}
