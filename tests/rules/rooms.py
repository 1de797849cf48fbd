"""Who may include what, and what the engine must not do."""
import re

from rules.tree import rule

# Third-party header -> the files that may include it.
HOMES = {
    r"cblas\.h": r"engine/kernels/blas\.c",
    r".*mmintrin\.h|.*intrin\.h": r"engine/kernels/.*",
    r"microhttpd\.h|uv\.h": r"server/.*",
    r"jansson\.h": r"config/json\.[ch]|server/.*",
    r"seccomp\.h": r"server/syscalls\.c",
    r"pcre2\.h": r"engine/text/pattern\.c",
    r"utf8proc\.h": r"engine/text/unicode\.c",
    r"xxhash\.h": r"config/hash\.c",
}
# What a room may include of the project beside itself, config/ and the low types of engine/. config <- engine <- server; in the engine everything stands on kernels, and only run/ sees all.
LOW = r"config/|engine/(types|job|stats)\.h"
FACE = r"engine/(engine|view)\.h|engine/grammar/(cache|grammar)\.h|engine/text/\w+\.h"
TOP = r"server/(server|model|swap|log|metrics|process|spans)\.h"
MAY_INCLUDE = {
    "config": r"config/",
    "engine": rf"{LOW}|engine/engine\.h",
    "engine/kernels": LOW,
    "engine/text": LOW,
    "engine/machine": rf"{LOW}|engine/kernels/",
    "engine/grammar": rf"{LOW}|engine/text/",
    "engine/sample": rf"{LOW}|engine/(kernels|grammar)/",
    "engine/cache": rf"{LOW}|engine/kernels/",
    "engine/checkpoint": rf"{LOW}|engine/(kernels|machine|text)/",
    "engine/schedule": rf"{LOW}|engine/cache/",
    "engine/forward": rf"{LOW}|engine/(kernels|machine|cache|checkpoint)/",
    "engine/run": r"config/|engine/",
    "server": rf"{LOW}|{FACE}|server/",
    "server/http": rf"{LOW}|{TOP}",
    "server/call": rf"{LOW}|{FACE}|{TOP}|server/http/",
    "server/api": rf"{LOW}|{FACE}|{TOP}|server/(http|call|batch)/",
    "server/batch": rf"{LOW}|server/(log|http/inbox)\.h",
    "server/commands": rf"{LOW}|{FACE}|server/(load|log|loop|probe)\.h|server/batch/",
}
# One file's one header from another room, and why.
EXCEPT = {
    ("server/main.c", "engine/kernels/blas.h"): "main chooses OpenBLAS's kernels by starting the program again, and ends its threads",
}


@rule
def include_directions(tree):
    for f, n, line in tree.lines(tree.product):
        m = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if not m or (str(f), m[1]) in EXCEPT:
            continue
        room = "/".join(f.parts[:2]) if len(f.parts) > 2 else f.parts[0]
        if room not in MAY_INCLUDE:
            yield f"{f}:{n}: {room}/ is a room that tests/rules/rooms.py does not know"
        elif not re.match(rf"{MAY_INCLUDE[room]}|{room}/" if "/" in room else MAY_INCLUDE[room], m[1]):
            yield f"{f}:{n}: {room}/ must not include {m[1]}"
        if m[1].endswith("_internal.h") and not str(f).startswith(m[1].rsplit("/", 1)[0] + "/"):
            yield f"{f}:{n}: {m[1]} is private to its folder"


@rule
def homes(tree):
    for f, n, line in tree.lines(f for f in tree.sources if f.parts[0] != "tests"):
        m = re.match(r'\s*#\s*include\s+[<"]([^>"]+)[>"]', line)
        for header, home in HOMES.items():
            if m and re.fullmatch(header, m[1]) and not re.fullmatch(home, str(f)):
                yield f"{f}:{n}: {m[1]} belongs in {home}"


@rule
def engine_is_silent(tree):
    for f, n, line in tree.lines(f for f in tree.product if f.parts[0] in ("config", "engine")):
        if m := re.search(r"\b(printf|fprintf|puts|perror|exit|_exit|abort|syslog)\(", re.sub(r"/\*.*", "", line)):
            # The AMX trial runs in a child of its own, which has to end somehow.
            if (str(f), m[1]) != ("engine/kernels/check_amx.c", "_exit"):
                yield f"{f}:{n}: {m[1]}: the engine neither logs nor exits"
