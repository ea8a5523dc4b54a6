"""Independent, slow answers: whole rows, no cache, nothing shared between rows, written from the definitions."""

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
