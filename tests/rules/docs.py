"""What the documents say is so: options, names, files, endpoints, cases."""
import re

from rules.tree import rule, run

OPTIONS = "deploy/options.md"
CASES = "tests/cases.md"


def option_rows(tree):
    """The rows that --help makes."""
    text = run(tree.build / "trinityd", "--help").stdout
    for name, words in re.findall(r"^  --(?:\[no-\])?([a-z0-9-]+).*\n +(.*)$", text, re.M):
        meaning, default = re.fullmatch(r"(.*?)(?: \[(.*)\])?", words).groups()
        yield f"| `{name.replace('-', '_')}` | {f'`{default}`' if default else 'none'} | {meaning.replace('|', ',')} |\n"


def option_table(tree, write=False):
    """Whether the table of options says what --help says; `write` makes it so."""
    head, table, rest = re.fullmatch(r"(.*?\n\| option [^\n]*\n\|---[^\n]*\n)((?:\|[^\n]*\n)*)(.*)",
                                     (tree.root / OPTIONS).read_text(), re.S).groups()
    rows = "".join(option_rows(tree))
    if write:
        (tree.root / OPTIONS).write_text(head + rows + rest)
    return write or table == rows


@rule
def options(tree):
    if (tree.build / "trinityd").exists() and not option_table(tree):
        yield f"{OPTIONS}: the table differs from --help: run tests/lint --write"


@rule
def documents(tree):
    """Every function, file and folder that a document names is there."""
    code = "".join(tree.text(f) for f in tree.product)
    for f in (f for f in tree.texts if f.suffix == ".md" and f.parts[0] in ("README.md", "deploy")):
        text = tree.text(f)
        for name in sorted(set(re.findall(r"`((?:tr|srv|TR|SRV)_[A-Za-z0-9_]+)", text))):
            if not re.search(rf"\b{name}\b", code):
                yield f"{f}: {name} is not in the code"
        for name in sorted(set(re.findall(r"`((?:config|deploy|engine|server|tests)/[\w./*-]*)`", text))):
            if not any(tree.root.glob(name.rstrip("/"))):
                yield f"{f}: {name} does not exist"


@rule
def cases(tree):
    """Every test that the table of cases names exists: `path/test_x.py::name`, or `path/program.c:name`."""
    if not tree.has(CASES):
        return
    for n, line in enumerate((tree.root / CASES).read_text().split("\n"), 1):
        for path, name in re.findall(r"([\w./-]+\.(?:py|c))(?:::?(\w+))?", line):
            file = next((p for p in (path, f"tests/{path}") if tree.has(p)), None)
            if not file:
                yield f"{CASES}:{n}: {path} does not exist"
            elif name and not re.search(rf"\b(def|class)\s+{name}\b|^static\s+void\s+{name}\(|\({name}\b",
                                        (tree.root / file).read_text(), re.M):
                yield f"{CASES}:{n}: {path} has no test {name}"
