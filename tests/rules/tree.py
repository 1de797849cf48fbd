"""What the rules look at: the files of a tree, its objects, its headers. A rule yields complaints `file:line: text`."""
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path

ROOMS = ("config", "engine", "server")
BINARY = {".safetensors", ".gguf", ".png", ".pyc"}
DATA = re.compile(r"config/demo/.*(json|jinja).*|tests/golden/.*\.json|tests/fuzz/(corpus|regression)/.*|LICENSE")
RULES = {}


def rule(function):
    """Registers a rule by its name; words are joined by `-`."""
    RULES[function.__name__.replace("_", "-")] = function
    return function


def run(*args, **kw):
    return subprocess.run(list(map(str, args)), capture_output=True, text=True, **kw)


class Tree:
    def __init__(self, root=".", build="build"):
        self.root, self.build = Path(root), Path(root) / build
        listed = run("git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard")
        names = listed.stdout.split("\n") if listed.returncode == 0 else map(str, self.root.rglob("*"))
        paths = [Path(n).relative_to(root) if listed.returncode else Path(n) for n in names if n]
        self.files = sorted(p for p in paths if (self.root / p).is_file() and not (self.root / p).is_relative_to(self.build))
        self.sources = [f for f in self.files if f.suffix in (".c", ".h")]
        self.product = [f for f in self.sources if f.parts[0] in ROOMS]
        self.texts = [f for f in self.files if f.suffix not in BINARY and not DATA.fullmatch(str(f))]
        self.read = {}

    def text(self, f):
        if f not in self.read:
            self.read[f] = (self.root / f).read_text(encoding="utf-8")
        return self.read[f]

    def lines(self, files):
        for f in files:
            for n, line in enumerate(self.text(f).split("\n"), 1):
                yield f, n, line

    def comments(self, files):
        """(file, line, text) of every comment."""
        for f in files:
            text = self.text(f)
            for m in re.finditer(r'"(?:\\.|[^"\\\n])*"|/\*(.*?)\*/', text, re.S):
                if m[1] is not None:
                    yield f, text.count("\n", 0, m.start()) + 1, m[1]

    def has(self, name):
        return (self.root / name).exists()

    @cached_property
    def basenames(self):
        return {f.name for f in self.files}

    @cached_property
    def objects(self):
        """source -> (names it exports, names it needs), for the objects that are there and no older than their source."""
        found = {}
        for f in self.sources:
            o = self.build / f.with_suffix(".o")
            if f.suffix == ".c" and o.exists():
                found[f] = o
        with ThreadPoolExecutor() as pool:
            return dict(zip(found, pool.map(symbols_of, found.values())))

    @cached_property
    def declared(self):
        """header -> (what the compiler says when it is compiled alone, the functions it declares but does not define)."""
        own = [f for f in self.product if f.suffix == ".h"]
        with ThreadPoolExecutor() as pool:
            return dict(zip(own, pool.map(self.compile_header, own)))

    def compile_header(self, h):
        info = self.build / "lint" / f"{str(h).replace('/', '+')}.functions"
        info.parent.mkdir(parents=True, exist_ok=True)
        p = run("gcc", "-std=c17", "-D_GNU_SOURCE", "-I.", "-aux-info", info.resolve(), "-fsyntax-only", "-x", "c", "-",
                input=f'#include "{h}"\n', cwd=self.root)
        told = info.read_text() if p.returncode == 0 and info.exists() else ""
        names = re.findall(rf"^/\* (?:\./)?{re.escape(str(h))}:\d+:\wC \*/ extern .*?(\w+) \(", told, re.M)
        return p.stderr if p.returncode else "", names


def symbols_of(obj):
    out = run("nm", "--format=posix", obj).stdout
    kinds = [line.split()[:2] for line in out.splitlines()]
    return {n for n, k in kinds if k.isupper() and k != "U"}, {n for n, k in kinds if k == "U"}
