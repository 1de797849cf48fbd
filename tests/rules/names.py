"""Names: what headers declare and objects export, tags, files that comments name."""
import re
from collections import defaultdict

from rules.tree import rule

EXPORTS = {"config": r"tr_", "engine": r"tr_", "server": r"srv_|main$"}
# Headers of functions that live elsewhere: header -> (files that may define them, why).
FACES = {
    "engine/engine.h": (r"engine/run/\w+\.c", "the engine's public face"),
}
# Exported for the tests alone: name -> why.
FOR_TESTS = {}
# Headers of libraries and of the system, which comments may name.
FOREIGN = {"uv.h", "microhttpd.h", "jansson.h", "pcre2.h", "utf8proc.h", "xxhash.h", "cblas.h", "stdio.h", "math.h"}


@rule
def headers(tree):
    """Every header compiles alone and has a guard."""
    for h, (error, _) in tree.declared.items():
        if error:
            yield f"{h}:1: does not compile alone:\n{error}"
        if not re.search(r"^#ifndef (\w+)\n#define \1$", tree.text(h), re.M):
            yield f"{h}:1: no include guard"


@rule
def header_names(tree):
    """X.h declares what X.c and its parts X_*.c define; X_internal.h what its folder's files define for one another."""
    for h, (_, names) in tree.declared.items():
        if re.fullmatch(r"internal\.h|private\.h|.*_(private|priv|int)\.h", h.name):
            yield f"{h}:1: a private header is called NAME_internal.h"
        if str(h) in FACES:
            home = FACES[str(h)][0]
        elif h.name.endswith("_internal.h"):
            home = rf"{h.parent}/\w+\.c"
        else:
            home = rf"{h.with_suffix('')}(_\w+)?\.c"
        where = [f for f in tree.product if f.suffix == ".c" and re.fullmatch(home, str(f))]
        if all(f in tree.objects for f in where):
            strangers = set(names) - {n for f in where for n in tree.objects[f][0]}
            if strangers:
                yield f"{h}:1: declares {', '.join(sorted(strangers))}: not in {home}"


@rule
def own_header_first(tree):
    for f in tree.product:
        if f.suffix == ".c" and tree.has(f.with_suffix(".h")):
            m = re.search(r'^#\s*include\s+[<"](.*)[>"]', tree.text(f), re.M)
            if not m or m[1] not in (str(f.with_suffix(".h")), str(f.with_name(f"{f.stem}_internal.h"))):
                yield f"{f}:1: its own header must be included first"


@rule
def symbols(tree):
    """Only the prefixes of its folder leave an object file."""
    for f, (exported, _) in tree.objects.items():
        if f in tree.product:
            for name in sorted(exported):
                if not re.match(EXPORTS[f.parts[0]], name):
                    yield f"{f}:1: exports {name}"


@rule
def unused(tree):
    """What nothing outside its file needs is static. What tests alone need stands in FOR_TESTS."""
    users = defaultdict(set)
    for f, (_, needed) in tree.objects.items():
        for name in needed:
            users[name].add("product" if f in tree.product else "tests")
    for f, (exported, _) in tree.objects.items():
        if f not in tree.product:
            continue
        for name in sorted(exported - {"main"}):
            if not users[name]:
                yield f"{f}:1: {name} is exported and used by no other file"
            elif "product" not in users[name] and name not in FOR_TESTS:
                yield f"{f}:1: {name} is exported for tests alone"


@rule
def tags(tree):
    seen = {}
    for f in tree.product:
        for m in re.finditer(r"^[ \t]*(?:(?:static|const)\s+)*(struct|union|enum)\s+(\w+)\s*(?:/\*.*?\*/\s*)?\{", tree.text(f), re.M):
            here = f"{f}:{tree.text(f).count(chr(10), 0, m.start()) + 1}"
            if m[2] in seen:
                yield f"{here}: {m[1]} {m[2]} is defined in {seen[m[2]]} as well"
            seen.setdefault(m[2], here)


@rule
def named_files(tree):
    """A comment names only files that are there."""
    for f, n, text in tree.comments(tree.product):
        for name in re.findall(r"(?<![\w/.*<-])((?:[a-z][\w-]*/)*[a-z]\w*\.[ch])(?![\w/])", text):
            if name in FOREIGN:
                continue
            near = any(tree.has(p / name) for p in (*f.parents,)) or "/" not in name and name in tree.basenames
            if not near and not any(str(g).endswith("/" + name) for g in tree.files):
                yield f"{f}:{n}: names {name}, which does not exist"
