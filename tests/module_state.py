"""Finds state that a module keeps from one call of a plugin to the next, by reading the source.

A worker of the server calls plugins again and again. So a module may have constants, but no container that a function
changes, no cache, no open socket, and nothing of the process: its environment, standard streams, folder or umask.
"""

import ast
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, TypeGuard

_CONTAINERS: Final = {"list", "dict", "set", "bytearray", "deque", "defaultdict", "OrderedDict", "Counter", "array"}
_CONTAINERS_OF: Final = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
_CHANGES: Final = {
    "add", "append", "appendleft", "clear", "discard", "extend", "extendleft", "insert", "pop", "popitem", "popleft",
    "remove", "reverse", "rotate", "setdefault", "sort", "update", "difference_update", "intersection_update",
}  # fmt: skip
_CACHES: Final = {"cache", "lru_cache"}
_HELD_OPEN: Final = {
    "socket", "socketpair", "Socket", "Rtnl", "OpenSockets", "Thread", "Timer", "ThreadPoolExecutor", "Lock", "RLock",
    "Event",
    "Condition", "Semaphore", "local", "_local", "count", "cycle", "open", "pipe", "pipe2", "eventfd", "memfd_create",
    "Popen",
}  # fmt: skip
"""Calls whose value is an open file, a thread, or an object with a state of its own."""
_PROCESS: Final = {
    "os": {"environ", "environb", "getenv", "putenv", "unsetenv", "chdir", "umask"},
    "sys": {"stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__"},
}
_PROGRAMS: Final = {"run", "Popen", "call", "check_call", "check_output"}


class Finding(NamedTuple):
    """A place and its fault."""

    path: str
    line: int
    what: str


def findings(sources: Mapping[str, str], *, owning_the_process: tuple[str, ...] = ()) -> list[Finding]:
    """Return the findings in `sources`, texts by their paths; `owning_the_process` are beginnings of paths.

    The modules of those paths may use the process's environment and streams.
    """
    found = []
    trees = {path: ast.parse(text) for path, text in sources.items()}
    for path, tree in trees.items():
        module = _Module(path, tree, is_process=path.startswith(owning_the_process or ("/",)))
        found += list(module.findings())
    # A container may be changed by the functions of another module that imports it.
    containers = {(path, name) for path, tree in trees.items() for name in _containers(tree.body)}
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    source = next((each for each in sources if _is_module(each, node.module or "")), "")
                    if (source, alias.name) in containers:
                        found += _changes_in(path, tree, alias.asname or alias.name)
    return sorted(set(found))


class _Module:
    def __init__(self, path: str, tree: ast.Module, *, is_process: bool) -> None:
        self._path = path
        self._tree = tree
        self._is_process = is_process
        self._imported = {
            (alias.asname or alias.name).partition(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Import)
            for alias in node.names
        }
        self._classes = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}

    def findings(self) -> Iterator[Finding]:
        yield from self._held_at_import()
        for name in _containers(self._tree.body):
            yield from _changes_in(self._path, self._tree, name)
        for node in ast.walk(self._tree):
            if isinstance(node, ast.ClassDef):
                yield from self._class_containers(node)
            elif _is_called_later(node):
                yield from self._function(node)
            elif isinstance(node, ast.Call) and _last(node.func) == "register_at_fork":
                yield self._finding(node, "os.register_at_fork: what it does must be the worker's to do")
            if not self._is_process:
                yield from self._process(node)

    def _held_at_import(self) -> Iterator[Finding]:
        for statement in _at_import(self._tree.body):
            value = getattr(statement, "value", None)
            for node in ast.walk(value) if isinstance(value, ast.expr) else ():
                if isinstance(node, ast.Call) and _last(node.func) in _HELD_OPEN:
                    yield self._finding(node, f"{_last(node.func)}() at import: an object with a state")

    def _class_containers(self, owner: ast.ClassDef) -> Iterator[Finding]:
        own = {
            target.attr
            for node in ast.walk(owner)
            if isinstance(node, (ast.Assign, ast.AnnAssign))
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if isinstance(target, ast.Attribute) and _last(target.value) == "self"
        }
        for name in _containers(owner.body):
            through = {owner.name, "cls"} | (set() if name in own else {"self"})
            for function in _functions(self._tree):
                for node, changed in _changed(function):
                    if isinstance(changed, ast.Attribute) and changed.attr == name and _last(changed.value) in through:
                        yield self._finding(node, f"{owner.name}.{name} belongs to the class and is changed")

    def _function(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Finding]:
        for decorator in function.decorator_list:
            name = _last(decorator.func if isinstance(decorator, ast.Call) else decorator)
            if name in _CACHES:
                yield self._finding(function, f"{name} on {function.name}: it keeps what it has returned")
        for node in ast.walk(function):
            if isinstance(node, ast.Global):
                yield self._finding(node, f"global {', '.join(node.names)}")
            for target in _targets(node):
                if not isinstance(target, ast.Attribute) or not isinstance(target.value, ast.Name):
                    continue
                owner = target.value.id
                if owner in {"cls", *self._classes} or (owner in self._imported and not self._is_process):
                    yield self._finding(node, f"{owner}.{target.attr} is set: it stays for the next call")

    def _process(self, node: ast.AST) -> Iterator[Finding]:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in _PROCESS.get(node.value.id, ()):
                yield self._finding(node, f"{node.value.id}.{node.attr}: of the process, not of the call")
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if alias.name in _PROCESS.get(node.module or "", ()):
                    yield self._finding(node, f"{node.module}.{alias.name}: of the process, not of the call")
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in {"print", "input"}:
                yield self._finding(node, f"{node.func.id}(): stdout is the answer")
            is_program = isinstance(node.func, ast.Attribute) and _last(node.func.value) == "subprocess"
            if is_program and _last(node.func) in _PROGRAMS and "env" not in {each.arg for each in node.keywords}:
                yield self._finding(node, "a program is executed without env=: it gets the process's environment")

    def _finding(self, node: ast.AST, what: str) -> Finding:
        return Finding(self._path, getattr(node, "lineno", 0), what)


def _changes_in(path: str, tree: ast.Module, name: str) -> Iterator[Finding]:
    """Yield where a function changes the module's container `name`, or another module's that is imported under it."""
    for function in _functions(tree):
        arguments = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}
        is_global = any(isinstance(node, ast.Global) and name in node.names for node in ast.walk(function))
        is_set = any(
            isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
            for node in ast.walk(function)
        )
        if (name in arguments or is_set) and not is_global:
            continue  # its own variable of that name
        for node, changed in _changed(function):
            if isinstance(changed, ast.Name) and changed.id == name:
                yield Finding(path, getattr(node, "lineno", 0), f"{name} belongs to the module and is changed")


def _changed(function: ast.AST) -> Iterator[tuple[ast.AST, ast.expr]]:
    """Yield the expressions whose value a function changes in place, each with the node that does."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
            yield node, node.func.value
        for target in _targets(node):
            if isinstance(target, ast.Subscript):
                yield node, target.value
            elif isinstance(node, ast.AugAssign):
                yield node, target


def _targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, (ast.Assign, ast.Delete)):
        return [each for target in node.targets for each in _parts(target)]
    return [node.target] if isinstance(node, (ast.AugAssign, ast.AnnAssign)) else []


def _parts(target: ast.expr) -> list[ast.expr]:
    if isinstance(target, (ast.Tuple, ast.List)):
        return [part for each in target.elts for part in _parts(each)]
    return [target]


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda) or _is_called_later(node):
            yield node


def _is_called_later(node: ast.AST) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Tell whether a node is a function that runs after the import: making a class is part of it."""
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name != "__init_subclass__"


def _containers(body: list[ast.stmt]) -> Iterator[str]:
    """Yield the names of the containers that are made when `body`, a module's or a class's, is executed."""
    for statement in _at_import(body):
        value = getattr(statement, "value", None)
        is_call = isinstance(value, ast.Call) and _last(value.func) in _CONTAINERS
        if is_call or isinstance(value, _CONTAINERS_OF):
            yield from (target.id for target in _targets(statement) if isinstance(target, ast.Name))


def _at_import(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that importing executes, those in `if`, `try` and `with` among them."""
    for statement in body:
        yield statement
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for inner in ("body", "orelse", "finalbody"):
                yield from _at_import(getattr(statement, inner, []))


def _last(node: ast.expr | None) -> str:
    """Return the last word of a dotted name."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _is_module(path: str, name: str) -> bool:
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return bool(name) and (module == name or module.endswith(f".{name}"))
