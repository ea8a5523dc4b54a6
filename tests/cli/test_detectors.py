import pytest

from lmaudit.cli.detectors import is_here


@pytest.mark.parametrize(
    ("package", "here"),
    [("json", True), ("importlib.metadata", True), ("nowhere", False), ("nowhere.at.all", False), ("", False)],
)
def test_whether_a_package_is_here_is_told_whatever_it_is_called(package, here):
    assert is_here(package) is here
