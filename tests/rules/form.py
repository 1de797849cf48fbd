"""Form of the text: white space, width, marks, constants, sizes."""
import re

from rules.tree import rule

MAX_LINES = 600
MAX_COLUMNS = {".c": 100, ".h": 100, "README.md": 120}
GENERATED = {"engine/text/template/unicode_tables.h"}
# Constants that must be macros, and why.
MACROS = {
    "PCRE2_CODE_UNIT_WIDTH": "the library's header asks for it",
    "O": "a letter of the table of characters",
}


@rule
def whitespace(tree):
    for f in tree.texts:
        text = (tree.root / f).read_bytes()
        if text and not text.endswith(b"\n"):
            yield f"{f}: no newline at the end"
        if text.endswith(b"\n\n"):
            yield f"{f}: blank lines at the end"
        if b"\r" in text:
            yield f"{f}: carriage return"
        for n, line in enumerate(text.split(b"\n"), 1):
            if line != line.rstrip():
                yield f"{f}:{n}: white space at the end of the line"
            if b"\t" in line and f.name != "Makefile":
                yield f"{f}:{n}: tab"


@rule
def columns(tree):
    for f, n, line in tree.lines(tree.product + [f for f in tree.texts if str(f) in MAX_COLUMNS]):
        limit = MAX_COLUMNS.get(str(f)) or MAX_COLUMNS[f.suffix]
        if len(line) > limit and str(f) not in GENERATED:
            yield f"{f}:{n}: {len(line)} columns, {limit} are allowed"


@rule
def marks(tree):
    for f, n, line in tree.lines(tree.product):
        if re.search(r"/\*\s*(-{2,}|={2,}|\*{3,}|#{2,})", line) and not re.search(r"/\* ---- \S(.*\S)? ---- \*/$", line):
            yield f"{f}:{n}: a section begins with /* ---- words ---- */"


@rule
def torn(tree):
    """clang-format breaks a declaration before its name where the comment behind it is too long."""
    for f, n, line in tree.lines(tree.product):
        if re.match(r"\s+\*\w+;\s*/\*", line):
            yield f"{f}:{n}: the declaration is torn apart: its comment belongs above it"


@rule
def constants(tree):
    """An int that is no enum constant. 64 bits, fractions, strings and macros with arguments stay macros."""
    for f, n, line in tree.lines(tree.product):
        m = re.match(r"\s*#\s*define\s+(\w+)\s+([-\s()0-9xXa-fA-FuU+*<|]+?)\s*(/\*.*)?$", line)
        if not m or m[1] in MACROS or not re.search(r"\d", m[2]):
            continue
        try:
            value = eval(re.sub(r"(?<=[0-9a-fA-F])[uU]\b", "", m[2]), {"__builtins__": {}})
        except (SyntaxError, NameError, TypeError):
            continue
        if isinstance(value, int) and -2**31 <= value < 2**31:
            yield f"{f}:{n}: {m[1]} is a constant: enum {{ {m[1]} = {m[2]} }};"


@rule
def error_variable(tree):
    for f, n, line in tree.lines(tree.product):
        if m := re.search(r"\bint\s+(?:\w+(?:\s*=[^,;]*)?,\s*)*(rc|ret|rv|retval|errcode|err_code)\s*[;=,)]", line):
            yield f"{f}:{n}: {m[1]}: the result of a call is kept in r"


@rule
def sizes(tree):
    for f in tree.product:
        n = tree.text(f).count("\n")
        if n > MAX_LINES and str(f) not in GENERATED:
            yield f"{f}: {n} lines, {MAX_LINES} are allowed: split it by concept"


@rule
def public_face(tree):
    if tree.has("engine/engine.h") and (n := (tree.root / "engine/engine.h").read_text().count("\n")) > 200:
        yield f"engine/engine.h: {n} lines, 200 are allowed"


@rule
def head_comments(tree):
    for f in tree.product:
        if not tree.text(f).startswith("/*") and (f.suffix == ".h" or not tree.has(f.with_suffix(".h"))):
            yield f"{f}:1: no head comment here, nor in a header of the same name"


@rule
def words(tree):
    for f, n, line in tree.lines(f for f in tree.texts if f.parts[:2] != ("tests", "rules")):
        if re.search(r"\b(TODO|FIXME|XXX)\b", line):
            yield f"{f}:{n}: unfinished: {line.strip()}"
        if re.search(r"-ffast-math|-march=native|-mtune=native", line) and f.suffix != ".md":
            yield f"{f}:{n}: such a flag changes results or ties the binary to one machine"
        if re.search(r"(^|[\s\"'=(])(/(work|home|Users|workspace)|\.\./shared)/", line):
            yield f"{f}:{n}: a path of one machine: {line.strip()}"
        if f.suffix in (".c", ".h") and f.parts[:2] != ("engine", "kernels") \
                and re.search(r"^\s*typedef\s+(struct|enum|union)\b|\}\s*\w+_t;", line):
            yield f"{f}:{n}: struct tags go without typedef"
