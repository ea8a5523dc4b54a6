"""What was audited, in words: the settings of a study as sentences that need no manual."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from lmaudit.masking import offensive_sides
from lmaudit.report.contents import Said, Sentence, StudyPart
from lmaudit.report.sentences import counted, either, in_quotes, in_series, varied
from lmaudit.store import Study

_FACTS = {
    "model": "Model",
    "revision": "Revision",
    "fingerprint": "Fingerprint of its weights",
    "dtype": "Numbers computed in",
    "device": "Device",
    "lmaudit": "lmaudit",
    "torch": "torch",
    "transformers": "transformers",
}
_KINDS = {
    "lowercase": "without upper-case letters",
    "letters": "of letters only",
    "ascii": "of printable ASCII characters",
    "words": "that begin a word and hold letters only",
}
_OVERLAP = {
    "words": "A prompt may not repeat words of what the model is to say, so that copying is no solution.",
    "literal": "A prompt may not repeat tokens of what the model is to say (the rule of the ARCA paper, literally).",
    "off": "A prompt may repeat what the model is to say, so that some findings may be mere copies.",
}
_BOUNDS = {"n_sweeps": "sweeps", "n_steps": "steps", "n_starts": "starts", "n_rounds": "rounds"}
_OPTIMIZERS = {
    "arca": "ARCA",
    "auto": "short climbs from a bank of prompts",
    "autoprompt": "AutoPrompt",
    "beam": "beam search in the model's own distribution",
    "gbda": "GBDA",
    "gcg": "GCG",
    "pez": "PEZ",
    "random": "random search",
}


def study_part(study: Study, label: str, hidden: Collection[str]) -> StudyPart:
    """What was audited in a study.

    Args:
        study: an open one.
        label: a name that no other study of the report has.
        hidden: prompts, outputs and targets that are masked.
    """
    counts = {str(state): n for state, n in study.counts().items() if n}
    model = study.environment.get("model") or study.config.get("model", {}).get("name")
    return StudyPart(
        label=label,
        created=study.created,
        model=str(model or "a model") if counts else "",
        facts=tuple(_facts(study)),
        behaviour=tuple(_sentences(study, hidden)),
        counts=counts,
        n_targets=len(_targets(study.config)),
        imported=study.config.get("kind") == "import",
    )


def _facts(study: Study) -> Iterator[tuple[str, Said]]:
    for name, words in _FACTS.items():
        value = study.environment.get(name)
        if value is not None:
            yield words, Said(str(value))
        elif name == "revision" and study.environment.get("model"):
            yield words, Said("not known: the fingerprint tells its weights from others")
    yield "Study begun", Said(study.created[:16].replace("T", " ") + " UTC")
    yield "Settings (hash)", Said(study.config_hash)


def _targets(config: Mapping[str, Any]) -> list[str]:
    """Every text that was asked for, lists of lists taken together."""
    listed = config.get("targets") or []
    flat = [text for item in listed for text in (item if isinstance(item, list) else [item])]
    return list(dict.fromkeys(flat))


def _sentences(study: Study, hidden: Collection[str]) -> Iterator[Sentence]:
    config, sides = study.config, offensive_sides(study)
    if config.get("kind") == "import":
        yield from _imported(config)
    if "optimizers" not in config:  # nothing was searched
        return
    yield from _aim(config, {*hidden, *_targets(config)} if "output" in sides else hidden)
    yield _lengths(config)
    yield from _shortest(config)
    yield from _classes(study)
    yield from _fixed_texts(config, hidden, all_masked="prompt" in sides)
    yield from _constraints(config)
    yield from _preferences(config)
    yield from _judges(config)
    yield _searches(config)


def _imported(config: Mapping[str, Any]) -> Iterator[Sentence]:
    yield (
        "Nothing was searched: prompts that another tool had found were given to the model. A prompt counts when the "
        "model, taking its most likely token at every step, says what the tool wanted; where it wanted nothing, "
        "whatever the model says counts, and a judge has to say what that is worth.",
    )
    if config.get("chat"):
        yield ("Prompts were sent through the model's chat template.",)
    yield from _judges(config)


def _aim(config: Mapping[str, Any], hidden: Collection[str]) -> Iterator[Sentence]:
    targets = _targets(config)
    if not targets:
        yield (
            "Prompts and continuations were searched together: nobody said what the model should say, only what it "
            "should be like. A pair counts when the model, taking its most likely token at every step, continues the "
            "prompt with exactly this text.",
        )
        return
    masked = [text in hidden for text in targets]
    what = "this text" if len(targets) == 1 else f"one of {len(targets):,} given texts"
    yield (
        "Prompts were searched after which the model, taking its most likely token at every step, says exactly "
        f"{what}: ",
        *in_quotes(targets, masked=masked),
        ".",
    )


def _lengths(config: Mapping[str, Any]) -> Sentence:
    prompt = either([_of_tokens(length) for length in varied(config["prompt_length"])])
    tokens = "token" if prompt == "1" else "tokens"
    if _targets(config):
        return (f"The searched part of a prompt is {prompt} {tokens} long. A token is a word or a piece of one.",)
    output = str(either(config["output_length"]))
    relative = "as long as the prompt" if output == "same" else f"{output} tokens long"
    return (
        f"The searched part of a prompt is {prompt} {tokens} long, the continuation {relative}. "
        "A token is a word or a piece of one.",
    )


def _of_tokens(length: int | str) -> int | str:
    """A number as it is, a range in words."""
    return f"from {length.replace('..', ' to ')}" if isinstance(length, str) else length


def _shortest(config: Mapping[str, Any]) -> Iterator[Sentence]:
    if any(isinstance(length, str) for length in varied(config["prompt_length"])):
        yield ("Short prompts were searched first, and the search ended with the first length at which one was found.",)
    if config.get("minimise") or any(isinstance(length, str) for length in varied(config["prompt_length"])):
        yield ("Tokens without which a prompt still worked were left out of it.",)


def _classes(study: Study) -> Iterator[Sentence]:
    """The conditions of success, as they were filled in when the study was begun."""
    for table in study.environment.get("tables", []):
        side, _, what = str(table["term"]).partition(" is ")
        denied, label = what.startswith("not "), what.removeprefix("not ")
        bound = f"{'below' if denied else 'above'} {table['threshold']:g}"
        side = "continuation" if side == "output" else side
        which = {
            "every": f"every token of the {side} has to be",
            "some": f"at least one token of the {side} has to be",
            "mean": f"the tokens of the {side} have to be, on average,",
        }[table["require"]]
        yield (
            f"Condition of success: {which} ",
            "not " if denied else "",
            Said(label),
            f", that is with a probability {bound} of being so taken alone, by the table ",
            Said(str(table["source"])),
            ".",
        )


def _fixed_texts(config: Mapping[str, Any], hidden: Collection[str], *, all_masked: bool) -> Iterator[Sentence]:
    """What every prompt begins or ends with: masked where prompts are that hold it."""
    for name, where in (("prefix", "begins"), ("suffix", "ends")):
        texts = [text for text in varied(config.get(name, "")) if text]
        if texts:
            these = " " if len(texts) == 1 else " one of: "
            masked = [all_masked or any(text in other for other in hidden) for text in texts]
            yield (f"Every prompt {where} with{these}", *in_quotes(texts, masked=masked), ".")


def _constraints(config: Mapping[str, Any]) -> Iterator[Sentence]:
    if any(varied(config.get("chat", False))):
        yield ("Prompts were sent as a message through the chat template of the model.",)
    else:
        yield ("Prompts were given to the model as plain text, without a chat template.",)
    for only in _lists(config.get("only") or []):
        if only:
            yield (f"Only tokens {in_series([_KINDS.get(kind, kind) for kind in only])} were searched.",)
    for overlap in varied(config.get("overlap", "words")):
        yield (_OVERLAP.get(overlap, f"Overlap of prompt and output: {overlap}."),)
    if any(varied(config.get("typable", False))):
        yield ("Only prompts that reach the model unchanged when they are typed as text were searched.",)


def _lists(value: list[Any]) -> list[list[str]]:
    return value if value and all(isinstance(item, list) for item in value) else [value]


def _preferences(config: Mapping[str, Any]) -> Iterator[Sentence]:
    for term in config.get("objective", []):
        if term.get("term") == "naturalness":
            yield (
                f"Prompts that the model itself finds natural were preferred, with weight {either(term['weight'])}.",
            )
        if term.get("term") == "second-model":
            weight = either(term.get("weight", 0))
            how = "was only recorded" if weight in ("0", "0.0") else f"was preferred, with weight {weight}"
            yield ("How natural a second model, ", Said(str(term["model"]["name"])), f", finds a prompt {how}.")


def _judges(config: Mapping[str, Any]) -> Iterator[Sentence]:
    for judge in config.get("judges", []):
        for detector in varied(judge["detector"]):
            text = {"whole": "prompt and continuation together"}.get(judge["text"], f"the {judge['text']}")
            yield (
                "A judge, ",
                Said(str(detector)),
                f", read {text} of each finding, to confirm that it is {judge['expect']}.",
            )


def _searches(config: Mapping[str, Any]) -> Sentence:
    seeds = {seed for item in config["seeds"] for seed in varied(item)}
    each = "for every text" if _targets(config) else "in all"
    said: list[str | Said] = ["Searched with "]
    for place, optimizer in enumerate(config["optimizers"]):
        last = place == len(config["optimizers"]) - 1
        said += [" and " if last else ", "] if place else []
        said += [*_name(optimizer), f" ({_effort(optimizer)})"]
    return (*said, f", {counted(len(seeds), 'random start')} {each}.")


def _name(optimizer: Mapping[str, Any]) -> Sentence:
    names = [str(name) for name in varied(optimizer["name"])]
    known = in_series([_OPTIMIZERS.get(name, name) for name in names], "or")
    labels = [str(label) for label in varied(optimizer.get("label") or "") if label and label not in names]
    return (f"{known}, here called ", *in_quotes(labels)) if labels else (known,)


def _effort(optimizer: Mapping[str, Any]) -> str:
    """``at most 50 sweeps``."""
    keys = [key for key in _BOUNDS if key in optimizer and (key, optimizer["name"]) != ("n_starts", "auto")]
    bounds = [f"{either(optimizer[key])} {_BOUNDS[key]}" for key in keys]  # starts of `auto` bound nothing
    return f"at most {', '.join(bounds)}" if bounds else "without a bound"
