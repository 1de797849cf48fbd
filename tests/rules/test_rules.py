"""Every rule of lint is silent about a small good tree, and complains of one breach in it."""
import re
import subprocess
from pathlib import Path

import pytest

import rules.docs
import rules.form
import rules.names
import rules.rooms
from rules.tree import RULES, Tree

HELP = """\
#!/bin/sh
cat <<'END'
  --host HOST
        address to listen on [127.0.0.1]
END
"""
GOOD = {
    "config/buf.h": """\
/* A buffer that grows. */
#ifndef TR_CONFIG_BUF_H
#define TR_CONFIG_BUF_H

struct tr_buf {
    char *data;
};

enum { TR_BUF_MIN = 64 };
#define TR_BUF_MAX (1ULL << 40)
#define TR_BUF_RATE 1e-4

/* As buf.c says; see uv.h, too. */
int tr_buf_add(struct tr_buf *b);

#endif
""",
    "config/buf.c": """\
#include "config/buf.h"

#include <stdio.h>

/* ---- adding ---- */

int tr_buf_add(struct tr_buf *b)
{
    int r = b->data ? 0 : 1;
    return r;
}
""",
    "engine/types.h": "/* Low types. */\n#ifndef T_H\n#define T_H\nenum tr_isa { TR_GENERIC };\n#endif\n",
    "engine/engine.h": '/* The face. */\n#ifndef E_H\n#define E_H\n#include "engine/types.h"\nint tr_engine_open(void);\n#endif\n',
    "engine/run/open.c": '/* Opens. */\n#include "config/buf.h"\n#include "engine/engine.h"\n\nint tr_engine_open(void)\n{\n'
                         "    struct tr_buf b = {0};\n    return tr_buf_add(&b);\n}\n",
    "server/main.c": '/* main */\n#include "engine/engine.h"\n\nint main(void)\n{\n    return tr_engine_open();\n}\n',
    "tests/unit/config/buf.c": "/* Tests. */\nstatic void adds(void **state)\n{\n    (void)state;\n}\n",
    "tests/http/test_models.py": "def test_one():\n    pass\n",
    "tests/cases.md": "| M1 | tests/http/test_models.py::test_one |\n| B1 | tests/unit/config/buf.c:adds |\n",
    "README.md": "# It\nSee `tr_engine_open` in `engine/engine.h`, and `tests/http/`.\n",
    "deploy/options.md": "# Options\n\n| option | default | meaning |\n|---|---|---|\n| `host` | `127.0.0.1` | address to listen on |\n",
    "build/trinityd": HELP,
}
EDIT = object()


def more(text):
    """An edit: this text stands at the end of the file."""
    return EDIT, None, text


def swap(old, new):
    return EDIT, old, new


# rule, what is changed, words of the complaint
BREACHES = [
    ("whitespace", {"README.md": more("tail \n")}, "README.md:3: white space at the end"),
    ("whitespace", {"config/buf.c": more("\t/* x */\n")}, "config/buf.c:12: tab"),
    ("whitespace", {"README.md": "# It"}, "README.md: no newline"),
    ("columns", {"config/buf.c": more("/* " + "long " * 20 + "*/\n")}, "config/buf.c:12: 105 columns"),
    ("columns", {"README.md": more("long " * 30 + "x\n")}, "README.md:3: 151 columns"),
    ("marks", {"config/buf.c": swap("/* ---- adding ---- */", "/* -- adding -- */")}, "config/buf.c:5: a section"),
    ("marks", {"config/buf.c": swap("/* ---- adding ---- */", "/* ======== */")}, "config/buf.c:5: a section"),
    ("torn", {"config/buf.h": swap("    char *data;", "    char\n        *data; /* long */")}, "config/buf.h:7: the declaration is torn"),
    ("constants", {"config/buf.c": swap("#include <stdio.h>", "#define MAX_DEPTH 64 /* of groups */")}, "MAX_DEPTH is a constant"),
    ("constants", {"config/buf.c": swap("#include <stdio.h>", "#define BYTES (1U << 20)")}, "config/buf.c:3: BYTES is a constant"),
    ("error-variable", {"config/buf.c": swap("int r =", "int rc =")}, "config/buf.c:9: rc"),
    ("error-variable", {"config/buf.c": swap("int r =", "int a = 1, ret =")}, "config/buf.c:9: ret"),
    ("sizes", {"config/buf.c": more("\n" * 600)}, "config/buf.c: 611 lines"),
    ("public-face", {"engine/engine.h": more("\n" * 200)}, "engine/engine.h: 206 lines"),
    ("head-comments", {"server/main.c": swap("/* main */\n", "")}, "server/main.c:1: no head comment"),
    ("words", {"config/buf.c": more("/* TO" "DO */\n")}, "config/buf.c:12: unfinished"),
    ("words", {"README.md": more("see /wo" "rk/x\n")}, "README.md:3: a path of one machine"),
    ("words", {"config/buf.h": swap("struct tr_buf {", "typedef struct tr_buf {")}, "without typedef"),
    ("headers", {"config/buf.h": swap("struct tr_buf *b", "size_t n")}, "config/buf.h:1: does not compile alone"),
    ("headers", {"config/buf.h": swap("#ifndef TR_CONFIG_BUF_H", "#ifndef OTHER")}, "config/buf.h:1: no include guard"),
    ("header-names", {"config/buf.h": swap("tr_buf_add(", "tr_buf_put(")}, "declares tr_buf_put: not in config/buf"),
    ("header-names", {"engine/run/internal.h": "/* Private. */\n"}, "engine/run/internal.h:1: a private header is called"),
    ("header-names", {"engine/run/run_internal.h": "/* P. */\nint tr_buf_add(int);\n"}, "declares tr_buf_add: not in engine/run"),
    ("own-header-first", {"config/buf.c": swap('#include "config/buf.h"\n', "")}, "config/buf.c:1: its own header"),
    ("symbols", {"config/buf.c": more("int buf_bad;\n")}, "config/buf.c:1: exports buf_bad"),
    ("unused", {"config/buf.c": more("int tr_buf_idle;\n")}, "tr_buf_idle is exported and used by no other file"),
    ("unused", {"config/buf.c": more("int tr_buf_x;\n"),
                "tests/unit/config/buf.c": more("extern int tr_buf_x;\nint *p = &tr_buf_x;\n")}, "tr_buf_x is exported for tests alone"),
    ("tags", {"server/main.c": more("struct tr_buf {\n    int n;\n};\n")}, "server/main.c:8: struct tr_buf is defined in config/buf.h:5"),
    ("tags", {"server/main.c": more("enum tr_isa { A };\n")}, "enum tr_isa is defined in engine/types.h"),
    ("named-files", {"config/buf.h": swap("buf.c says", "level_level.c says")}, "config/buf.h:13: names level_level.c"),
    ("include-directions", {"config/buf.c": swap("<stdio.h>", '"engine/types.h"')}, "config/ must not include engine/types.h"),
    ("include-directions", {"engine/cache/pages.c": '#include "engine/engine.h"\n'}, "engine/cache/ must not include engine/engine.h"),
    ("include-directions", {"engine/kernels/a.c": '#include "engine/cache/pages.h"\n'}, "engine/kernels/ must not include"),
    ("include-directions", {"server/http/reply.c": '#include "server/api/chat.h"\n'}, "server/http/ must not include server/api/chat.h"),
    ("include-directions", {"server/http/reply.c": '#include "server/call/call.h"\n'}, "server/http/ must not include server/call/call.h"),
    ("include-directions", {"server/call/call.c": '#include "server/api/chat.h"\n'}, "server/call/ must not include"),
    ("include-directions", {"server/api/chat.c": '#include "engine/forward/forward.h"\n'}, "server/api/ must not include"),
    ("include-directions", {"engine/engine.h": swap("engine/types.h", "engine/run/run.h")}, "engine/ must not include engine/run/run.h"),
    ("include-directions", {"engine/attic/a.c": '#include "config/buf.h"\n'}, "engine/attic/ is a room that"),
    ("include-directions", {"server/main.c": swap("engine/engine.h", "server/call/call_internal.h")}, "private to its folder"),
    ("homes", {"server/main.c": swap('"engine/engine.h"', "<cblas.h>")}, "cblas.h belongs in"),
    ("engine-is-silent", {"engine/run/open.c": swap("    return", "    exit(1);\n    return")}, "exit: the engine neither"),
    ("options", {"deploy/options.md": swap("127.0.0.1", "0.0.0.0")}, "deploy/options.md: the table differs"),
    ("documents", {"README.md": swap("tr_engine_open", "tr_engine_shut")}, "tr_engine_shut is not in the code"),
    ("documents", {"README.md": swap("engine/engine.h", "engine/motor.h")}, "engine/motor.h does not exist"),
    ("cases", {"tests/cases.md": more("| M2 | tests/http/test_gone.py::test_one |\n")}, "tests/cases.md:3: tests/http/test_gone.py does not"),
    ("cases", {"tests/cases.md": more("| M2 | tests/http/test_models.py::test_two |\n")}, "has no test test_two"),
    ("cases", {"tests/cases.md": more("| B2 | tests/unit/config/buf.c:takes |\n")}, "has no test takes"),
]


def plant(root, changes=()):
    """The good tree with changes, its objects made."""
    texts = dict(GOOD)
    for path, change in dict(changes).items():
        if isinstance(change, str):
            texts[path] = change
        elif change[1] is None:
            texts[path] += change[2]
        else:
            assert change[1] in texts[path]
            texts[path] = texts[path].replace(change[1], change[2])
    for path, text in texts.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    (root / "build/trinityd").chmod(0o755)
    return root


def objects(root):
    for source in list(root.rglob("*.c")):
        o = root / "build" / source.relative_to(root).with_suffix(".o")
        o.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["gcc", "-w", "-I.", "-c", "-o", o, source], cwd=root, stderr=subprocess.DEVNULL)


def complaints(root, name):
    return list(RULES[name](Tree(root)))


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    root = plant(tmp_path_factory.mktemp("good"))
    objects(root)
    return root


@pytest.mark.parametrize("name", RULES)
def test_a_good_tree_is_let_through(good, name):
    assert complaints(good, name) == []


@pytest.mark.parametrize("name, changes, words", BREACHES, ids=[f"{b[0]}-{n}" for n, b in enumerate(BREACHES)])
def test_a_breach_is_seen(tmp_path, name, changes, words):
    plant(tmp_path, changes)
    if name in ("symbols", "unused", "header-names"):
        objects(tmp_path)
    found = complaints(tmp_path, name)
    assert any(words in c for c in found), found


def test_every_rule_has_a_breach():
    assert {b[0] for b in BREACHES} == set(RULES)


def test_exceptions_are_needed():
    tree = Tree()
    sources = {f: tree.text(f) for f in tree.product if f.suffix == ".c"}

    def homes(name):
        return {f for f, text in sources.items() if re.search(rf"^(?!static)\w[^;={{}}()]*\b{name}\(", text, re.M)}

    for name in rules.names.FOR_TESTS:
        assert homes(name) and {f for f, text in sources.items() if re.search(rf"\b{name}\b", text)} == homes(name), name
    for header in rules.names.FACES:
        own = rf"{header[:-2]}(_\w+)?\.c"
        where = {f for name in tree.compile_header(Path(header))[1] for f in homes(name)}
        assert any(not re.fullmatch(own, str(f)) for f in where), header
    for tag in rules.names.SHARED_TAGS:
        assert sum(len(re.findall(rf"^\s*(?:struct|union|enum) {tag} \{{", tree.text(f), re.M)) for f in tree.product) > 1, tag
    for (file, header), _ in rules.rooms.EXCEPT.items():
        assert f'#include "{header}"' in sources[Path(file)], file


def test_write_makes_the_table_of_options_true(tmp_path):
    plant(tmp_path, {"deploy/options.md": swap("127.0.0.1", "0.0.0.0")})
    rules.docs.option_table(Tree(tmp_path), write=True)
    assert (tmp_path / "deploy/options.md").read_text() == GOOD["deploy/options.md"]
