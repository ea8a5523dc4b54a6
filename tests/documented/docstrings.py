"""What is missing in docstrings of public functions, found in the source without importing it."""

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "lmaudit"
ERRORS = {
    node.name
    for node in ast.parse((SOURCE / "errors.py").read_text(encoding="utf-8")).body
    if isinstance(node, ast.ClassDef)
}
_SHAPE = re.compile(r"``?\(|\(\w+,|\bscalar\b|\bshape")
_RAISES = re.compile(r"\bRaises?:?\s+(.*)", re.DOTALL)


def faults():
    """``file:line: name: what is missing`` of everything public but the command line, whose help is its docstring."""
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE)
        if place.parts[0] == "cli" or any(part.startswith("_") and part != "__init__.py" for part in place.parts):
            continue
        for owner, function in _public(ast.parse(path.read_text(encoding="utf-8"))):
            for fault in faults_of(function):
                yield f"{place}:{function.lineno}: {owner}{function.name}: {fault}"


def faults_of(function):
    """What the docstring of one function leaves out or makes up."""
    said = ast.get_docstring(function) or ""
    if said.startswith(("As `", "See `")):  # says it there
        return
    raised = _raised(function)
    named = _RAISES.search(said)
    for error in sorted(raised & ERRORS):
        if not named or error not in named[1]:
            yield f"raises {error}, which Raises does not name"
    if re.search(r"^Raises:$", said, re.MULTILINE):
        section = said.split("Raises:\n", 1)[1].split("\n\n", 1)[0]
        for line in section.splitlines():
            names = re.match(r"(?:    )?([A-Z]\w*(?:, [A-Z]\w*)*):", line)
            for name in names[1].split(", ") if names else ():
                if not (name in ERRORS or name.endswith(("Error", "Interrupt"))):
                    yield f"Raises names {name}, which is no error"
    yield from _of_arguments(function, said)
    if _is_tensor(function.returns) and not _SHAPE.search(said):
        yield "returns a tensor and says nothing of its shape"


def _of_arguments(function, said):
    given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    listed = "Args:\n" in said
    names = (
        set(re.findall(r"^ {4}\*{0,2}(\w+):", said.split("Args:\n", 1)[1].split("\n\n", 1)[0], re.MULTILINE))
        if listed
        else set()
    )
    known = {a.arg for a in given} | {a.arg for a in (function.args.vararg, function.args.kwarg) if a}
    for name in sorted(names - known):
        yield f"Args describes {name}, which is no argument"
    for argument in given:
        if argument.arg in ("self", "cls"):
            continue
        if listed and argument.arg not in names:
            yield f"Args leaves out {argument.arg}"
        if _is_tensor(argument.annotation) and not _SHAPE.search(said):
            yield f"takes the tensor {argument.arg} and says nothing of its shape"


def _public(module):
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield "", node
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef) and not inner.name.startswith("_"):
                    yield f"{node.name}.", inner


def _raised(function):
    """Names of errors that the function itself raises; not those of functions within it."""
    raised, nodes = set(), list(function.body)
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(node, ast.Raise) and node.exc is not None:
            error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            if isinstance(error, ast.Name):
                raised.add(error.id)
        nodes += ast.iter_child_nodes(node)
    return raised


def _is_tensor(annotation):
    return annotation is not None and ast.unparse(annotation) in ("Tensor", "torch.Tensor")
