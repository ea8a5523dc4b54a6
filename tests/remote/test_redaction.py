"""A key that comes back is found in every spelling that it may come back in."""

from __future__ import annotations

import html
import json
import string
import time
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from lmaudit.remote.redaction import PLACEHOLDER, SHORTEST, Redaction

KEYS = st.text(string.ascii_letters + string.digits + "-_./+=:~", min_size=SHORTEST, max_size=40)
SPELLINGS = {
    "plain": lambda key: key,
    "lower": str.lower,
    "upper": str.upper,
    "json": lambda key: json.dumps(key)[1:-1],
    "json twice": lambda key: json.dumps(json.dumps(key)[1:-1])[1:-1],
    "json in numbers": lambda key: "".join(f"\\u{ord(c):04x}" for c in key),
    "url": lambda key: quote(key, safe=""),
    "url twice": lambda key: quote(quote(key, safe=""), safe=""),
    "url in numbers": lambda key: "".join(f"%{ord(c):02X}" for c in key),
    "html": html.escape,
    "html in numbers": lambda key: "".join(f"&#{ord(c)};" for c in key),
    "slashes": lambda key: key.replace("/", "\\/"),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@settings(max_examples=30, deadline=None)  # each key is compiled
@given(key=KEYS, before=st.text("xyz ", max_size=5))
def test_every_spelling_is_found_in_values_and_names(spelling: str, key: str, before: str) -> None:
    spelt = SPELLINGS[spelling](key)
    sent = {spelt: [f"{before}{spelt}", {"deep": [spelt, 1, None, True]}]}
    came = Redaction(SecretStr(key))(sent)
    shown = json.dumps(came)
    assert spelt not in came
    assert came[PLACEHOLDER][1] == {"deep": [PLACEHOLDER, 1, None, True]}
    assert shown.count(PLACEHOLDER) >= 3


@given(key=KEYS, n=st.integers(SHORTEST, 40))
def test_the_beginning_of_a_key_is_found_too(key: str, n: int) -> None:
    assert Redaction(SecretStr(key)).text(f"True. {key[:n]}") == f"True. {PLACEHOLDER}"


@given(text=st.text(), key=st.none() | KEYS.map(lambda key: key[: SHORTEST - 1]))
def test_without_a_key_or_with_a_short_one_nothing_changes(text: str, key: str | None) -> None:
    assert Redaction(None if key is None else SecretStr(key)).text(text) == text


@pytest.mark.parametrize("filling", ["\\", "s", "secretke", "%25", "&amp;#", "0", "\\u00", "%" + "25" * 9])
def test_hostile_text_takes_no_time(filling: str) -> None:
    redaction = Redaction(SecretStr("secretkey-123456"))
    start_s = time.process_time()
    redaction.text((filling * 2**20)[: 2**20])  # the most that is read
    assert time.process_time() - start_s < 20  # quadratic time would be hours
