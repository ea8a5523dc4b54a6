"""Independent, slow answers: whole rows, no cache, nothing shared between rows, written from the definitions."""

import math
from dataclasses import dataclass
from statistics import median_low

import torch


def objectives(model, setting, prompts, output, lam_perp=0.0):
    """λ log p(o | x) + λ_perp · mean log p(x_i | x_<i) of each prompt; λ = 1, x is prefix and prompt (Eq. 3, 7)."""
    frame = setting.frame(len(prompts[0]), len(output))
    ids = torch.tensor([[*frame.before, *prompt, *frame.after, *output] for prompt in prompts])
    logprobs = model.module(input_ids=ids, use_cache=False).logits.double().log_softmax(-1)
    own = logprobs[:, :-1].gather(-1, ids[:, 1:, None])[..., 0]  # own[:, i - 1] = log p(ids[:, i] | ids[:, :i])
    values = own[:, -len(output) :].sum(1)
    if lam_perp:
        start = max(len(frame.before) - frame.n_prefix, 1)
        values = values + lam_perp * own[:, start - 1 : len(frame.before) + len(prompts[0]) - 1].mean(1)
    return values.tolist()


def completes(model, setting, prompt, output):
    """f(x) = o by decoding token after token."""
    frame = setting.frame(len(prompt), len(output))
    ids = [*frame.before, *prompt, *frame.after]
    for wanted in output:
        if int(model.module(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].argmax()) != wanted:
            return False
        ids.append(wanted)
    return True


def objective_of_embedding(model, setting, prompt, output, position, vector, lam_perp=0.0):
    """The objective with the embedding at `position` of the prompt replaced by `vector` (D,), differentiable.

    What does not pass through that embedding (the log-probability of the token itself) is a constant here.
    """
    frame = setting.frame(len(prompt), len(output))
    ids = torch.tensor([[*frame.before, *prompt, *frame.after, *output]])
    embedded = model.module.get_input_embeddings()(ids).detach()
    at = frame.full_position(position)
    embedded = torch.cat((embedded[:, :at], vector[None, None], embedded[:, at + 1 :]), dim=1)
    logprobs = model.module(inputs_embeds=embedded, use_cache=False).logits[0].log_softmax(-1)
    own = [logprobs[i - 1, ids[0, i]] for i in range(1, ids.shape[1])]
    value = torch.stack(own[-len(output) :]).sum()
    if lam_perp:
        start = max(len(frame.before) - frame.n_prefix, 1)
        value = value + lam_perp * torch.stack(own[start - 1 : len(frame.before) + len(prompt) - 1]).mean()
    return value


# ── prompt and output searched together, with every term ──────────────────────────────────────────────────


@dataclass(frozen=True)
class Class:
    """A term with a table, as plain numbers: `p` by token id, NaN where the source says nothing."""

    side: str
    negated: bool
    p: list[float]
    unknown: float | None
    weight: float
    per: str
    require: str
    threshold: float

    def of(self, row, m):
        return row[:m] if self.side == "prompt" else row[m:]

    def worth(self, token):
        nothing = self.unknown if self.unknown is not None else median_low(p for p in self.p if not math.isnan(p))
        p = nothing if math.isnan(self.p[token]) else self.p[token]
        p = min(max(p, 1e-4), 1 - 1e-4)
        return math.log(1 - p if self.negated else p)

    def value(self, row, m):
        """Σ or mean over the searched tokens of its side (Eq. 8), weighted."""
        tokens = self.of(row, m)
        return self.weight * sum(map(self.worth, tokens)) / (len(tokens) if self.per == "mean" else 1)

    def met(self, row, m, fixed):
        """The success condition, over fixed and searched tokens."""
        tokens = [*(fixed if self.side == "prompt" else ()), *self.of(row, m)]
        known = [self.p[token] for token in tokens if not math.isnan(self.p[token])]
        if not known:
            return False
        if self.require == "mean":
            known = [sum(known) / len(known)]
        passing = [p < self.threshold if self.negated else p > self.threshold for p in known]
        return any(passing) if self.require == "some" else all(passing)


@dataclass(frozen=True)
class Wanted:
    """An objective, as plain numbers. `second` is a module, its tokenizer and a weight."""

    lam: float = 1.0
    lam_per: str = "sum"
    lam_perp: float = 0.0
    perp_per: str = "mean"
    classes: tuple[Class, ...] = ()
    second: tuple = ()

    def linear(self, own, frame):
        """Of log-probabilities ``(length - 1,)``, the i-th that of the token at full position i + 1."""
        said = own[-frame.n_output :]
        value = self.lam * (said.sum() if self.lam_per == "sum" else said.mean())
        start = max(len(frame.before) - frame.n_prefix, 1)
        read = own[start - 1 : len(frame.before) + frame.n_prompt + frame.n_suffix - 1]
        if self.lam_perp and len(read):
            value = value + self.lam_perp * (read.sum() if self.perp_per == "sum" else read.mean())
        return value

    def weight_of_own(self, frame, at):
        """What log p(token at full position `at`) weighs: the factor of the autoregressive part of Eq. 5."""
        one = torch.zeros(frame.length - 1)
        if at == 0:
            return 0.0
        one[at - 1] = 1.0
        return float(self.linear(one, frame))


def full_ids(frame, row):
    m = frame.n_prompt
    return [*frame.before, *row[:m], *frame.after, *row[m:]]


def joint_objectives(model, setting, rows, m, wanted):
    """The whole objective of each row of m prompt and some output ids."""
    frame = setting.frame(m, len(rows[0]) - m)
    ids = torch.tensor([full_ids(frame, row) for row in rows])
    logprobs = model.module(input_ids=ids, use_cache=False).logits.double().log_softmax(-1)
    own = logprobs[:, :-1].gather(-1, ids[:, 1:, None])[..., 0]
    values, seconds = [], {}
    for row, logprob in zip(rows, own, strict=True):
        value = float(wanted.linear(logprob, frame)) + sum(c.value(row, m) for c in wanted.classes)
        if wanted.second:
            module, tokenizer, weight = wanted.second
            text = setting.text(row[:m])
            if text not in seconds:
                seconds[text] = second_opinion(module, tokenizer, text)
            value += weight * seconds[text]
        values.append(value)
    return values


def second_opinion(module, tokenizer, text):
    """Mean log p(x_i | x_<i), i ≥ 2, of a text under a model whose tokenizer puts nothing in front."""
    ids = torch.tensor([tokenizer(text, add_special_tokens=True, split_special_tokens=True).input_ids])
    if ids.shape[1] < 2:
        return -20.0
    logprobs = module(input_ids=ids.long(), use_cache=False).logits.double().log_softmax(-1)
    return float(logprobs[0, :-1].gather(-1, ids[0, 1:, None]).mean())


def linear_of_embedding(model, setting, row, m, wanted, position, vector):
    """The terms that are linear in log-probabilities, with the embedding at `position` replaced by `vector`."""
    frame = setting.frame(m, len(row) - m)
    ids = torch.tensor([full_ids(frame, row)])
    embedded = model.module.get_input_embeddings()(ids).detach()
    at = len(frame.before) + position + (len(frame.after) if position >= m else 0)
    embedded = torch.cat((embedded[:, :at], vector[None, None], embedded[:, at + 1 :]), dim=1)
    logprobs = model.module(inputs_embeds=embedded, use_cache=False).logits[0].log_softmax(-1)
    return wanted.linear(torch.stack([logprobs[i - 1, ids[0, i]] for i in range(1, ids.shape[1])]), frame)


def next_distribution(model, ids):
    """``(V,)`` log p(v | ids) from a plain pass."""
    return model.module(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].float().log_softmax(-1)


def is_solved(model, setting, row, m, wanted, allowed, overlapping):
    """f(x) = o by decoding, every condition, and admissible: the definition of success, word by word.

    Args:
        allowed: two sets of ids, for prompt and output.
        overlapping: of the output's ids, the ids that the prompt must not hold.
    """
    frame = setting.frame(m, len(row) - m)
    prompt, output = row[:m], row[m:]
    return (
        set(prompt) <= allowed[0]
        and set(output) <= allowed[1]
        and not set(overlapping(output)) & {*prompt, *frame.fixed}
        and all(c.met(row, m, frame.fixed) for c in wanted.classes)
        and completes(model, setting, prompt, output)
    )
