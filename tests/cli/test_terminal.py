from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from lmaudit.cli.terminal import quoted
from lmaudit.records import printable


@given(st.text())
def test_what_is_shown_is_one_printable_line(text):
    assert all(c.isprintable() for c in printable(text))


def test_escapes_controls_and_keeps_words():
    assert printable(" Ed Markey é 日本") == " Ed Markey é 日本"
    assert printable("a\nb\x1b[31m\u202e\x00") == "a\\nb\\x1b[31m\\u202e\\x00"
    assert "\\udc80" in printable("\udc80")


def test_markup_is_text():
    console = Console(width=80)
    with console.capture() as captured:
        console.print(quoted("[bold]x[/bold] [link=http://a]y[/link]"))
    assert captured.get() == '"[bold]x[/bold] [link=http://a]y[/link]"\n'
